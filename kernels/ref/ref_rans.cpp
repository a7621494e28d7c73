#include "kernels/ref/ref_rans.hpp"

#include <cstring>

namespace sparcl::kernels::ref {

std::uint16_t* rans_encode(const std::uint8_t* symbols, const std::uint8_t* contexts,
                           std::size_t count, const RansPush* tables, std::uint16_t* end,
                           RansStates& states) {
  for (std::size_t i = count; i-- > 0;) {
    const RansPush& symbol =
        tables[(contexts == nullptr ? 0 : contexts[i] * kRansSymbols) + symbols[i]];
    const std::uint32_t frequency = kRansSlots - symbol.complement;
    const std::uint32_t start = frequency == 1 ? symbol.bias - (kRansSlots - 1) : symbol.bias;
    std::uint32_t& state = states[i % kRansLanes];
    if (state >= frequency << 20) {
      *--end = static_cast<std::uint16_t>(state);
      state >>= 16;
    }
    state = ((state / frequency) << kRansBits) + state % frequency + start;
  }
  return end;
}

std::size_t rans_decode(const std::byte* words, std::size_t word_count,
                        const std::uint8_t* contexts, std::size_t count,
                        const std::uint32_t* tables, RansStates& states, std::uint8_t* symbols) {
  std::size_t used = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t& state = states[i % kRansLanes];
    const std::uint32_t entry =
        tables[(contexts == nullptr ? 0 : contexts[i] * std::size_t{kRansSlots}) +
               state % kRansSlots];
    const std::uint32_t frequency = ((entry >> 8) & (kRansSlots - 1)) + 1;
    const std::uint32_t distance = entry >> 20;
    symbols[i] = static_cast<std::uint8_t>(entry);
    state = frequency * (state >> kRansBits) + distance;
    if (state >= kRansLeast) continue;
    if (used == word_count) return kNoRans;
    std::uint16_t word;
    std::memcpy(&word, words + 2 * used++, 2);
    state = state << 16 | word;
  }
  return used;
}

}  // namespace sparcl::kernels::ref
