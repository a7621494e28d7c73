// Part of cpu_kernels.cpp, compiled for instruction sets with VBMI2. Compressing the steps' bytes
// sorts a row of 64 elements into classes; expanding is the inverse.

// 64 elements' bytes out of their words: those at odd places, or all with saturation.
HWY_INLINE __m512i odd_bytes(__m512i low, __m512i high) {
  alignas(64) static constexpr auto kOdd = [] {
    std::array<std::uint8_t, 64> places{};
    for (unsigned i = 0; i < 64; ++i) places[i] = static_cast<std::uint8_t>(2 * i + 1);
    return places;
  }();
  return _mm512_permutex2var_epi8(low, _mm512_load_si512(kOdd.data()), high);
}

HWY_INLINE __m512i saturated_bytes(__m512i low, __m512i high) {
  const __m512i packed = _mm512_packs_epi16(low, high);  // inside lanes of 128 bits
  return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed);
}

HWY_INLINE __m512i keys_of(__m512i low, __m512i high) {
  return odd_bytes(_mm512_add_epi16(low, low), _mm512_add_epi16(high, high));
}

// ord() without its sign bit, which cancels out in a difference.
HWY_INLINE __m512i near_ord(__m512i values) {
  return _mm512_xor_si512(values, _mm512_srli_epi16(_mm512_srai_epi16(values, 15), 1));
}

// kCount classes with their places in registers.
template <unsigned kCount, class Byte>
struct ClassCursors {
  __m512i lowest[kCount];
  Byte* next[kCount];

  // No loops: an array that is indexed by a variable does not stay in registers.
  template <unsigned kClass = 0>
  HWY_INLINE void load(const ClassCut& cut, const ClassRanks& ranks, Byte* steps) {
    lowest[kClass] = _mm512_set1_epi8(
        static_cast<char>(cut.lowest[kClass]));  // past the cut's count 0, too: never reached
    next[kClass] = steps + kClass * kClassStride + ranks[kClass];
    if constexpr (kClass + 1 < kCount) load<kClass + 1>(cut, ranks, steps);
  }
  template <unsigned kClass = 0>
  HWY_INLINE void store_ranks(const Byte* steps, ClassRanks& ranks) const {
    ranks[kClass] = static_cast<std::uint32_t>(next[kClass] - (steps + kClass * kClassStride));
    if constexpr (kClass + 1 < kCount) store_ranks<kClass + 1>(steps, ranks);
  }

  // `above`: elements of the earlier classes. `valid`: the row's elements. No class waits for the
  // one before it, because the compares are independent. In a whole row they are not masked:
  // masking would double their cost.
  template <bool kWhole, unsigned kClass = 0>
  HWY_INLINE void put(__m512i keys, __m512i steps, __mmask64 valid, __mmask64 above = 0) {
    const __mmask64 reached = reached_by<kClass>(keys);
    const __mmask64 own = own_of<kWhole>(reached, above, valid);
    _mm512_storeu_si512(next[kClass], _mm512_maskz_compress_epi8(own, steps));
    next[kClass] += std::popcount(static_cast<std::uint64_t>(own));
    if constexpr (kClass + 1 < kCount) put<kWhole, kClass + 1>(keys, steps, valid, reached);
  }

  template <bool kWhole, unsigned kClass = 0>
  HWY_INLINE __m512i take(__m512i keys, __mmask64 valid, __mmask64 above = 0) {
    const __mmask64 reached = reached_by<kClass>(keys);
    const __mmask64 own = own_of<kWhole>(reached, above, valid);
    __m512i loaded = _mm512_loadu_si512(next[kClass]);
    asm("" : "+v"(loaded));  // expanding out of memory is microcode on AMD's cores
    const __m512i steps = _mm512_maskz_expand_epi8(own, loaded);
    next[kClass] += std::popcount(static_cast<std::uint64_t>(own));
    if constexpr (kClass + 1 == kCount) return steps;
    if constexpr (kClass + 1 < kCount)
      return _mm512_or_si512(steps, take<kWhole, kClass + 1>(keys, valid, reached));
  }

