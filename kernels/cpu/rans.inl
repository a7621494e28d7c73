// Part of cpu_kernels.cpp, compiled once for each instruction set. AVX-512 has everything that a
// row of lanes needs: gathers, and moves of words to and from the lanes that need one. Other
// instruction sets use a loop over the lanes, whose independent chains the core overlaps.

HWY_INLINE std::uint32_t push_symbol(std::uint32_t state, const RansPush& symbol,
                                     std::uint16_t*& out) {
  if (state >= symbol.limit) {
    *--out = static_cast<std::uint16_t>(state);
    state >>= 16;
  }
  const auto quotient =
      static_cast<std::uint32_t>((std::uint64_t{state} * symbol.reciprocal) >> 32) >> symbol.shift;
  return state + symbol.bias + quotient * symbol.complement;
}

HWY_INLINE const RansPush* push_table(const RansPush* tables, const std::uint8_t* contexts,
                                      std::size_t i) {
  return contexts == nullptr ? tables : tables + contexts[i] * kRansSymbols;
}

HWY_INLINE std::uint16_t load_word(const std::byte* words) {
  std::uint16_t word;
  std::memcpy(&word, words, 2);
  return word;
}

// Symbols [first, first + lanes) of one row.
HWY_INLINE std::uint16_t* push_row(const std::uint8_t* symbols, const std::uint8_t* contexts,
                                   std::size_t first, std::size_t lanes, const RansPush* tables,
                                   std::uint16_t* out, RansStates& states) {
  for (std::size_t lane = lanes; lane-- > 0;) {
    const std::size_t i = first + lane;
    states[lane] = push_symbol(states[lane], push_table(tables, contexts, i)[symbols[i]], out);
  }
  return out;
}

// As many words as there are lanes are readable.
HWY_INLINE const std::byte* pop_row(const std::byte* words, const std::uint8_t* contexts,
                                    std::size_t first, std::size_t lanes,
                                    const std::uint32_t* tables, RansStates& states,
                                    std::uint8_t* symbols) {
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const std::uint32_t* table =
        contexts == nullptr ? tables : tables + contexts[first + lane] * std::size_t{kRansSlots};
    std::uint32_t state = states[lane];
    const std::uint32_t entry = table[state % kRansSlots];
    symbols[first + lane] = static_cast<std::uint8_t>(entry);
    state = ((entry >> 8 & (kRansSlots - 1)) + 1) * (state >> kRansBits) + (entry >> 20);
    const bool needs = state < kRansLeast;
    const std::uint32_t refilled = state << 16 | load_word(words);
    states[lane] = needs ? refilled : state;
    words += needs ? 2 : 0;
  }
  return words;
}

#if HWY_TARGET <= HWY_AVX3

constexpr int kSixteen = 16;

// Quotients of 16 states below 2^31 by their symbols' frequencies.
HWY_INLINE __m512i rans_quotients(__m512i states, __m512i reciprocals) {
  const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(states, reciprocals), 32);
  const __m512i odd =
      _mm512_mul_epu32(_mm512_srli_epi64(states, 32), _mm512_srli_epi64(reciprocals, 32));
  return _mm512_mask_blend_epi32(0xaaaa, even, odd);
}

HWY_INLINE __m512i load_bytes(const std::uint8_t* bytes) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

HWY_INLINE std::uint16_t* push_sixteen(const std::uint8_t* symbols, const std::uint8_t* contexts,
                                       const RansPush* tables, std::uint16_t* out,
                                       std::uint32_t* states) {
  static_assert(sizeof(RansPush) == 16);
  __m512i entry = load_bytes(symbols);
  if (contexts != nullptr)
    entry = _mm512_add_epi32(entry, _mm512_slli_epi32(load_bytes(contexts), 8));
  entry = _mm512_slli_epi32(entry, 2);  // in words of 4 bytes
  const __m512i reciprocals =
      _mm512_i32gather_epi32(entry, reinterpret_cast<const int*>(tables), 4);
  const __m512i biases = _mm512_i32gather_epi32(entry, reinterpret_cast<const int*>(tables) + 1, 4);
  const __m512i packed = _mm512_i32gather_epi32(entry, reinterpret_cast<const int*>(tables) + 2, 4);
  const __m512i complements = _mm512_and_si512(packed, _mm512_set1_epi32(0xffff));
  const __m512i limits =
      _mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(int{kRansSlots}), complements), 20);
  __m512i state = _mm512_loadu_si512(states);
  const __mmask16 full = _mm512_cmpge_epu32_mask(state, limits);
  const auto count = static_cast<unsigned>(std::popcount(static_cast<unsigned>(full)));
  const __m256i words = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(full, state));
  out -= count;
  _mm256_mask_storeu_epi16(out, static_cast<__mmask16>((1u << count) - 1), words);
  state = _mm512_mask_srli_epi32(state, full, state, 16);
  const __m512i quotients =
      _mm512_srlv_epi32(rans_quotients(state, reciprocals), _mm512_srli_epi32(packed, 16));
  state =
      _mm512_add_epi32(_mm512_add_epi32(state, biases), _mm512_mullo_epi32(quotients, complements));
  _mm512_storeu_si512(states, state);
  return out;
}

