// Part of cpu_kernels.cpp, compiled once for each instruction set. With VBMI2 a row of 64 elements is sorted into classes by
// compressing its steps' bytes, and expanding is the way back; other instruction sets work on the classes' mask bits. Branches on
// what a row holds were the cost of all other ways: at 1 % changes, half of the rows have one.

struct ClassOutput {
  std::uint16_t* positions;
  std::byte* old_values;
  std::byte* new_values;
};

#if HWY_TARGET == HWY_AVX3_DL

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

// ord() but for its sign bit, which cancels out in a difference.
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
    lowest[kClass] = _mm512_set1_epi8(static_cast<char>(cut.lowest[kClass]));  // past the cut's count 0, too: never reached
    next[kClass] = steps + kClass * kClassStride + ranks[kClass];
    if constexpr (kClass + 1 < kCount) load<kClass + 1>(cut, ranks, steps);
  }
  template <unsigned kClass = 0>
  HWY_INLINE void store_ranks(const Byte* steps, ClassRanks& ranks) const {
    ranks[kClass] = static_cast<std::uint32_t>(next[kClass] - (steps + kClass * kClassStride));
    if constexpr (kClass + 1 < kCount) store_ranks<kClass + 1>(steps, ranks);
  }

  // `above`: those of the classes before. No class waits for the one before it: the compares are independent, and where the row is
  // whole they are not masked, which would cost as much again. `valid`: the row's elements.
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
    if constexpr (kClass + 1 < kCount) return _mm512_or_si512(steps, take<kWhole, kClass + 1>(keys, valid, reached));
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
      high = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(valid >> 32), at + (valid >> 32 != 0 ? 64 : 0));
    }
  }
};

// As append_set_bits, for few bits: one compress of bytes in place of two of words.
HWY_INLINE std::size_t append_row(std::uint64_t bits, std::uint32_t first, std::uint16_t* positions) {
  alignas(64) static constexpr auto kPlaces = [] {
    std::array<std::uint8_t, 64> places{};
    for (unsigned i = 0; i < 64; ++i) places[i] = static_cast<std::uint8_t>(i);
    return places;
  }();
  const __m512i places = _mm512_maskz_compress_epi8(bits, _mm512_load_si512(kPlaces.data()));
  const __m512i begin = _mm512_set1_epi16(static_cast<short>(first));
  const auto total = static_cast<std::size_t>(std::popcount(bits));
  _mm512_storeu_si512(positions, _mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(places)), begin));
  if (total > 32) [[unlikely]]
    _mm512_storeu_si512(positions + 32, _mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(places, 1)), begin));
  return total;
}

HWY_INLINE void prefetch_row(const std::byte* at) {
  __builtin_prefetch(at + kPrefetchBytes);
  __builtin_prefetch(at + kPrefetchBytes + 64);
}

// The row's changes, as bits.
template <bool kWhole, unsigned kCount>
HWY_INLINE std::uint64_t sort_row(const std::byte* base, const std::byte* target, std::uint64_t valid,
                                  ClassCursors<kCount, std::int8_t>& classes) {
  const ClassRow<kWhole> a(base, valid);
  const ClassRow<kWhole> b(target, valid);
  const __m512i low = _mm512_sub_epi16(near_ord(b.low), near_ord(a.low));
  const __m512i high = _mm512_sub_epi16(near_ord(b.high), near_ord(a.high));
  classes.template put<kWhole>(keys_of(a.low, a.high), saturated_bytes(low, high), valid);
  return _mm512_cmpneq_epi16_mask(a.low, b.low) |
         static_cast<std::uint64_t>(_mm512_cmpneq_epi16_mask(a.high, b.high)) << 32;
}