  template <unsigned kClass>
  HWY_INLINE __mmask64 reached_by(__m512i keys) const {
    return kClass + 1 == kCount ? ~__mmask64{0} : _mm512_cmpge_epu8_mask(keys, lowest[kClass]);
  }
  template <bool kWhole>
  HWY_INLINE static __mmask64 own_of(__mmask64 reached, __mmask64 above, __mmask64 valid) {
    const __mmask64 own = _kandn_mask64(above, reached);
    return kWhole ? own : _kand_mask64(own, valid);
  }
};

template <bool kWhole>
struct ClassRow {  // of 64 elements; zeros after the last
  __m512i low, high;

  HWY_INLINE ClassRow(const std::byte* at, std::uint64_t valid) {
    if constexpr (kWhole) {
      low = _mm512_loadu_si512(at);
      high = _mm512_loadu_si512(at + 64);
    } else {
      low = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(valid), at);
      high = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(valid >> 32),
                                      at + (valid >> 32 != 0 ? 64 : 0));
    }
  }
};

// The row's changes, as bits.
template <bool kWhole, unsigned kCount>
HWY_INLINE std::uint64_t sort_row(const std::byte* base, const std::byte* target,
                                  std::uint64_t valid, ClassCursors<kCount, std::int8_t>& classes) {
  const ClassRow<kWhole> a(base, valid);
  const ClassRow<kWhole> b(target, valid);
  const __m512i low = _mm512_sub_epi16(near_ord(b.low), near_ord(a.low));
  const __m512i high = _mm512_sub_epi16(near_ord(b.high), near_ord(a.high));
  classes.template put<kWhole>(keys_of(a.low, a.high), saturated_bytes(low, high), valid);
  return _mm512_cmpneq_epi16_mask(a.low, b.low) |
         static_cast<std::uint64_t>(_mm512_cmpneq_epi16_mask(a.high, b.high)) << 32;
}

template <unsigned kCount>
std::size_t diff_in_classes(const std::byte* base, const std::byte* target, std::size_t count,
                            std::uint32_t first, const ClassCut& cut, ClassRanks& ranks,
                            std::int8_t* steps, const ClassOutput& out) {
  ClassCursors<kCount, std::int8_t> classes;
  classes.load(cut, ranks, steps);
  std::size_t found = 0;
  const ChangeOutput<std::uint16_t> all{out.positions,
                                        reinterpret_cast<std::uint16_t*>(out.old_values),
                                        reinterpret_cast<std::uint16_t*>(out.new_values)};
  const auto take_row = [&](auto whole, std::size_t i) HWY_ATTR {
    const std::byte* a = base + 2 * i;
    const std::byte* b = target + 2 * i;
    prefetch_row(a);
    prefetch_row(b);
    const std::uint64_t row =
        sort_row<whole.value>(a, b, low_bits(~std::uint64_t{0}, count - i), classes);
    const std::uint32_t row_first = first + static_cast<std::uint32_t>(i);
    if constexpr (whole.value) {
      found +=
          append_changes(row, TwoLines::load(a), TwoLines::load(b), row_first, all.after(found));
    } else {
      std::size_t next = found;
      found += append_set_bits(row, row_first, out.positions + found);
      for (; next < found; ++next) {
        std::memcpy(out.old_values + 2 * next, a + 2 * (out.positions[next] - row_first), 2);
        std::memcpy(out.new_values + 2 * next, b + 2 * (out.positions[next] - row_first), 2);
      }
    }
  };
  const std::size_t whole_rows = count / kChunk * kChunk;
  for (std::size_t i = 0; i < whole_rows; i += kChunk) take_row(std::true_type(), i);
  if (whole_rows < count) take_row(std::false_type(), whole_rows);
  classes.store_ranks(steps, ranks);
  return found;
}

