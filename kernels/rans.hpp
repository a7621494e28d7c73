#pragma once
// Contracts of the kernels for an entropy coder: range asymmetric numeral systems (Duda 2013), with
// 32 states side by side (Giesen 2014) for SIMD lanes, warps and out-of-order cores. Symbol i
// belongs to lane i mod 32. A lane's state is a number x in [2^15, 2^31). A push of a symbol of
// frequency f and start s (of 2^11) has two steps. While x >= f * 2^20, its low 16 bits leave it as
// a word (never more than one). Then x = (x / f) * 2^11 + x mod f + s. Symbols are pushed from the
// last to the first, so that they are popped in order. Words are read in the order of the symbols
// that need them. Memory space: host.

#include <array>
#include <cstddef>
#include <cstdint>

namespace sparcl::kernels {

constexpr unsigned kRansLanes = 32;
constexpr unsigned kRansBits = 11;
constexpr std::uint32_t kRansSlots = 1u << kRansBits;  // the sum of a table's frequencies
constexpr std::uint32_t kRansLeast = 1u << 15;  // of a state; also the state before the first push
constexpr std::size_t kRansSymbols = 256;
constexpr std::size_t kRansContexts = 16;

using RansStates = std::array<std::uint32_t, kRansLanes>;

// Constants that push a symbol without a division.
struct RansPush {
  std::uint32_t reciprocal;
  std::uint32_t bias;
  std::uint16_t complement;  // 2^11 - f
  std::uint16_t shift;
  std::uint32_t limit;  // f * 2^20: a state of at least this loses a word first
};

// f > 0.
constexpr RansPush rans_push(std::uint32_t frequency, std::uint32_t start) {
  // Alverson 1991: exact for x < 2^31.
  RansPush push{~0u, start + kRansSlots - 1, static_cast<std::uint16_t>(kRansSlots - frequency), 0,
                frequency << 20};
  if (frequency < 2) return push;
  unsigned bits = 0;
  while (frequency > (1u << bits)) ++bits;
  push.reciprocal =
      static_cast<std::uint32_t>(((std::uint64_t{1} << (bits + 31)) + frequency - 1) / frequency);
  push.shift = static_cast<std::uint16_t>(bits - 1);
  push.bias = start;
  return push;
}

// The entry of a slot: its symbol, f - 1 from bit 8 on, and from bit 20 on the slot's distance from
// its symbol's start.
constexpr std::uint32_t rans_pop(std::uint32_t symbol, std::uint32_t frequency,
                                 std::uint32_t distance) {
  return symbol | (frequency - 1) << 8 | distance << 20;
}

// Pushes count symbols, the last one first. tables: kRansSymbols entries for each context, valid
// for the symbols that occur. contexts[i] chooses a table; nullptr: there is one table. Words are
// written downwards from `end` (room for count of them); returns the lowest. states: before the
// call the initial states, afterwards those that a reader needs.
using RansEncodeKernel = std::uint16_t*(const std::uint8_t* symbols, const std::uint8_t* contexts,
                                        std::size_t count, const RansPush* tables,
                                        std::uint16_t* end, RansStates& states);

// The inverse. tables: kRansSlots entries for each context. The words and states are untrusted:
// returns how many of `word_count` words were read, or kNoRans if they are too few. Any alignment
// of the words. Even a wrong stream yields only symbols that are in the tables.
constexpr std::size_t kNoRans = ~std::size_t{0};
using RansDecodeKernel = std::size_t(const std::byte* words, std::size_t word_count,
                                     const std::uint8_t* contexts, std::size_t count,
                                     const std::uint32_t* tables, RansStates& states,
                                     std::uint8_t* symbols);

}  // namespace sparcl::kernels
