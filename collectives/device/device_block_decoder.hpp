#pragma once
// Checks and writes the blocks of an update of one array in device memory: what crosses is what they take in the stream, and some
// bytes a block for the answer. Blocks are taken in batches; nothing is written before apply(), which decodes them again (but for
// the last batch, whose changes are still there): so a batch is all the memory that it takes.

#include <vector>

#include "collectives/device/device_scratch.hpp"
#include "kernels/device_block_codec.hpp"
#include "kernels/kernel_set.hpp"
#include "src/base/device_stream.hpp"
#include "src/codec/block_entry.hpp"
#include "src/codec/payload.hpp"
#include "src/codec/update.hpp"

namespace sparcl::collectives {

// Of a batch: what a chunk of the stream holds at some per cent of changes, and of memory some 20 MiB; a block at least. Heuristic.
struct BatchLimits {
  std::uint64_t blocks = 2048;
  std::uint64_t changes = std::uint64_t{1} << 20;
  std::uint64_t content_bytes = std::uint64_t{4} << 20;
};

class DeviceBlockDecoder final : public codec::BlocksElsewhere {
 public:
  // map: of one array, not empty, which is `held`. host: for the texts of what is wrong.
  DeviceBlockDecoder(DeviceScratch& scratch, const codec::BlockMap& map, std::byte* held, codec::Verify verify,
                     const kernels::KernelSet& host, void* stream, const BatchLimits& limits = {});
  // Until the stream is through with what was enqueued.
  ~DeviceBlockDecoder() override;
  DeviceBlockDecoder(const DeviceBlockDecoder&) = delete;
  DeviceBlockDecoder& operator=(const DeviceBlockDecoder&) = delete;

  // The memory that it takes. Before anything else.
  Status reserve();
  // check() has failed as a block is in a mode that the device does not read. The host does.
  bool needs_host() const { return needs_host_; }

  void hash_fresh() override { hashes_fresh_ = true; }
  Status check(const Staging& staging, const codec::BlockEntry& entry) override;
  Result<bool> flush(const Staging& staging) override;
  codec::BlockFindings take_findings() override;
  Status apply(const Staging& staging, std::span<const codec::BlockEntry> entries, bool only_fresh) override;

 private:
  struct Answer {  // of a batch, in one piece of memory: places from its start
    std::size_t hashes, errors, bytes;
  };
  static Answer answer_of(std::uint64_t block_count);
  std::uint64_t elements_of(std::uint64_t first_block, std::uint64_t block_count) const;
  std::uint64_t changes_of(const Staging& staging, const codec::BlockEntry& entry);
  bool has_room(const codec::BlockEntry& entry, std::uint64_t changes) const;
  void add(const Staging& staging, const codec::BlockEntry& entry, std::uint64_t changes);
  Status decode_batch();
  Status start_batch();
  Status finish_batch(const Staging& staging);
  void find(const codec::BlockEntry& entry, const kernels::DeviceChangeHashes& hashes);
  Status refuse(const Staging& staging, const codec::BlockEntry& entry);
  Status start_hash();
  Status apply_batch();
  Status apply_entries(const Staging& staging, std::span<const codec::BlockEntry> entries, bool only_fresh);
  kernels::DeviceChanges changes() const;

  DeviceScratch& scratch_;
  const kernels::DeviceBlockKernels& kernels_;
  const codec::BlockMap& map_;
  std::byte* held_;
  std::uint64_t count_;
  DataType type_;
  codec::Verify verify_;
  const kernels::KernelSet& host_;
  void* stream_;

  std::uint64_t most_blocks_, most_changes_, most_content_;  // of a batch
  // Places in the memory of the device, and in pinned memory.
  std::size_t starts_at_ = 0, positions_at_ = 0, old_at_ = 0, new_at_ = 0, table_at_ = 0, contents_at_ = 0, answer_at_ = 0,
              refused_at_ = 0, hash_at_ = 0, workspace_at_ = 0, device_bytes_ = 0, workspace_bytes_ = 0;
  std::size_t pinned_table_at_ = 0, pinned_contents_at_ = 0, pinned_answer_at_ = 0, pinned_refused_at_ = 0, pinned_hash_at_ = 0,
              pinned_bytes_ = 0;
  std::byte *device_ = nullptr, *pinned_ = nullptr;

  DeviceEvent has_come_;  // what was started
  bool is_under_way_ = false;
  std::vector<codec::BlockEntry> batch_;
  std::uint64_t batch_changes_ = 0, batch_bytes_ = 0;
  std::vector<std::size_t> batch_sizes_;  // of those that were checked, in entries

  codec::BlockFindings findings_;
  bool hashes_fresh_ = false;
  bool held_is_hashed_ = false;
  bool hash_is_counted_ = false;
  bool needs_host_ = false;
  bool is_enqueued_ = false;
  std::vector<std::byte> scratch_bytes_;
  codec::Payload payload_;
  codec::DecodedBlock refused_block_;
};

}  // namespace sparcl::collectives
