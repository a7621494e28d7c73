#pragma once
// Neighbouring blocks of an update that are copied to a device, decoded there against the held
// values, and written. The changes of batches stay in device memory while there is room for them.

#include <span>
#include <vector>

#include "kernels/device_block_codec.hpp"
#include "src/codec/block_entry.hpp"
#include "src/device/device_scratch.hpp"
#include "src/device/device_spans.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::device {

// The limits of a batch: about the blocks of one chunk of the stream at a few percent density; at
// least a block. With the kept changes it takes 40 to 120 MiB of device memory. Heuristic.
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

  // Reserves its memory. Call it first.
  Status reserve();

  // A table for blocks of classes that come after it.
  void add_table(const kernels::ClassTable& table) { tables_.push_back(table); }
  const kernels::ClassTable& table_of(const codec::BlockEntry& entry) const {
    return tables_[entry.table];
  }

  std::uint32_t elements_of(const codec::BlockEntry& entry) const;
  // The number of changes of an entry that the device decodes; 0: unknown or invalid.
  std::uint64_t changes_of(const Staging& staging, const codec::BlockEntry& entry) const;

  // Does the entry fit into a batch of its own?
  bool takes(const codec::BlockEntry& entry) const;
  bool has_room(const codec::BlockEntry& entry, std::uint64_t changes) const;
  // Adds a block that the device decodes, with its number of changes; entries ascend.
  void add(const Staging& staging, const codec::BlockEntry& entry, std::uint64_t changes);
  std::span<const codec::BlockEntry> entries() const { return entries_; }
  std::uint64_t changes() const { return changes_; }
  bool empty() const { return entries_.empty(); }
  void clear();

  // These calls enqueue, and are made inside the device's context. decode() decodes the added
  // entries and copies the result to the host.
  Status decode();
  // After that work is done: the error of an entry, or of a block.
  kernels::BlockError error_of(const codec::BlockEntry& entry) const;
  const kernels::DeviceChangeHashes& hashes_of(std::uint64_t block) const;

  // Hashes all of the arrays; the sum is available when that work is done.
  Status hash_array();
  Hash128 array_sum() const;

  // The decoded changes are right and stay. Returns how many batches' changes are kept, including
  // the last one's.
  void keep();
  std::size_t kept() const { return kept_.size(); }
  // Writes the kept changes, which are then released, or the changes decoded last.
  Status apply_kept();
  Status apply();
  // Writes a block as received over the array's block. half: 0 or 1, of the memory that batches
  // use; it is free again when that work is done.
  Status write_whole(const Staging& staging, const codec::BlockEntry& entry, unsigned half);
  // After the stream's work is done: no write was refused.
  bool was_applied() const;

 private:
  struct Changes {  // of a batch: offsets in the arrays of all batches
    std::uint64_t at = 0, starts_at = 0;
    BlockSpan span;
  };
  struct Answer {  // in one piece of memory: offsets from its start
    std::size_t hashes, errors, bytes;
  };
  static Answer answer_of(std::uint64_t block_count);
  std::uint64_t first_block() const { return entries_.front().index; }
  std::uint64_t block_count() const { return entries_.back().last - first_block(); }
  std::byte* gathered() const { return device_ + gathered_at_; }
  // The address of a span's elements, which are gathered first if necessary.
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
  // Offsets in device memory, and in pinned memory.
  std::size_t starts_at_ = 0, positions_at_ = 0, old_at_ = 0, new_at_ = 0, table_at_ = 0,
              contents_at_ = 0, answer_at_ = 0, refused_at_ = 0, hash_at_ = 0, workspace_at_ = 0,
              class_workspace_at_ = 0, gathered_at_ = 0, device_bytes_ = 0, workspace_bytes_ = 0,
              class_workspace_bytes_ = 0;
  std::size_t pinned_table_at_ = 0, pinned_contents_at_ = 0, pinned_answer_at_ = 0,
              pinned_refused_at_ = 0, pinned_hash_at_ = 0, pinned_bytes_ = 0;
  std::byte *device_ = nullptr, *pinned_ = nullptr;

  std::vector<kernels::ClassTable> tables_;
  std::vector<codec::BlockEntry> entries_;
  bool has_classes_ = false;  // among the added entries
  BlockSpan span_;            // that contains the added entries
  std::uint64_t changes_ = 0, content_bytes_ = 0;
  Changes decoded_;
  std::vector<Changes> kept_;
  std::uint64_t kept_changes_ = 0, kept_starts_ = 0;
};

// Upper bound of the bytes of a valid content.
constexpr std::uint64_t max_content(std::uint64_t elements, std::uint64_t blocks) {
  // A change takes at most 3 bytes in each of two lists, a sign, and 127 bits of a size; or its
  // value.
  return 24 * elements + 64 * blocks;
}
static_assert(BatchLimits().content_bytes >= max_content(codec::kBlockElements, 1));
static_assert(max_content(1, 1) >= 2 * (8 + kernels::kContentAlignment), "two blocks as they are");

// For modes that the device decodes; find_block_mode(mode)->on_device tells which. The device
// handles fresh blocks like other whole blocks; only the host distinguishes them.
bool is_fresh(std::uint8_t mode);
bool lists_positions(std::uint8_t mode);
bool is_of_classes(std::uint8_t mode);

}  // namespace sparcl::device
