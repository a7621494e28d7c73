#pragma once
// States whose bfloat16 arrays are as a model's, and what a step makes of them.

#include <cstring>
#include <random>

#include "tests/codec/codec_support.hpp"

namespace sparcl::codec {

// Weights of a normal distribution, as a trained model's are, small ones among them.
inline State normal_state(std::vector<ArraySpec> specs, std::uint64_t seed) {
  State state = random_state(std::move(specs), seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  for (std::size_t i = 0; i < state.arrays.size(); ++i) {
    if (state.specs[i].datatype != DataType::kBfloat16) continue;
    for (std::size_t at = 0; at < state.arrays[i].size(); at += 2) {
      const float value = normal(random);
      std::memcpy(state.arrays[i].data() + at, reinterpret_cast<const std::byte*>(&value) + 2, 2);
    }
  }
  return state;
}

// Changes of one size, so that small weights change more often and by more: what rounding of a step in float32 does.
inline State stepped_state(const State& base, float size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, size);
  std::uniform_real_distribution<float> uniform(0, 1);
  State state = base;
  for (std::size_t i = 0; i < state.arrays.size(); ++i) {
    if (state.specs[i].datatype != DataType::kBfloat16) continue;
    for (std::size_t at = 0; at < state.arrays[i].size(); at += 2) {
      std::uint32_t bits = 0;
      std::memcpy(reinterpret_cast<std::byte*>(&bits) + 2, state.arrays[i].data() + at, 2);
      bits |= static_cast<std::uint32_t>(uniform(random) * 65536);  // the master's lower bits
      float value = 0;
      std::memcpy(&value, &bits, 4);
      value += normal(random);
      std::memcpy(state.arrays[i].data() + at, reinterpret_cast<const std::byte*>(&value) + 2, 2);
    }
  }
  return state;
}

}  // namespace sparcl::codec
