#pragma once
// Finds the blocks that differ between two states on two ends, by a search down a tree of 64-way
// sums over the blocks' hashes. (It is a Merkle tree whose inner nodes are sums, as the hash is
// linear.) It takes O(log64 blocks) exchanges of a question and an answer, about a kilobyte a level
// for each difference. Pure functions on messages: the caller sends them. Messages are untrusted.
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

// Blocks [first, first + count), some of which differ. count is a power of 64; blocks past the last
// one do not exist. With count 1 the block differs.
struct SuspectRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  friend bool operator==(const SuspectRange&, const SuspectRange&) = default;
};
using Suspects = std::vector<SuspectRange>;  // ascending

constexpr std::size_t kBisectRanges =
    1024;  // the most ranges in one question: a question has at most 1 MiB

Suspects all_blocks(const BlockSums& own);

// No range is left to narrow: the blocks that differ are known. For equal states there are none.
bool settled(const Suspects& suspects);

// A question about the first kBisectRanges ranges that can be narrowed. `own` is finished.
std::vector<std::byte> bisect_question(const BlockSums& own, const Suspects& suspects);

// Corrupt: not a question. Mismatch: a question about a state with other tensors.
Result<std::vector<std::byte>> bisect_answer(const BlockSums& own,
                                             std::span<const std::byte> question);

// Narrows the suspects by the answer to the question about them.
Status bisect_narrow(Suspects& suspects, std::uint64_t block_count,
                     std::span<const std::byte> answer);

}  // namespace sparcl::model
