#pragma once
// fp32 to bf16 and back. The trainer keeps fp32 master weights; all ranks compute with their bf16
// roundings.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sparcl/sparcl.hpp"

namespace training {

// To nearest, ties to even, as accelerators and PyTorch round. A NaN stays a NaN: rounding its bits
// up could make it an infinity.
inline sparcl::bfloat16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U)
    return {static_cast<std::uint16_t>((bits >> 16) | 0x0040U)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

inline float to_float(sparcl::bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

inline void round_to_bf16(std::span<const float> from, std::span<sparcl::bfloat16> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = to_bf16(from[i]);
}

inline void expand_to_float(std::span<const sparcl::bfloat16> from, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = to_float(from[i]);
}

}  // namespace training