template <unsigned kCount>
std::size_t diff_in_classes(const std::byte* base, const std::byte* target, std::size_t count, std::uint32_t first,
                            const ClassCut& cut, ClassRanks& ranks, std::int8_t* steps, const ClassOutput& out) {
  ClassCursors<kCount, std::int8_t> classes;
  classes.load(cut, ranks, steps);
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kGroup<std::uint16_t>) {
    std::uint64_t bits[kGroup<std::uint16_t> / kChunk];  // used where the group is whole
    const std::size_t before = found;
    const auto group_first = first + static_cast<std::uint32_t>(i);
    const std::size_t left = count - i < kGroup<std::uint16_t> ? count - i : kGroup<std::uint16_t>;
    for (std::size_t at = 0; at < left; at += kChunk) {
      const std::byte* a = base + 2 * (i + at);
      const std::byte* b = target + 2 * (i + at);
      prefetch_row(a);
      prefetch_row(b);
      const std::uint64_t row = left - at >= kChunk ? sort_row<true>(a, b, ~std::uint64_t{0}, classes)
                                                    : sort_row<false>(a, b, low_bits(~std::uint64_t{0}, left - at), classes);
      bits[at / kChunk] = row;
      found += append_row(row, group_first + static_cast<std::uint32_t>(at), out.positions + found);
    }
    const auto* a = reinterpret_cast<const std::uint16_t*>(base) + i;
    const auto* b = reinterpret_cast<const std::uint16_t*>(target) + i;
    const std::size_t own = found - before;
    if (left == kGroup<std::uint16_t>) {
      copy_values(bits, out.positions + before, own, group_first, a, b, {out.old_values + 2 * before, out.new_values + 2 * before});
      continue;
    }
    for (std::size_t j = before; j < found; ++j) {
      std::memcpy(out.old_values + 2 * j, a + (out.positions[j] - group_first), 2);
      std::memcpy(out.new_values + 2 * j, b + (out.positions[j] - group_first), 2);
    }
  }
  classes.store_ranks(steps, ranks);
  return found;
}

