#include "collectives/mask/random_choice.hpp"

#include <algorithm>
#include <bit>

#include "collectives/mask/philox.hpp"

namespace sparcl::collectives {

RandomPermutation::RandomPermutation(std::uint64_t n, std::uint64_t seed, std::uint64_t step) : n_(n) {
  const auto bits = std::max(2U, static_cast<unsigned>(std::bit_width(n - 1)));
  low_bits_ = bits / 2;
  low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
  high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
  for (unsigned i = 0; i < kRounds; ++i) keys_[i] = philox_word(seed, step, i);
}

std::vector<std::uint64_t> choose(std::uint64_t n, std::uint64_t k, std::uint64_t seed, std::uint64_t step) {
  std::vector<std::uint64_t> chosen(k);
  if (k == 0) return chosen;
  const RandomPermutation permutation(n, seed, step);
  for (std::uint64_t i = 0; i < k; ++i) chosen[i] = permutation(i);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<std::uint64_t> choose_bits(std::uint64_t n, std::uint64_t k, std::uint64_t seed, std::uint64_t step) {
  std::vector<std::uint64_t> words((n + 63) / 64);
  if (n == 0) return words;
  const RandomPermutation permutation(n, seed, step);
  const bool by_the_rest = k > n / 2;  // those from k on are fewer
  const std::uint64_t first = by_the_rest ? k : 0, end = by_the_rest ? n : k;
  for (std::uint64_t i = first; i < end; ++i) {
    const std::uint64_t place = permutation(i);
    words[place / 64] |= std::uint64_t{1} << (place % 64);
  }
  if (!by_the_rest) return words;
  for (std::uint64_t& word : words) word = ~word;
  if (n % 64 != 0) words.back() &= (std::uint64_t{1} << (n % 64)) - 1;
  return words;
}

}  // namespace sparcl::collectives
