#pragma once
// Steps as tokens for the entropy coder, and the knowledge about an element that the coder may use
// beforehand (docs/reference/wire-format.md).

#include <bit>
#include <cstdint>

#include "src/codec/block_view.hpp"

namespace sparcl::codec {

// |d|: 0 to 3 are tokens of their own; from there on two a power of two, and the bits below follow
// as they are.
struct StepToken {
  std::uint8_t token;
  unsigned extra_bits;
};

constexpr unsigned kStepTokens = 128;

inline StepToken token_of(std::uint64_t magnitude) {
  if (magnitude < 4) return {static_cast<std::uint8_t>(magnitude), 0};
  const auto log = static_cast<unsigned>(std::bit_width(magnitude)) - 1;
  const auto half = static_cast<unsigned>(magnitude >> (log - 1)) & 1;
  return {static_cast<std::uint8_t>(2 * log + half), log - 1};
}

inline unsigned extra_bits_of(unsigned token) { return token < 4 ? 0 : token / 2 - 1; }

// The least |d| with this token.
inline std::uint64_t min_of(unsigned token) {
  return token < 4 ? token : std::uint64_t{2 + token % 2} << (token / 2 - 1);
}

// The approximate size of elements, as the number of an octave or of a part of one; 0 for integers,
// whose steps do not depend on it.
void element_keys(DataType type, const std::byte* elements, std::size_t count, std::uint8_t* keys);

}  // namespace sparcl::codec