template <unsigned kCount>
std::size_t find_in_classes(const std::byte* held, std::size_t count, std::uint32_t first,
                            const ClassCut& cut, ClassRanks& ranks, const std::int8_t* steps,
                            std::uint16_t* positions, std::int8_t* found_steps) {
  ClassCursors<kCount, const std::int8_t> classes;
  classes.load(cut, ranks, steps);
  std::size_t found = 0;
  const auto take_row = [&](auto whole, std::size_t i) HWY_ATTR {
    const std::byte* at = held + 2 * i;
    const std::uint64_t valid = low_bits(~std::uint64_t{0}, count - i);
    const ClassRow<whole.value> row(at, valid);
    const __m512i own = classes.template take<whole.value>(keys_of(row.low, row.high), valid);
    const std::uint64_t bits = _mm512_test_epi8_mask(own, own);
    _mm512_storeu_si512(found_steps + found, _mm512_maskz_compress_epi8(bits, own));
    found += append_set_bits(bits, first + static_cast<std::uint32_t>(i), positions + found);
  };
  const std::size_t whole_rows = count / kChunk * kChunk;
  for (std::size_t i = 0; i < whole_rows; i += kChunk) {
    prefetch_row(held + 2 * i);
    take_row(std::true_type(), i);
  }
  if (whole_rows < count) take_row(std::false_type(), whole_rows);
  classes.store_ranks(steps, ranks);
  return found;
}

template <unsigned kCount>
AddedSteps add_in_classes(std::byte* held, std::size_t count, std::uint32_t first,
                          const ClassCut& cut, ClassRanks& ranks, const std::int8_t* steps,
                          std::uint16_t* far_places) {
  ClassCursors<kCount, const std::int8_t> classes;
  classes.load(cut, ranks, steps);
  AddedSteps added;
  const auto add_row = [&](auto whole, std::size_t i) HWY_ATTR {
    std::byte* at = held + 2 * i;
    const std::uint64_t valid = low_bits(~std::uint64_t{0}, count - i);
    const ClassRow<whole.value> row(at, valid);
    __m512i own = classes.template take<whole.value>(keys_of(row.low, row.high), valid);
    added.found += static_cast<std::size_t>(
        std::popcount(static_cast<std::uint64_t>(_mm512_test_epi8_mask(own, own))));
    const __mmask64 far =
        _mm512_cmpgt_epu8_mask(_mm512_abs_epi8(own), _mm512_set1_epi8(kFarStep - 1));
    if (far != 0) [[unlikely]] {
      own = _mm512_maskz_mov_epi8(_knot_mask64(far), own);
      added.far +=
          append_set_bits(far, first + static_cast<std::uint32_t>(i), far_places + added.far);
    }
    const __m512i low =
        _mm512_add_epi16(near_ord(row.low), _mm512_cvtepi8_epi16(_mm512_castsi512_si256(own)));
    const __m512i high = _mm512_add_epi16(near_ord(row.high),
                                          _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(own, 1)));
    if constexpr (whole.value) {
      // Whether or not something changes: at 1 % a branch costs more than the stores.
      _mm512_storeu_si512(at, near_ord(low));
      _mm512_storeu_si512(at + 64, near_ord(high));
    } else {
      _mm512_mask_storeu_epi16(at, static_cast<__mmask32>(valid), near_ord(low));
      if (valid >> 32 != 0)
        _mm512_mask_storeu_epi16(at + 64, static_cast<__mmask32>(valid >> 32), near_ord(high));
    }
  };
  const std::size_t whole_rows = count / kChunk * kChunk;
  for (std::size_t i = 0; i < whole_rows; i += kChunk) {
    prefetch_row(held + 2 * i);
    add_row(std::true_type(), i);
  }
  if (whole_rows < count) add_row(std::false_type(), whole_rows);
  classes.store_ranks(steps, ranks);
  return added;
}
