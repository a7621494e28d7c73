#pragma once
// Codes the differences between arrays in device memory and their bases, section by section. Only
// the coded blocks are transferred. The device codes the next section while the host writes one
// into the stream.

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

// The arrays of a map that has elements; they outlive the encoder. owner: keeps bases alive while a
// stream reads them, or nullptr.
struct DevicePair {
  const codec::BlockMap* map;
  std::span<const std::byte*const> base, target;
  std::shared_ptr<const void> owner = nullptr;
};

// Neighbouring blocks. For each block, numbered from the section's first, and for one more:
struct CodedSection {
  std::uint64_t first_block;
  std::uint64_t block_count;
  const std::uint64_t* change_starts;
  const kernels::BlockContent* blocks;  // offsets into contents
  const kernels::DeviceChangeHashes* hashes;
  const std::byte* contents;
  const codec::RegionTable* table;  // for its blocks of classes; nullptr: there are none
};

// Limits of a section: enough blocks to fill a GPU, and changes that take 30 to 70 MiB of its
// memory; at least those of a block. Heuristic.
struct SectionLimits {
  std::uint64_t blocks = 256;
  std::uint64_t changes = std::uint64_t{2} << 20;
};
// One block of threads codes a superblock: four times the blocks fill a GPU.
constexpr SectionLimits kLimitsWithClasses{4 * SectionLimits().blocks, SectionLimits().changes};

class DeviceBlockEncoder {
 public:
  // with_classes: codes 16-bit floats in classes if that is smaller.
  DeviceBlockEncoder(DeviceScratch& scratch, const DevicePair& arrays, void* stream,
                     bool with_classes = false)
      : DeviceBlockEncoder(scratch, arrays, stream, with_classes,
                           with_classes ? kLimitsWithClasses : SectionLimits()) {}
  DeviceBlockEncoder(DeviceScratch& scratch, const DevicePair& arrays, void* stream,
                     bool with_classes, const SectionLimits& limits);
  ~DeviceBlockEncoder();
  DeviceBlockEncoder(const DeviceBlockEncoder&) = delete;
  DeviceBlockEncoder& operator=(const DeviceBlockEncoder&) = delete;

  // Reserves its memory.
  Status reserve();
  // hashes_base: base_sum() is wanted.
  Status begin(bool hashes_base);
  bool has_more() const { return is_sampling_ || coming_.has_value() || coded_.has_value(); }
  // next() would have nothing to do.
  bool is_waiting() const {
    return is_sampling_ ? !classes_->is_there() : !(coded_ ? have_come_ : is_coded_).is_over();
  }
  // The next section, valid until the following call; nullopt: not arrived yet. Sections cover all
  // blocks, in order.
  Result<std::optional<CodedSection>> next();
  // The bases' contribution to their state's hash; available after the first section.
  Hash128 base_sum() const;

 private:
  struct Section {
    BlockSpan span;
    unsigned half = 0;  // of the pinned memory
    const codec::RegionTable* table = nullptr;
  };
  struct Meta {
    std::size_t starts, blocks, hashes, bytes;
  };

  static Meta meta_of(std::uint64_t block_count);
  // Returns the address of a section's elements, which may be copied to `at` in device memory.
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
  std::uint64_t max_changes_;  // of a section: changes without room are coded with the next
  std::uint64_t section_blocks_;
  // Offsets in device memory, and in pinned memory.
  std::size_t meta_at_ = 0, positions_at_ = 0, old_at_ = 0, new_at_ = 0, contents_at_ = 0,
              hash_at_ = 0, workspace_at_ = 0, base_at_ = 0, target_at_ = 0, classes_end_at_ = 0,
              samples_at_ = 0, class_workspace_at_ = 0;
  std::size_t workspace_bytes_ = 0, class_workspace_bytes_ = 0, device_bytes_ = 0;
  std::array<std::size_t, 2> pinned_meta_at_{};
  std::size_t pinned_hash_at_ = 0, pinned_contents_at_ = 0, pinned_samples_at_ = 0,
              pinned_contents_end_ = 0, pinned_bytes_ = 0;
  std::byte *device_ = nullptr, *pinned_ = nullptr;
  // A coded section, whose contents are copied while the next is coded.
  std::optional<Section> coming_;
  gpu::DeviceEvent is_coded_;
  std::optional<CodedSection> coded_;
  gpu::DeviceEvent have_come_;
};

}  // namespace sparcl::device
