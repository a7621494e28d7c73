#pragma once
// The implementation of an UpdateDecoder: the state of one stream (update_decoder.cpp), and the
// readers of its sections (update_sections.cpp).

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/worker_pool.hpp"
#include "src/codec/base_check.hpp"
#include "src/codec/block_decoder.hpp"
#include "src/codec/frame_reader.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

struct UpdateVersions {
  std::uint64_t base_version = 0;
  std::uint64_t target_version = 0;
  std::uint32_t flags = 0;
};

struct UpdateDecoder::Impl {
  Impl(const BlockMap& block_map, std::span<std::byte* const> held_arrays, Verify verify_level,
       const Hash128& schema, const kernels::KernelSet& kernel_set, Writing writing_time)
      : input{block_map, {held_arrays.begin(), held_arrays.end()}, verify_level, kernel_set, {},
              {}},
        expected_schema(schema),
        writing(writing_time),
        frame(StreamKind::kUpdate),
        check(verify_level, schema) {
    if (writing == Writing::kOver) check.expect_nothing_held();
    add_worker();
    statuses.resize(1);
  }

  void add_worker();
  std::uint64_t whole_elements() const;  // of all blocks that are sent whole
  void advance_or_fail(const Staging& staging, std::uint64_t available, std::uint64_t budget_blocks,
                       bool& more);
  Status advance(const Staging& staging, std::uint64_t available, std::uint64_t budget_blocks,
                 bool& more);
  Status handle(const Staging& staging, const Section& section);
  Result<bool> hand_over(const Staging& staging);
  Status check_batch(const Staging& staging);
  template <class Work>
  void run(const Work& work);
  Status check_share(const Staging& staging, unsigned worker);
  void take_findings();
  void add(const BlockFindings& found);
  void stop_early();
  Status read_header(const std::byte* at);
  Status read_chunk_end(const std::byte* at);
  Status placed(const Status& status, std::uint64_t first, std::uint64_t last) const;
  Status read_end(const std::byte* at, std::uint64_t bytes);
  Status add_table(const std::byte* at, std::uint64_t bytes);
  Result<bool> add_entry(const Staging& staging, const Section& section);
  bool skip_outside(const BlockEntry& entry);
  Status read_window_end() const;
  Status add_superblock(BlockEntry& entry);
  Status add_group(const Staging& staging, BlockEntry& entry);
  std::uint64_t hashes_before(const Section& found) const;
  void hash_unchanged(std::uint64_t end, std::uint64_t& budget);
  bool keeps_changes() const {
    return changes_budget.max_bytes > 0 && !changes_budget.is_spent() &&
           writing == Writing::kStaged && elsewhere == nullptr && !check.already_applied();
  }
  void join_changes();
  Status apply(const Staging& staging);
  Status apply_share(const Staging& staging, unsigned worker);

  DecodeInput input;
  Hash128 expected_schema;
  Writing writing;
  FrameReader frame;
  BaseCheck check;
  WorkerPool* pool = nullptr;
  BlocksElsewhere* elsewhere = nullptr;  // replaces the workers
  ChangesBudget changes_budget;          // outlives the workers
  kernels::Output whole_blocks = kernels::Output::kCached;
  ChangeLog changes;                   // kept by all workers, after all are checked
  std::vector<ChangeLog::Room> rooms;  // of each worker, needed to write them
  std::vector<std::unique_ptr<BlockDecoder>> workers;
  std::vector<Status> statuses;  // of each

  Status error;  // the first error
  UpdateVersions header;
  std::vector<std::byte> attachment;
  std::vector<BlockEntry> entries;
  std::size_t batch_begin = 0;  // entries [batch_begin, batch_end) wait for the workers
  std::size_t batch_end = 0;
  bool table_is_used = true;             // the last one
  bool fits_held = true;                 // Verify::kOff: of all blocks of classes
  std::uint64_t next_block = 0;          // the smallest index that the next block can have
  std::uint64_t hashed_block = 0;        // kFull: all below are in the hashes
  std::size_t chunk_entries = 0;         // the entries of the chunk begin here
  bool chunk_is_whole = true;            // all its entries lie in the window
  std::uint64_t skipped_entries = 0;     // that lie outside the window
  std::uint64_t window_blocks = 0;       // of the window, in entries
  std::optional<BlockRange> odd_blocks;  // the first with old values that differ from the base's,
                                         // as far as their short check tells
  std::uint64_t coded_elements = 0;
  std::uint64_t changed = 0;
  std::optional<Hash128> base_hash, target_hash;
  bool ended = false;
  bool finished = false;
  std::optional<Section> section;  // found, but not handled yet
  std::vector<std::byte> scratch;
};

}  // namespace sparcl::codec
