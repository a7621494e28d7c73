#pragma once
// A random choice of exactly k of n numbers, the same on every machine: a pure function of n, k,
// seed and step.
//
// Numbers are chosen stratum by stratum (64 Ki of them). Each stratum has its share of k, rounded
// up or down by one random offset for all (systematic sampling: Madow 1944). Inside a stratum the
// choice is the image of [0, share) under a random permutation. The permutation is an alternating
// Feistel network (Luby, Rackoff 1988) with multiplications as rounds and keys by Philox. So all
// numbers are equally likely, the working set fits the L1 cache, and ranks with slices of equal
// size have about equal parts of the choice.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/bit_stream.hpp"
#include "kernels/diff.hpp"

namespace sparcl::sparse {

constexpr std::uint64_t kStratum = std::uint64_t{1} << 16;

// A random permutation of [0, size), size <= kStratum. Values outside are permuted again (Black,
// Rogaway 2002: cycle walking).
class StratumPermutation {
 public:
  StratumPermutation(std::uint32_t size, std::uint64_t seed, std::uint64_t step,
                     std::uint64_t stratum);
  // images[i] = the image of first + i.
  void apply(std::uint32_t first, std::uint32_t count, std::uint16_t* images) const;

 private:
  static constexpr unsigned kRounds = 8;
  std::uint16_t shuffled(std::uint16_t i) const;

  std::uint32_t size_;
  unsigned low_bits_;
  std::uint16_t low_mask_;
  std::uint16_t high_mask_;
  std::array<std::uint16_t, kRounds> adders_;
  std::array<std::uint16_t, kRounds> factors_;
};

class RandomChoice {
 public:
  RandomChoice(std::uint64_t n, std::uint64_t k, std::uint64_t seed, std::uint64_t step);  // k <= n

  std::uint64_t strata() const { return (n_ + kStratum - 1) / kStratum; }
  // The number of chosen numbers before a stratum; before strata(): k.
  std::uint64_t chosen_before(std::uint64_t stratum) const;
  // The chosen numbers of a stratum, ascending, counted from its first; room for kPositionSlack
  // more than it has. Returns their number.
  std::uint32_t take(std::uint64_t stratum, std::uint16_t* places);

 private:
  std::uint64_t n_;
  std::uint64_t k_;
  std::uint64_t seed_;
  std::uint64_t step_;
  std::uint64_t offset_;
  std::vector<std::uint16_t> images_;
  std::array<std::uint64_t, kStratum / 64 + kernels::kBitSlackBytes / 8>
      bits_{};  // zeros between calls
};

// All of them, ascending.
std::vector<std::uint64_t> choose(std::uint64_t n, std::uint64_t k, std::uint64_t seed,
                                  std::uint64_t step);

}  // namespace sparcl::sparse