template <unsigned kCount>
std::size_t find_in_classes(const std::byte* held, std::size_t count, std::uint32_t first, const ClassCut& cut, ClassRanks& ranks,
                            const std::int8_t* steps, std::uint16_t* positions, std::int8_t* found_steps) {
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
    found += append_row(bits, first + static_cast<std::uint32_t>(i), positions + found);
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
AddedSteps add_in_classes(std::byte* held, std::size_t count, std::uint32_t first, const ClassCut& cut, ClassRanks& ranks,
                          const std::int8_t* steps, std::uint16_t* far_places) {
  ClassCursors<kCount, const std::int8_t> classes;
  classes.load(cut, ranks, steps);
  AddedSteps added;
  const auto add_row = [&](auto whole, std::size_t i) HWY_ATTR {
    std::byte* at = held + 2 * i;
    const std::uint64_t valid = low_bits(~std::uint64_t{0}, count - i);
    const ClassRow<whole.value> row(at, valid);
    __m512i own = classes.template take<whole.value>(keys_of(row.low, row.high), valid);
    added.found += static_cast<std::size_t>(std::popcount(static_cast<std::uint64_t>(_mm512_test_epi8_mask(own, own))));
    const __mmask64 far = _mm512_cmpgt_epu8_mask(_mm512_abs_epi8(own), _mm512_set1_epi8(kFarStep - 1));
    if (far != 0) [[unlikely]] {
      own = _mm512_maskz_mov_epi8(_knot_mask64(far), own);
      added.far += append_row(far, first + static_cast<std::uint32_t>(i), far_places + added.far);
    }
    const __m512i low = _mm512_add_epi16(near_ord(row.low), _mm512_cvtepi8_epi16(_mm512_castsi512_si256(own)));
    const __m512i high = _mm512_add_epi16(near_ord(row.high), _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(own, 1)));
    if constexpr (whole.value) {
      // Whether or not something changes: at 1 % a branch costs more than the stores.
      _mm512_storeu_si512(at, near_ord(low));
      _mm512_storeu_si512(at + 64, near_ord(high));
    } else {
      _mm512_mask_storeu_epi16(at, static_cast<__mmask32>(valid), near_ord(low));
      if (valid >> 32 != 0) _mm512_mask_storeu_epi16(at + 64, static_cast<__mmask32>(valid >> 32), near_ord(high));
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

// Bodies for a few counts: the classes that a cut has less have no elements.
#define SPARCL_FOR_CLASS_COUNT(count, call) \
  do {                                      \
    if ((count) <= 4) return call<4>;       \
    if ((count) <= 5) return call<5>;       \
    if ((count) <= 6) return call<6>;       \
    if ((count) <= 7) return call<7>;       \
    if ((count) <= 8) return call<8>;       \
    return call<kMaxClasses>;               \
  } while (false)

std::size_t diff_classes(const std::byte* base, const std::byte* target, std::size_t count, std::uint32_t first,
                         const ClassCut& cut, ClassRanks& ranks, std::int8_t* steps, std::uint16_t* positions,
                         std::byte* old_values, std::byte* new_values) {
  const auto body = [&] { SPARCL_FOR_CLASS_COUNT(cut.count, diff_in_classes); }();
  return body(base, target, count, first, cut, ranks, steps, {positions, old_values, new_values});
}

std::size_t find_class_steps(const std::byte* held, std::size_t count, std::uint32_t first, const ClassCut& cut, ClassRanks& ranks,
                             const std::int8_t* steps, std::uint16_t* positions, std::int8_t* found_steps) {
  const auto body = [&] { SPARCL_FOR_CLASS_COUNT(cut.count, find_in_classes); }();
  return body(held, count, first, cut, ranks, steps, positions, found_steps);
}

AddedSteps add_class_steps(std::byte* held, std::size_t count, std::uint32_t first, const ClassCut& cut, ClassRanks& ranks,
                           const std::int8_t* steps, std::uint16_t* far_places) {
  const auto body = [&] { SPARCL_FOR_CLASS_COUNT(cut.count, add_in_classes); }();
  return body(held, count, first, cut, ranks, steps, far_places);
}

#undef SPARCL_FOR_CLASS_COUNT

#else  // by mask bits

constexpr std::size_t kAddedChunk = 4096;  // elements that are found before they are added to: they are still in the nearest cache

// bit i of `order` goes to the place of the i-th bit that is set in `mask`.
HWY_INLINE std::uint64_t deposit_bits(std::uint64_t order, std::uint64_t mask) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return _pdep_u64(order, mask);
#else
  std::uint64_t result = 0;
  for (; order != 0 && mask != 0; mask &= mask - 1, order >>= 1) result |= (order & 1) != 0 ? mask & (0 - mask) : 0;
  return result;
#endif
}

// The classes of a row of 64 elements, as bits, and how far each has come.
class ClassMasks {
 public:
  explicit ClassMasks(const ClassCut& cut) : count_(cut.count) {
    for (unsigned key = 0, c = 0; key < 256; ++key) {
      for (c = 0; key < cut.lowest[c];) ++c;
      class_of_[key] = static_cast<std::uint8_t>(c);
    }
    for (unsigned c = 0; c < count_; ++c) lowest_[c] = cut.lowest[c];
  }

  HWY_INLINE void load(const std::byte* at, std::size_t count) {
    if (count < kChunk) {
      std::memset(tail_, 0, sizeof tail_);
      std::memcpy(tail_, at, 2 * count);
      at = reinterpret_cast<const std::byte*>(tail_);
    }
    const hn::ScalableTag<std::uint16_t> d16;
    const hn::RebindToSigned<decltype(d16)> s16;
    const hn::Rebind<std::uint8_t, decltype(d16)> half;
    const auto* values = reinterpret_cast<const std::uint16_t*>(at);
    for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d16)) {
      const auto value = hn::LoadU(d16, values + lane);
      hn::StoreU(hn::DemoteTo(half, hn::BitCast(s16, hn::ShiftRight<8>(hn::Add(value, value)))), half, keys_ + lane);
    }
    const hn::ScalableTag<std::uint8_t> d;
    std::uint64_t left = low_bits(~std::uint64_t{0}, count);
    for (unsigned c = 0; c + 1 < count_; ++c) {
      const auto lowest = hn::Set(d, lowest_[c]);
      std::uint64_t ge = 0;
      for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
        const auto keys = hn::LoadU(d, keys_ + lane);
        ge |= bits_of(d, hn::Eq(hn::Max(keys, lowest), keys)) << lane;
      }
      masks_[c] = ge & left;
      left &= ~ge;
    }
    masks_[count_ - 1] = left;
  }

  unsigned class_at(unsigned element) const { return class_of_[keys_[element]]; }
  // How many of the element's class come before it in the row.
  unsigned before(unsigned element, unsigned c) const {
    return static_cast<unsigned>(std::popcount(masks_[c] & ((std::uint64_t{1} << element) - 1)));
  }
  std::uint64_t mask(unsigned c) const { return masks_[c]; }
  HWY_INLINE void advance(ClassRanks& ranks) const {
    for (unsigned c = 0; c < count_; ++c) ranks[c] += static_cast<std::uint32_t>(std::popcount(masks_[c]));
  }

 private:
  unsigned count_;
  std::uint8_t lowest_[kMaxClasses];
  std::uint64_t masks_[kMaxClasses];
  alignas(64) std::uint8_t keys_[kChunk];
  std::uint16_t tail_[kChunk];
  std::uint8_t class_of_[256];
};

