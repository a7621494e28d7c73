#pragma once
// States whose bfloat16 arrays are as a model's, and what a step makes of them.

#include <cstring>
#include <vector>

#include "tests/codec/codec_support.hpp"
#include "tests/support/weights.hpp"

namespace sparcl::codec {

// visit(a bfloat16 array's values) of each, which are written back.
template <class Visit>
void for_each_bfloat16(State& state, const Visit& visit) {
  for (std::size_t i = 0; i < state.arrays.size(); ++i) {
    if (state.specs[i].datatype != DataType::kBfloat16) continue;
    std::vector<std::byte>& bytes = state.arrays[i];
    if (bytes.empty()) continue;
    test::Weights weights(bytes.size() / 2);
    std::memcpy(weights.data(), bytes.data(), bytes.size());
    weights = visit(weights, i);
    std::memcpy(bytes.data(), weights.data(), bytes.size());
  }
}

// The other arrays are random.
inline State normal_state(std::vector<ArraySpec> specs, std::uint64_t seed) {
  State state = random_state(std::move(specs), seed);
  for_each_bfloat16(state, [&](const test::Weights& old, std::size_t i) {
    return test::normal_weights(old.size(), seed + i);
  });
  return state;
}

inline State stepped_state(const State& base, float size, std::uint64_t seed) {
  State state = base;
  for_each_bfloat16(state, [&](const test::Weights& old, std::size_t i) {
    return test::stepped(old, size, seed + i);
  });
  return state;
}

}  // namespace sparcl::codec