HWY_INLINE const std::byte* pop_sixteen(const std::byte* words, const std::uint8_t* contexts,
                                        const std::uint32_t* tables, std::uint32_t* states,
                                        std::uint8_t* symbols) {
  __m512i state = _mm512_loadu_si512(states);
  __m512i slot = _mm512_and_si512(state, _mm512_set1_epi32(int{kRansSlots} - 1));
  if (contexts != nullptr)
    slot = _mm512_add_epi32(slot, _mm512_slli_epi32(load_bytes(contexts), kRansBits));
  const __m512i entry = _mm512_i32gather_epi32(slot, reinterpret_cast<const int*>(tables), 4);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(symbols), _mm512_cvtepi32_epi8(entry));
  const __m512i below =
      _mm512_and_si512(_mm512_srli_epi32(entry, 8), _mm512_set1_epi32(int{kRansSlots} - 1));
  const __m512i frequency = _mm512_add_epi32(below, _mm512_set1_epi32(1));
  state = _mm512_add_epi32(_mm512_mullo_epi32(frequency, _mm512_srli_epi32(state, kRansBits)),
                           _mm512_srli_epi32(entry, 20));
  const __mmask16 needs = _mm512_cmplt_epu32_mask(state, _mm512_set1_epi32(int{kRansLeast}));
  const __m512i next =
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)));
  const __m512i refilled =
      _mm512_or_si512(_mm512_slli_epi32(state, 16), _mm512_maskz_expand_epi32(needs, next));
  _mm512_storeu_si512(states, _mm512_mask_mov_epi32(state, needs, refilled));
  return words + 2 * std::popcount(static_cast<unsigned>(needs));
}

HWY_INLINE std::uint16_t* push_full_row(const std::uint8_t* symbols, const std::uint8_t* contexts,
                                        std::size_t first, const RansPush* tables,
                                        std::uint16_t* out, RansStates& states) {
  for (std::size_t lane = kRansLanes; lane > 0;) {
    lane -= kSixteen;
    const std::uint8_t* context = contexts == nullptr ? nullptr : contexts + first + lane;
    out = push_sixteen(symbols + first + lane, context, tables, out, states.data() + lane);
  }
  return out;
}

HWY_INLINE const std::byte* pop_full_row(const std::byte* words, const std::uint8_t* contexts,
                                         std::size_t first, const std::uint32_t* tables,
                                         RansStates& states, std::uint8_t* symbols) {
  for (std::size_t lane = 0; lane < kRansLanes; lane += kSixteen) {
    const std::uint8_t* context = contexts == nullptr ? nullptr : contexts + first + lane;
    words = pop_sixteen(words, context, tables, states.data() + lane, symbols + first + lane);
  }
  return words;
}

#else

HWY_INLINE std::uint16_t* push_full_row(const std::uint8_t* symbols, const std::uint8_t* contexts,
                                        std::size_t first, const RansPush* tables,
                                        std::uint16_t* out, RansStates& states) {
  return push_row(symbols, contexts, first, kRansLanes, tables, out, states);
}

HWY_INLINE const std::byte* pop_full_row(const std::byte* words, const std::uint8_t* contexts,
                                         std::size_t first, const std::uint32_t* tables,
                                         RansStates& states, std::uint8_t* symbols) {
  return pop_row(words, contexts, first, kRansLanes, tables, states, symbols);
}

#endif

std::uint16_t* rans_encode(const std::uint8_t* symbols, const std::uint8_t* contexts,
                           std::size_t count, const RansPush* tables, std::uint16_t* end,
                           RansStates& states) {
  RansStates local = states;
  const std::size_t tail = count % kRansLanes;
  std::uint16_t* out = push_row(symbols, contexts, count - tail, tail, tables, end, local);
  for (std::size_t first = count - tail; first > 0;) {
    first -= kRansLanes;
    out = push_full_row(symbols, contexts, first, tables, out, local);
  }
  states = local;
  return out;
}

std::size_t rans_decode(const std::byte* words, std::size_t word_count,
                        const std::uint8_t* contexts, std::size_t count,
                        const std::uint32_t* tables, RansStates& states, std::uint8_t* symbols) {
  RansStates local = states;
  const std::byte* at = words;
  const std::byte* end = words + 2 * word_count;
  std::size_t first = 0;
  for (; first + kRansLanes <= count && end - at >= std::ptrdiff_t{2 * kRansLanes};
       first += kRansLanes) {
    at = pop_full_row(at, contexts, first, tables, local, symbols);
  }
  // Few words are left: they go to a place that can be read past its end.
  std::array<std::byte, std::size_t{4} * kRansLanes> rest{};
  for (; first < count; first += kRansLanes) {
    const std::size_t lanes = count - first < kRansLanes ? count - first : kRansLanes;
    const auto left = static_cast<std::size_t>(end - at);
    if (left > 0) std::memcpy(rest.data(), at, left < 2 * kRansLanes ? left : 2 * kRansLanes);
    const auto used = static_cast<std::size_t>(
        pop_row(rest.data(), contexts, first, lanes, tables, local, symbols) - rest.data());
    if (used > left) return kNoRans;
    at += used;
  }
  states = local;
  return static_cast<std::size_t>(at - words) / 2;
}
