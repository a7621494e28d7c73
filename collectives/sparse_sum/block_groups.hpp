#pragma once
// The index space in groups of blocks, which follow each other through a sum. In each group each
// rank owns some blocks.

#include <algorithm>
#include <cstdint>

#include "collectives/sparse_sum/sparse_sum.hpp"

namespace sparcl::collectives::sparse_sum {

struct BlockGroups {
  sparse::BlockRun whole;
  std::uint64_t count = 1;
  std::uint64_t blocks_per_rank = 1;

  // The blocks of `owners` ranks from first_owner on; owners are counted through all groups.
  sparse::BlockRun run(std::uint64_t first_owner, std::uint64_t owners) const {
    sparse::BlockRun run = whole;
    run.first = std::min(first_owner * blocks_per_rank, whole.blocks);
    run.blocks = std::min(owners * blocks_per_rank, whole.blocks - run.first);
    return run;
  }
};

inline BlockGroups block_groups(const LinkCost& link, const sparse::BlockRun& whole,
                                std::uint64_t max_entries, int ranks) {
  // Entries of a part. Heuristic: about 100 KB. Over slow links a part has fewer entries, so that
  // sums are made while other parts are sent (bench/hosts/all_reduce: 10 ms of 60).
  constexpr std::uint64_t kPartEntries = 16384, kSlowPartEntries = 2048;
  constexpr std::uint64_t kMaxGroups = 256;
  const auto p = static_cast<std::uint64_t>(ranks);
  const std::uint64_t entries = link.is_slow() ? kSlowPartEntries : kPartEntries;
  const std::uint64_t wanted =
      std::clamp<std::uint64_t>(max_entries / (p * entries), 1, kMaxGroups);
  const std::uint64_t per_rank =
      std::max<std::uint64_t>(1, (whole.blocks + p * wanted - 1) / (p * wanted));
  return {whole, (whole.blocks + p * per_rank - 1) / (p * per_rank), per_rank};
}

// For the prediction, in blocks of 2^16.
inline double group_count(const LinkCost& link, const SumShape& shape) {
  const sparse::BlockRun whole{0, (shape.count >> 16) + 1};
  return static_cast<double>(block_groups(link, whole, shape.max_entries, shape.ranks).count);
}

// The time of groups that follow each other without a pause. Over slow links, where ranks wait, all
// work but the last group's overlaps with sending. Inside a node messages are work, too.
inline double together_seconds(const LinkCost& link, double groups, double travel, double work) {
  return link.is_slow() ? std::max(travel, work) + std::min(travel, work) / groups : travel + work;
}

}  // namespace sparcl::collectives::sparse_sum