HWY_INLINE std::int8_t byte_step(std::uint16_t old_value, std::uint16_t new_value) {
  const auto near_ord = [](std::uint16_t value) { return value ^ ((value & 0x8000) != 0 ? 0x7fff : 0); };
  const int step = static_cast<std::int16_t>(near_ord(new_value) - near_ord(old_value));
  return static_cast<std::int8_t>(step < -128 ? -128 : step > 127 ? 127 : step);
}

std::size_t diff_classes(const std::byte* base, const std::byte* target, std::size_t count, std::uint32_t first,
                         const ClassCut& cut, ClassRanks& ranks, std::int8_t* steps, std::uint16_t* positions,
                         std::byte* old_values, std::byte* new_values) {
  ClassMasks masks(cut);
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kChunk) {
    const std::byte* a = base + 2 * i;
    const std::byte* b = target + 2 * i;
    const std::size_t row = count - i < kChunk ? count - i : kChunk;
    __builtin_prefetch(a + kPrefetchBytes);
    __builtin_prefetch(b + kPrefetchBytes);
    std::uint64_t bits = 0;
    if (row == kChunk) {
      bits = differing(reinterpret_cast<const std::uint16_t*>(a), reinterpret_cast<const std::uint16_t*>(b));
    } else {
      for (std::size_t j = 0; j < row; ++j) bits |= std::uint64_t{std::memcmp(a + 2 * j, b + 2 * j, 2) != 0} << j;
    }
    masks.load(a, row);
    for (; bits != 0; bits &= bits - 1, ++found) {
      const auto element = static_cast<unsigned>(std::countr_zero(bits));
      const auto old_value = load_one<std::uint16_t>(a + 2 * element);
      const auto new_value = load_one<std::uint16_t>(b + 2 * element);
      const unsigned c = masks.class_at(element);
      steps[c * kClassStride + ranks[c] + masks.before(element, c)] = byte_step(old_value, new_value);
      std::memcpy(old_values + 2 * found, &old_value, 2);
      std::memcpy(new_values + 2 * found, &new_value, 2);
      positions[found] = static_cast<std::uint16_t>(first + i + element);
    }
    masks.advance(ranks);
  }
  return found;
}

HWY_INLINE std::uint64_t nonzero_bytes(const std::int8_t* bytes) {
  const hn::ScalableTag<std::int8_t> d;
  std::uint64_t bits = 0;
  for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
    bits |= bits_of(d, hn::Ne(hn::LoadU(d, bytes + lane), hn::Zero(d))) << lane;
  }
  return bits;
}

