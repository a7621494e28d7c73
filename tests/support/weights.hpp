#pragma once
// Arrays of bf16 as a model's weights are, and what a step makes of them.

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

namespace sparcl::test {

using Weights = std::vector<std::uint16_t>;

// Weights of a normal distribution, as a trained model's are.
inline Weights normal_weights(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  Weights words(count);
  for (std::uint16_t& word : words)
    word = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal(random)) >> 16);
  return words;
}

// Steps of one size, so that small weights change more often, and by more.
inline Weights stepped(const Weights& base, float size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, size);
  Weights words = base;
  for (std::uint16_t& word : words) {
    const float master = std::bit_cast<float>(std::uint32_t{word} << 16 |
                                              static_cast<std::uint32_t>(random() % 65536));
    word = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(master + normal(random)) >> 16);
  }
  return words;
}

}  // namespace sparcl::test
