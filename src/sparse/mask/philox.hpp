#pragma once
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011):
// random words as a function of a counter and a key, without a state.

#include <array>
#include <cstdint>

namespace sparcl::sparse {

using PhiloxWords = std::array<std::uint32_t, 4>;

constexpr PhiloxWords philox4x32(PhiloxWords counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// 64 random bits for (seed, step, place, index): index < 2^16, place < 2^48.
constexpr std::uint64_t philox_word(std::uint64_t seed, std::uint64_t step, std::uint64_t place,
                                    std::uint32_t index) {
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  const PhiloxWords words =
      philox4x32({low(place), low(place >> 32) << 16 | index, low(step), low(step >> 32)},
                 {low(seed), low(seed >> 32)});
  return words[0] | std::uint64_t{words[1]} << 32;
}

}  // namespace sparcl::sparse
