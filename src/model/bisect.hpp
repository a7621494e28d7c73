#pragma once
// Which blocks differ between two states on two ends? A search down a tree of 64-way sums over the
// blocks' hashes (a Merkle tree, whose inner nodes are sums, as the hash is linear): O(log64
// blocks) exchanges of a question and an answer, about a kilobyte a level for each place where they
// differ. Pure functions on messages: whoever sends them is not here. Messages are hostile.
//
//   asker:    Suspects suspects = all_blocks(own);
//   asker:    while (!settled(suspects)) { send(bisect_question(own, suspects));
//   answerer:                              send(bisect_answer(own, question));
//   asker:                                 bisect_narrow(suspects, own.block_count(), answer); }

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/model/block_sums.hpp"

namespace sparcl::model {

// Blocks [first, first + count) of which some differ. count is a power of 64, and past the last
// block there is none; 1: this one.
struct SuspectRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  friend bool operator==(const SuspectRange&, const SuspectRange&) = default;
};
using Suspects = std::vector<SuspectRange>;  // ascending

constexpr std::size_t kBisectRanges =
    1024;  // at most so many are asked about at once: a question has at most 1 MiB

Suspects all_blocks(const BlockSums& own);

// No range is left that could be narrowed: the blocks that differ are known. So are those of equal
// states: none.
bool settled(const Suspects& suspects);

// Of the first kBisectRanges ranges that can be narrowed. `own` is finished.
std::vector<std::byte> bisect_question(const BlockSums& own, const Suspects& suspects);

// Corrupt: no question. Mismatch: of a state with other tensors.
Result<std::vector<std::byte>> bisect_answer(const BlockSums& own,
                                             std::span<const std::byte> question);

// The answer to the question that was asked of these suspects.
Status bisect_narrow(Suspects& suspects, std::uint64_t block_count,
                     std::span<const std::byte> answer);

}  // namespace sparcl::model