std::size_t find_class_steps(const std::byte* held, std::size_t count, std::uint32_t first, const ClassCut& cut, ClassRanks& ranks,
                             const std::int8_t* steps, std::uint16_t* positions, std::int8_t* found_steps) {
  ClassMasks masks(cut);
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kChunk) {
    __builtin_prefetch(held + 2 * i + kPrefetchBytes);
    masks.load(held + 2 * i, count - i < kChunk ? count - i : kChunk);
    std::uint64_t bits = 0;
    for (unsigned c = 0; c < cut.count; ++c) {
      bits |= deposit_bits(nonzero_bytes(steps + c * kClassStride + ranks[c]), masks.mask(c));
    }
    for (; bits != 0; bits &= bits - 1, ++found) {
      const auto element = static_cast<unsigned>(std::countr_zero(bits));
      const unsigned c = masks.class_at(element);
      found_steps[found] = steps[c * kClassStride + ranks[c] + masks.before(element, c)];
      positions[found] = static_cast<std::uint16_t>(first + i + element);
    }
    masks.advance(ranks);
  }
  return found;
}

AddedSteps add_class_steps(std::byte* held, std::size_t count, std::uint32_t first, const ClassCut& cut, ClassRanks& ranks,
                           const std::int8_t* steps, std::uint16_t* far_places) {
  std::uint16_t positions[kAddedChunk + kPositionSlack];
  std::int8_t found_steps[kAddedChunk + kPositionSlack];
  AddedSteps added;
  for (std::size_t i = 0; i < count; i += kAddedChunk) {
    const std::size_t own = count - i < kAddedChunk ? count - i : kAddedChunk;
    const std::size_t found = find_class_steps(held + 2 * i, own, 0, cut, ranks, steps, positions, found_steps);
    added.found += found;
    for (std::size_t j = 0; j < found; ++j) {
      const int step = found_steps[j];
      if (step >= kFarStep || step <= -kFarStep) [[unlikely]] {
        far_places[added.far++] = static_cast<std::uint16_t>(first + i + positions[j]);
        continue;
      }
      std::byte* at = held + 2 * (i + positions[j]);
      const auto value = add_step<std::uint16_t, true>(load_one<std::uint16_t>(at), static_cast<std::uint16_t>(step));
      std::memcpy(at, &value, sizeof value);
    }
  }
  return added;
}

#endif

#if HWY_TARGET == HWY_AVX3_DL

HWY_INLINE __m512i first_numbers() { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }

// Of 16 numbers: each with all those before it.
HWY_INLINE __m512i prefix_sums(__m512i v) {
  const __m512i zero = _mm512_setzero_si512();
  v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 15));
  v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 14));
  v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 12));
  return _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 8));
}

HWY_INLINE __m512i last_lane(__m512i v) { return _mm512_permutexvar_epi32(_mm512_set1_epi32(15), v); }

HWY_INLINE std::uint64_t sum_of_lanes(__m512i v) {
  alignas(64) std::uint32_t lanes[16];
  _mm512_store_si512(lanes, v);
  std::uint64_t sum = 0;
  for (const std::uint32_t lane : lanes) sum += lane;
  return sum;
}

// The places of the bits that are set, from `first` on; writes 16 or 64 entries.
HWY_INLINE std::size_t append_places(std::uint64_t bits, std::uint32_t first, std::uint32_t* places) {
  alignas(64) static constexpr auto kPlaces = [] {
    std::array<std::uint8_t, 64> all{};
    for (unsigned i = 0; i < 64; ++i) all[i] = static_cast<std::uint8_t>(i);
    return all;
  }();
  const __m512i near = _mm512_maskz_compress_epi8(bits, _mm512_load_si512(kPlaces.data()));
  const __m512i begin = _mm512_set1_epi32(static_cast<int>(first));
  const auto total = static_cast<std::size_t>(std::popcount(bits));
  _mm512_storeu_si512(places, _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_castsi512_si128(near)), begin));
  if (total <= 16) [[likely]]
    return total;
  _mm512_storeu_si512(places + 16, _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(near, 1)), begin));
  _mm512_storeu_si512(places + 32, _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(near, 2)), begin));
  _mm512_storeu_si512(places + 48, _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(near, 3)), begin));
  return total;
}

