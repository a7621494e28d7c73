#pragma once
// Some neighbouring blocks of an update on their way to a device, decoded there against what is
// held, and written. The changes of batches stay in the device's memory while there is room for
// them.

#include <span>
#include <vector>

#include "kernels/device_block_codec.hpp"
#include "src/codec/block_entry.hpp"
#include "src/device/device_scratch.hpp"
#include "src/device/device_spans.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::device {

// Of a batch: what a chunk of the stream holds at some per cent of changes; a block at least. With
// what is kept 40 to 120 MiB of the device's memory. Heuristic.
struct BatchLimits {
  std::uint64_t blocks = 2048;
  std::uint64_t changes = std::uint64_t{1} << 20;
  std::uint64_t content_bytes = std::uint64_t{4} << 20;
  std::uint64_t kept_changes = std::uint64_t{4} << 20;  // of several batches
};

class DeviceDecodeBatch {
 public:
  // arrays: of the map, which has elements; they outlive it.
  DeviceDecodeBatch(DeviceScratch& scratch, const codec::BlockMap& map,
                    std::span<std::byte* const> arrays, void* stream, const BatchLimits& limits);

  // The memory that it takes. Before anything else.
  Status reserve();

  // Of blocks of classes that come after it.
  void add_table(const kernels::ClassTable& table) { tables_.push_back(table); }
  const kernels::ClassTable& table_of(const codec::BlockEntry& entry) const {
    return tables_[entry.table];
  }

  std::uint32_t elements_of(const codec::BlockEntry& entry) const;
  // Of an entry that is read on the device; 0: it does not say, or it is wrong.
  std::uint64_t changes_of(const Staging& staging, const codec::BlockEntry& entry) const;

  // Is there room for it in a batch of its own?
  bool takes(const codec::BlockEntry& entry) const;
  bool has_room(const codec::BlockEntry& entry, std::uint64_t changes) const;
  // Of a block that is read on the device, and has so many changes; entries ascend.
  void add(const Staging& staging, const codec::BlockEntry& entry, std::uint64_t changes);
  std::span<const codec::BlockEntry> entries() const { return entries_; }
  std::uint64_t changes() const { return changes_; }
  bool empty() const { return entries_.empty(); }
  void clear();

  // All of these enqueue, and are inside the device's context. Decodes what was added; its answer
  // comes to the host.
  Status decode();
  // Once that is through: of an entry, or of a block.
  kernels::BlockError error_of(const codec::BlockEntry& entry) const;
  const kernels::DeviceChangeHashes& hashes_of(std::uint64_t block) const;

  // What all of the arrays add to their state's hash, once that is through.
  Status hash_array();
  Hash128 array_sum() const;

  // What was decoded is right: its changes stay. How many batches' changes are there, up to the
  // last one's.
  void keep();
  std::size_t kept() const { return kept_.size(); }
  // Writes the changes that were kept, which then are no more; or those that were decoded last.
  Status apply_kept();
  Status apply();
  // A block as it came, over what the array has there; half: 0 or 1, of the memory that batches go
  // through, free again when that is through.
  Status write_whole(const Staging& staging, const codec::BlockEntry& entry, unsigned half);
  // Once the stream is through: nothing that was to be written was refused.
  bool was_applied() const;

 private:
  struct Changes {  // of a batch: places in what is for all
    std::uint64_t at = 0, starts_at = 0;
    BlockSpan span;
  };
  struct Answer {  // in one piece of memory: places from its start
    std::size_t hashes, errors, bytes;
  };
  static Answer answer_of(std::uint64_t block_count);
  std::uint64_t first_block() const { return entries_.front().index; }
  std::uint64_t block_count() const { return entries_.back().last - first_block(); }
  std::byte* gathered() const { return device_ + gathered_at_; }
  // Where a span's elements are, brought there if they have to be.
  Result<std::byte*> bring(const BlockSpan& span);
  kernels::DeviceChanges memory_of(const Changes& changes) const;
  static std::uint64_t content_bytes_of(const codec::BlockEntry& entry);
  std::uint64_t* refused() const { return reinterpret_cast<std::uint64_t*>(device_ + refused_at_); }
  void place_changes();
  Status apply(const Changes& changes);

  DeviceScratch& scratch_;
  const kernels::DeviceBlockKernels& kernels_;
  DeviceSpans spans_;
  std::span<std::byte* const> arrays_;
  std::vector<const std::byte*> read_arrays_;
  void* stream_;
  std::uint64_t max_blocks_, max_changes_, max_content_, max_kept_, max_starts_;
  // Places in the memory of the device, and in pinned memory.
  std::size_t starts_at_ = 0, positions_at_ = 0, old_at_ = 0, new_at_ = 0, table_at_ = 0,
              contents_at_ = 0, answer_at_ = 0, refused_at_ = 0, hash_at_ = 0, workspace_at_ = 0,
              class_workspace_at_ = 0, gathered_at_ = 0, device_bytes_ = 0, workspace_bytes_ = 0,
              class_workspace_bytes_ = 0;
  std::size_t pinned_table_at_ = 0, pinned_contents_at_ = 0, pinned_answer_at_ = 0,
              pinned_refused_at_ = 0, pinned_hash_at_ = 0, pinned_bytes_ = 0;
  std::byte *device_ = nullptr, *pinned_ = nullptr;

  std::vector<kernels::ClassTable> tables_;
  std::vector<codec::BlockEntry> entries_;
  bool has_classes_ = false;  // among them
  BlockSpan span_;            // that they are of
  std::uint64_t changes_ = 0, content_bytes_ = 0;
  Changes decoded_;
  std::vector<Changes> kept_;
  std::uint64_t kept_changes_ = 0, kept_starts_ = 0;
};

// At most the bytes of a content that can be right.
constexpr std::uint64_t max_content(std::uint64_t elements, std::uint64_t blocks) {
  // Of a change at most 3 bytes in each of two lists, a sign, and 127 bits of a size; or its value.
  return 24 * elements + 64 * blocks;
}
static_assert(BatchLimits().content_bytes >= max_content(codec::kBlockElements, 1));
static_assert(max_content(1, 1) >= 2 * (8 + kernels::kContentAlignment), "two blocks as they are");

// Of modes that are read on the device; find_block_mode(mode)->on_device says which these are.
// Fresh blocks are there as any whole ones: what tells them apart is the host's.
bool is_fresh(std::uint8_t mode);
bool lists_positions(std::uint8_t mode);
bool is_of_classes(std::uint8_t mode);

}  // namespace sparcl::device
