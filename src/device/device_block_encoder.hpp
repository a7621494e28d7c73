#pragma once
// Codes what differs between arrays in device memory and their bases, section by section: what
// crosses is what the blocks take in the stream. While the host writes one section into the stream
// the device is at the next.

#include <array>
#include <memory>
#include <optional>

#include "kernels/device_block_codec.hpp"
#include "src/base/checksum.hpp"
#include "src/device/device_class_tables.hpp"
#include "src/device/device_scratch.hpp"
#include "src/device/device_spans.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::device {

// Of a map that has elements; they outlive who codes them. The owner of bases that may go while a
// stream reads them, or nullptr.
struct DevicePair {
  const codec::BlockMap* map;
  std::span<const std::byte*const> base, target;
  std::shared_ptr<const void> owner = nullptr;
};

// Neighbouring blocks; of each, numbered from the section's first, and one more:
struct CodedSection {
  std::uint64_t first_block;
  std::uint64_t block_count;
  const std::uint64_t* change_starts;
  const kernels::BlockContent* blocks;  // offsets into contents
  const kernels::DeviceChangeHashes* hashes;
  const std::byte* contents;
  const codec::RegionTable* table;  // of its blocks of classes; nullptr: there are none
};

// Of a section: enough blocks to fill a GPU, and of changes what takes 30 to 70 MiB of its memory;
// those of a block at least. Heuristic.
struct SectionLimits {
  std::uint64_t blocks = 256;
  std::uint64_t changes = std::uint64_t{2} << 20;
};
// Superblocks are coded by one block of threads each: four times the blocks fill a GPU.
constexpr SectionLimits kLimitsWithClasses{4 * SectionLimits().blocks, SectionLimits().changes};

class DeviceBlockEncoder {
 public:
  // with_classes: of 16-bit floats, where they gain.
  DeviceBlockEncoder(DeviceScratch& scratch, const DevicePair& arrays, void* stream,
                     bool with_classes = false)
      : DeviceBlockEncoder(scratch, arrays, stream, with_classes,
                           with_classes ? kLimitsWithClasses : SectionLimits()) {}
  DeviceBlockEncoder(DeviceScratch& scratch, const DevicePair& arrays, void* stream,
                     bool with_classes, const SectionLimits& limits);
  ~DeviceBlockEncoder();
  DeviceBlockEncoder(const DeviceBlockEncoder&) = delete;
  DeviceBlockEncoder& operator=(const DeviceBlockEncoder&) = delete;

  // The memory that it takes.
  Status reserve();
  // hashes_base: base_sum() is wanted.
  Status begin(bool hashes_base);
  bool has_more() const { return is_sampling_ || coming_.has_value() || coded_.has_value(); }
  // next() would find nothing to do.
  bool is_waiting() const {
    return is_sampling_ ? !classes_->is_there() : !(coded_ ? have_come_ : is_coded_).is_over();
  }
  // The next section, until the call after; nothing: it is not there yet. Sections are all blocks,
  // in order.
  Result<std::optional<CodedSection>> next();
  // What the bases add to their state's hash: after the first section.
  Hash128 base_sum() const;

 private:
  struct Section {
    BlockSpan span;
    unsigned half = 0;  // of what the host gets of it
    const codec::RegionTable* table = nullptr;
  };
  struct Meta {
    std::size_t starts, blocks, hashes, bytes;
  };

  static Meta meta_of(std::uint64_t block_count);
  // Of a section: where its elements are, or are brought to, `at` in the device's memory.
  Result<const std::byte*> bring(const BlockSpan& span, std::span<const std::byte* const> arrays,
                                 std::size_t at);
  BlockSpan span_from(std::uint64_t block);
  std::uint64_t whole_superblocks(const BlockSpan& span, std::uint64_t coded) const;
  void plan_next(const Section& section, std::uint64_t coded);
  Status enqueue(Section section);
  Status enqueue_contents();

  DeviceScratch& scratch_;
  const kernels::DeviceBlockKernels& kernels_;
  DevicePair arrays_;
  DeviceSpans spans_;
  void* stream_;
  std::optional<DeviceClassTables> classes_;
  bool is_sampling_ = false;
  std::uint64_t all_blocks_;
  std::uint64_t max_blocks_;   // of a section
  std::uint64_t max_changes_;  // of a section: what has no room is coded with the next
  std::uint64_t section_blocks_;
  // Places in the memory of the device, and in pinned memory.
  std::size_t meta_at_ = 0, positions_at_ = 0, old_at_ = 0, new_at_ = 0, contents_at_ = 0,
              hash_at_ = 0, workspace_at_ = 0, base_at_ = 0, target_at_ = 0, classes_end_at_ = 0,
              samples_at_ = 0, class_workspace_at_ = 0;
  std::size_t workspace_bytes_ = 0, class_workspace_bytes_ = 0, device_bytes_ = 0;
  std::array<std::size_t, 2> pinned_meta_at_{};
  std::size_t pinned_hash_at_ = 0, pinned_contents_at_ = 0, pinned_samples_at_ = 0,
              pinned_contents_end_ = 0, pinned_bytes_ = 0;
  std::byte *device_ = nullptr, *pinned_ = nullptr;
  // A section is coded, then its contents come while the next is coded.
  std::optional<Section> coming_;
  gpu::DeviceEvent is_coded_;
  std::optional<CodedSection> coded_;
  gpu::DeviceEvent have_come_;
};

}  // namespace sparcl::device