std::size_t take_nonzero(std::int8_t* bytes, std::size_t count, std::uint32_t* places, std::int8_t* values) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kChunk) {
    const __m512i chunk = _mm512_loadu_si512(bytes + i);
    const std::uint64_t valid = low_bits(~std::uint64_t{0}, count - i);
    const std::uint64_t bits = _mm512_test_epi8_mask(chunk, chunk) & valid;
    _mm512_storeu_si512(bytes + i, _mm512_maskz_mov_epi8(~valid, chunk));
    _mm512_storeu_si512(values + found, _mm512_maskz_compress_epi8(bits, chunk));
    found += append_places(bits, static_cast<std::uint32_t>(i), places + found);
  }
  return found;
}

#else

HWY_INLINE std::uint64_t nonzero_chunk(const std::int8_t* bytes) {
  const hn::ScalableTag<std::int8_t> d;
  std::uint64_t bits = 0;
  for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
    bits |= bits_of(d, hn::Ne(hn::LoadU(d, bytes + lane), hn::Zero(d))) << lane;
  }
  return bits;
}

HWY_INLINE void clear_chunk(std::int8_t* bytes) {
  const hn::ScalableTag<std::int8_t> d;
  for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) hn::StoreU(hn::Zero(d), d, bytes + lane);
}

// Places inside a part first, in 16 bits: that is what compressing is fast for.
std::size_t take_nonzero(std::int8_t* bytes, std::size_t count, std::uint32_t* places, std::int8_t* values) {
  constexpr std::size_t kPart = 4096;
  std::uint16_t near[kPart + kPositionSlack];
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kPart) {
    const std::size_t left = count - i < kPart ? count - i : kPart;
    std::size_t own = 0;
    for (std::size_t at = 0; at < left; at += kChunk) {
      std::uint64_t bits = low_bits(nonzero_chunk(bytes + i + at), left - at);
      own += append_set_bits(bits, static_cast<std::uint32_t>(at), near + own);
    }
    for (std::size_t j = 0; j < own; ++j) {
      places[found + j] = static_cast<std::uint32_t>(i) + near[j];
      values[found + j] = bytes[i + near[j]];
    }
    const std::size_t whole = left / kChunk * kChunk;
    for (std::size_t at = 0; at < whole; at += kChunk) clear_chunk(bytes + i + at);
    std::memset(bytes + i + whole, 0, left - whole);
    found += own;
  }
  return found;
}

#endif

void split_byte_steps(const std::int8_t* steps, std::size_t count, std::int8_t* beyond, std::uint64_t* negative) {
  const hn::ScalableTag<std::int8_t> d;
  for (std::size_t i = 0; i < count; i += kChunk) {
    std::uint64_t bits = 0;
    for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
      const auto step = hn::LoadU(d, steps + i + lane);
      bits |= bits_of(d, hn::Lt(step, hn::Zero(d))) << lane;
      hn::StoreU(hn::Sub(hn::Abs(step), hn::Set(d, 1)), d, beyond + i + lane);  // -128: 127, modulo 256
    }
    negative[i / kChunk] = low_bits(bits, count - i);
  }
  if (count % kChunk == 0) negative[count / kChunk] = 0;
}

