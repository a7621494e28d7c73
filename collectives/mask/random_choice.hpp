#pragma once
// A random choice of exactly k of n numbers, the same on every machine: a pure function of n, k, seed and step.

#include <cstdint>
#include <vector>

namespace sparcl::collectives {

// A random permutation of [0, n): an alternating Feistel network (Luby, Rackoff 1988) over the smallest power of two that holds n,
// with keys by Philox and multiplications as rounds; what falls outside is sent round again (Black, Rogaway 2002: cycle walking).
class RandomPermutation {
 public:
  RandomPermutation(std::uint64_t n, std::uint64_t seed, std::uint64_t step);  // n >= 1
  std::uint64_t operator()(std::uint64_t i) const {                            // i < n
    do i = shuffled(i);
    while (i >= n_);
    return i;
  }

 private:
  static constexpr unsigned kRounds = 8;
  std::uint64_t shuffled(std::uint64_t i) const {
    std::uint64_t low = i & low_mask_, high = i >> low_bits_;
    for (unsigned round = 0; round < kRounds; round += 2) {
      low ^= mixed(high, keys_[round]) & low_mask_;
      high ^= mixed(low, keys_[round + 1]) & high_mask_;
    }
    return high << low_bits_ | low;
  }
  static std::uint64_t mixed(std::uint64_t word, std::uint64_t key) {
    const std::uint64_t product = (word ^ key) * 0xD2E7470EE14C6C93;
    return product >> 32 ^ product >> 47;
  }

  std::uint64_t n_;
  unsigned low_bits_;
  std::uint64_t low_mask_;
  std::uint64_t high_mask_;
  std::uint64_t keys_[kRounds];
};

// The first k numbers of that permutation, ascending. k <= n.
std::vector<std::uint64_t> choose(std::uint64_t n, std::uint64_t k, std::uint64_t seed, std::uint64_t step);

// The same as a bitmap: bit i of word i / 64. For choices that are not too rare: n / 8 bytes.
std::vector<std::uint64_t> choose_bits(std::uint64_t n, std::uint64_t k, std::uint64_t seed, std::uint64_t step);

}  // namespace sparcl::collectives