std::uint32_t split_ranks(const std::uint32_t* ranks, std::size_t count, unsigned shift, std::uint32_t mark_base,
                          std::uint16_t* remainders, std::uint32_t* marks) {
  const std::uint32_t low = (1u << shift) - 1;
  std::size_t i = 0;
#if HWY_TARGET == HWY_AVX3_DL
  const __m128i by_shift = _mm_cvtsi32_si128(static_cast<int>(shift));
  const __m512i one = _mm512_set1_epi32(1);
  __m512i ranks_before = _mm512_set1_epi32(-1);
  __m512i base = _mm512_set1_epi32(static_cast<int>(mark_base - 1));  // the mark before
  for (; i + 16 <= count; i += 16) {
    const __m512i own = _mm512_loadu_si512(ranks + i);
    const __m512i gaps = _mm512_sub_epi32(_mm512_sub_epi32(own, _mm512_alignr_epi32(own, ranks_before, 15)), one);
    ranks_before = own;
    const __m512i remainder = _mm512_and_si512(gaps, _mm512_set1_epi32(static_cast<int>(low)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(remainders + i), _mm512_cvtepi32_epi16(remainder));
    const __m512i within = prefix_sums(_mm512_add_epi32(_mm512_srl_epi32(gaps, by_shift), one));
    _mm512_storeu_si512(marks + i, _mm512_add_epi32(base, within));
    base = _mm512_add_epi32(base, last_lane(within));
  }
  mark_base = i == 0 ? mark_base : marks[i - 1] + 1;
#endif
  std::uint32_t next = i == 0 ? 0 : ranks[i - 1] + 1;
  for (; i < count; ++i) {
    const std::uint32_t gap = ranks[i] - next;
    next = ranks[i] + 1;
    remainders[i] = static_cast<std::uint16_t>(gap & low);
    mark_base += gap >> shift;
    marks[i] = mark_base++;
  }
  return mark_base;
}

std::uint64_t join_ranks(const std::uint16_t* remainders, const std::uint32_t* marks, std::size_t count, unsigned shift,
                         std::uint32_t mark_base, std::uint32_t* ranks) {
  if (count == 0) return 0;
  std::uint64_t sum = 0;  // without modulus
  std::size_t i = 0;
#if HWY_TARGET == HWY_AVX3_DL
  const __m128i by_shift = _mm_cvtsi32_si128(static_cast<int>(shift));
  __m512i before = _mm512_setzero_si512();
  __m512i each = _mm512_setzero_si512();  // at most 2^14 numbers below 2^16 in a lane
  for (; i + 16 <= count; i += 16) {
    const __m512i own = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(remainders + i)));
    each = _mm512_add_epi32(each, own);
    const __m512i within = prefix_sums(own);
    const __m512i places = _mm512_add_epi32(first_numbers(), _mm512_set1_epi32(static_cast<int>(i)));
    const __m512i gone = _mm512_sub_epi32(_mm512_loadu_si512(marks + i), _mm512_add_epi32(places, _mm512_set1_epi32(static_cast<int>(mark_base))));
    const __m512i sums = _mm512_add_epi32(_mm512_add_epi32(within, before), places);
    _mm512_storeu_si512(ranks + i, _mm512_add_epi32(_mm512_sll_epi32(gone, by_shift), sums));
    before = _mm512_add_epi32(before, last_lane(within));
  }
  sum = sum_of_lanes(each);
#endif
  for (; i < count; ++i) {
    sum += remainders[i];
    ranks[i] = static_cast<std::uint32_t>((std::uint64_t{marks[i] - mark_base - static_cast<std::uint32_t>(i)} << shift) + sum + i);
  }
  return (std::uint64_t{marks[count - 1] - mark_base - static_cast<std::uint32_t>(count - 1)} << shift) + sum + (count - 1);
}

bool read_sizes(const std::byte* bits, std::uint64_t bit, const std::uint32_t* marks, std::size_t count, std::uint32_t mark_base,
                unsigned exponent, std::uint32_t* sizes) {
  if (count == 0) return true;
  bool is_valid = true;
  std::size_t i = 0;
#if HWY_TARGET == HWY_AVX3_DL
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i exponents = _mm512_set1_epi32(static_cast<int>(exponent));
  const __m512i least = _mm512_sllv_epi32(one, exponents);
  __m512i at = _mm512_set1_epi32(static_cast<int>(bit % 8));  // fewer than 2^18 * 22 bits: 32 are enough
  const std::byte* from = bits + bit / 8;
  __m512i ones_before = _mm512_set1_epi32(static_cast<int>(mark_base - 1));
  for (; is_valid && i + 16 <= count; i += 16) {
    const __m512i ones = _mm512_loadu_si512(marks + i);
    const __m512i zeros = _mm512_sub_epi32(_mm512_sub_epi32(ones, _mm512_alignr_epi32(ones, ones_before, 15)), one);
    ones_before = ones;
    is_valid = _mm512_cmpgt_epu32_mask(zeros, _mm512_set1_epi32(kMostSizeZeros)) == 0;
    if (!is_valid) break;
    const __m512i lengths = _mm512_add_epi32(zeros, exponents);
    const __m512i ends = prefix_sums(lengths);
    const __m512i places = _mm512_add_epi32(at, _mm512_sub_epi32(ends, lengths));
    const __m512i words = _mm512_i32gather_epi32(_mm512_srli_epi32(places, 3), from, 1);
    const __m512i shifted = _mm512_srlv_epi32(words, _mm512_and_si512(places, _mm512_set1_epi32(7)));
    const __m512i more = _mm512_sllv_epi32(one, lengths);
    const __m512i suffixes = _mm512_and_si512(shifted, _mm512_sub_epi32(more, one));
    _mm512_storeu_si512(sizes + i, _mm512_sub_epi32(_mm512_add_epi32(suffixes, more), least));
    at = _mm512_add_epi32(at, last_lane(ends));
  }
  bit = bit / 8 * 8 + static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm512_castsi512_si128(at)));
#endif
  for (std::uint32_t next = i == 0 ? mark_base : marks[i - 1] + 1; is_valid && i < count; ++i) {
    const std::uint32_t zeros = marks[i] - next;
    next = marks[i] + 1;
    is_valid = zeros <= kMostSizeZeros;
    const unsigned length = (zeros & 31) + exponent;
    sizes[i] = static_cast<std::uint32_t>(low_bits(load_bits(bits, bit), length) + (std::uint64_t{1} << length)) - (1u << exponent);
    bit += length;
  }
  return is_valid;
}

// As write_marks: flags as bytes first, of a part at a time.
void write_long_marks(const std::uint32_t* marks, std::size_t count, BitWriter& out) {
  if (count == 0) return;
  constexpr std::uint32_t kPart = 8192;
  alignas(64) std::uint8_t flags[kPart] = {};
  const hn::ScalableTag<std::uint8_t> d;
  BitWriter writer = out;  // in registers
  const std::uint32_t end = marks[count - 1] + 1;
  std::size_t i = 0;
  for (std::uint32_t base = 0; base < end; base += kPart) {
    const std::uint32_t left = end - base < kPart ? end - base : kPart;
    for (; i + 8 <= count && marks[i + 7] - base < kPart; i += 8) {
      for (std::size_t j = 0; j < 8; ++j) flags[marks[i + j] - base] = 1;
    }
    for (; i < count && marks[i] - base < kPart; ++i) flags[marks[i] - base] = 1;
    for (std::uint32_t at = 0; at < left; at += kChunk) {
      std::uint64_t bits = 0;
      for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
        bits |= bits_of(d, hn::Ne(hn::Load(d, flags + at + lane), hn::Zero(d))) << lane;
        hn::Store(hn::Zero(d), d, flags + at + lane);
      }
      writer.put(bits, static_cast<unsigned>(left - at < kChunk ? left - at : kChunk));
    }
  }
  out = writer;
}

std::size_t find_long_marks(const std::byte* bits, std::uint64_t bit, std::uint64_t limit, std::size_t count,
                            std::uint32_t* marks) {
  std::size_t found = 0;
  for (std::uint64_t i = 0; i < limit && found < count; i += kChunk) {
    std::uint64_t word = low_bits(load_bits(bits, bit + i), limit - i);
#if HWY_TARGET == HWY_AVX3_DL
    // At most 64 more than asked for, which is the slack; `marks` has room for `count`.
    for (std::uint32_t at = static_cast<std::uint32_t>(i); word != 0; word >>= 16, at += 16) {
      const auto part = static_cast<__mmask16>(word);
      const __m512i places = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(at)),
                                              _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
      _mm512_storeu_si512(marks + found, _mm512_maskz_compress_epi32(part, places));
      found += static_cast<std::size_t>(std::popcount(static_cast<std::uint32_t>(part)));
    }
#else
    for (; word != 0; word &= word - 1) {
      marks[found++] = static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(std::countr_zero(word));
    }
#endif
  }
  return found < count ? found : count;
}
