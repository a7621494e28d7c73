// Part of cpu_kernels.cpp, compiled once for each instruction set.

// Far enough to hide DRAM latency behind compares, near enough to stay in L1. 4 KiB was measured 10
// % faster than 2 KiB, and 8 KiB no faster (bench/codec).
constexpr std::size_t kPrefetchBytes = 4096;

template <class T>
HWY_INLINE std::uint64_t differing(const T* a, const T* b) {
  const hn::ScalableTag<T> d;
  std::uint64_t bits = 0;
  for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
    bits |= bits_of(d, hn::Ne(hn::LoadU(d, a + lane), hn::LoadU(d, b + lane))) << lane;
  }
  return bits;
}

template <class T>
HWY_INLINE void prefetch_chunk(const T* a, const T* b) {
  for (std::size_t line = 0; line < kChunk * sizeof(T); line += 64) {
    __builtin_prefetch(reinterpret_cast<const std::byte*>(a) + line + kPrefetchBytes);
    __builtin_prefetch(reinterpret_cast<const std::byte*>(b) + line + kPrefetchBytes);
  }
}

template <class T>
std::size_t diff(const std::byte* base, const std::byte* target, std::size_t count,
                 std::uint32_t first, std::uint16_t* positions) {
  const T* a = reinterpret_cast<const T*>(base);
  const T* b = reinterpret_cast<const T*>(target);
  std::size_t found = 0;
  std::size_t i = 0;
  for (; i + kChunk <= count; i += kChunk) {
    prefetch_chunk(a + i, b + i);
    found += append_set_bits(differing(a + i, b + i), first + static_cast<std::uint32_t>(i),
                             positions + found);
  }
  for (; i < count; ++i) {
    positions[found] = static_cast<std::uint16_t>(first + i);
    found += std::memcmp(base + i * sizeof(T), target + i * sizeof(T), sizeof(T)) != 0;
  }
  return found;
}

// The number of elements whose changes are taken together. Their number is known by then, and both
// arrays' parts are still in L1.
template <class T>
constexpr std::size_t kGroup = 4096 / sizeof(T);

template <class T>
struct ChangeOutput {
  std::uint16_t* positions;
  T* olds;
  T* news;

  HWY_INLINE ChangeOutput after(std::size_t count) const {
    return {positions + count, olds + count, news + count};
  }
};

// Takes one element of a chunk, the first set bit of `bits`; if none is set, any.
template <class T>
HWY_INLINE void take_first(std::uint64_t bits, std::uint32_t first, const T* a, const T* b,
                           ChangeOutput<T> out) {
  const auto place = static_cast<std::size_t>(std::countr_zero(bits)) % kChunk;
  *out.positions = static_cast<std::uint16_t>(first + place);
  std::memcpy(out.olds, a + place, sizeof(T));
  std::memcpy(out.news, b + place, sizeof(T));
}

// Takes the changes of a group, always kAtOnce of each chunk: a branch on the actual number would
// often be mispredicted.
template <class T, std::size_t kAtOnce>
HWY_INLINE void take_few(const std::uint64_t* bits, std::uint32_t first, const T* a, const T* b,
                         ChangeOutput<T> out) {
  static_assert(kAtOnce * sizeof(T) <= kValueSlackBytes && kAtOnce <= kPositionSlack);
  for (std::size_t chunk = 0; chunk < kGroup<T> / kChunk;
       ++chunk, first += kChunk, a += kChunk, b += kChunk) {
    std::uint64_t left = bits[chunk];
    const auto total = static_cast<std::size_t>(std::popcount(left));
    for (std::size_t i = 0; i < kAtOnce; ++i, left &= left - 1)
      take_first(left, first, a, b, out.after(i));
    if (left != 0) [[unlikely]] {
      for (std::size_t i = kAtOnce; i < total; ++i, left &= left - 1)
        take_first(left, first, a, b, out.after(i));
    }
    out = out.after(total);
  }
}

#if HWY_TARGET == HWY_AVX3_DL
// Takes the values of a chunk whose bits are set. They are in L1.
template <class T>
HWY_INLINE void compress_values(std::uint64_t bits, const T* from, T* values) {
  const hn::ScalableTag<T> d;
  for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
    const std::uint64_t part = low_bits(bits >> lane, hn::Lanes(d));
    hn::StoreU(compressed(d, hn::LoadU(d, from + lane), part), d, values);
    values += std::popcount(part);
  }
}
#endif

template <class T>
HWY_INLINE void take_many(const std::uint64_t* bits, std::uint32_t first, const T* a, const T* b,
                          ChangeOutput<T> out) {
  for (std::size_t chunk = 0; chunk < kGroup<T> / kChunk;
       ++chunk, first += kChunk, a += kChunk, b += kChunk) {
#if HWY_TARGET == HWY_AVX3_DL
    compress_values(bits[chunk], a, out.olds);
    compress_values(bits[chunk], b, out.news);
    out = out.after(append_set_bits(bits[chunk], first, out.positions));
#else
    for (std::uint64_t left = bits[chunk]; left != 0; left &= left - 1, out = out.after(1))
      take_first(left, first, a, b, out);
#endif
  }
}

#if HWY_TARGET != HWY_AVX3_DL
// For each byte of mask bits, the bytes to take from eight elements of two bytes.
alignas(64) constexpr auto kTaken = [] {
  std::array<std::array<std::uint8_t, 16>, 256> all{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    std::size_t at = 0;
    for (unsigned place = 0; place < 8; ++place) {
      if ((bits >> place & 1) == 0) continue;
      all[bits][at++] = static_cast<std::uint8_t>(2 * place);
      all[bits][at++] = static_cast<std::uint8_t>(2 * place + 1);
    }
  }
  return all;
}();

// Takes eight elements at a time, whatever their number of changes.
HWY_INLINE void take_many(const std::uint64_t* bits, std::uint32_t first, const std::uint16_t* a,
                          const std::uint16_t* b, ChangeOutput<std::uint16_t> out) {
  const hn::FixedTag<std::uint16_t, 8> d;
  const hn::FixedTag<std::uint8_t, 16> bytes;
  auto places = hn::Add(hn::Iota(d, 0), hn::Set(d, static_cast<std::uint16_t>(first)));
  for (std::size_t at = 0; at < kGroup<std::uint16_t>;
       at += 8, places = hn::Add(places, hn::Set(d, 8))) {
    const auto eight = static_cast<std::uint8_t>(bits[at / kChunk] >> at % kChunk);
    const auto taken = hn::BitCast(d, hn::Load(bytes, kTaken[eight].data()));
    hn::StoreU(hn::TableLookupBytes(places, taken), d, out.positions);
    hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, a + at), taken), d, out.olds);
    hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, b + at), taken), d, out.news);
    out = out.after(static_cast<std::size_t>(std::popcount(eight)));
  }
}
#else
// A chunk of elements of two bytes.
struct TwoLines {
  __m512i low;
  __m512i high;

  static HWY_INLINE TwoLines load(const void* from) {
    const auto* bytes = static_cast<const std::byte*>(from);
    return {_mm512_loadu_si512(bytes), _mm512_loadu_si512(bytes + 64)};
  }
  HWY_INLINE __m512i at(__m512i places) const {
    return _mm512_permutex2var_epi16(low, places, high);
  }
};

HWY_INLINE std::uint64_t differing(const TwoLines& a, const TwoLines& b) {
  return _mm512_cmpneq_epi16_mask(a.low, b.low) |
         std::uint64_t{_mm512_cmpneq_epi16_mask(a.high, b.high)} << 32;
}

// Appends positions and values of the changes of a chunk, always with the same few instructions. A
// branch on their number would be mispredicted too often, and after a misprediction no useful loads
// are in flight.
HWY_INLINE std::size_t append_changes(std::uint64_t bits, const TwoLines& a, const TwoLines& b,
                                      std::uint32_t first, ChangeOutput<std::uint16_t> out) {
  const auto append = [&](__m256i some, std::size_t at) HWY_ATTR {
    const __m512i places = _mm512_cvtepu8_epi16(some);
    _mm512_storeu_si512(out.positions + at,
                        _mm512_add_epi16(places, _mm512_set1_epi16(static_cast<short>(first))));
    _mm512_storeu_si512(out.olds + at, a.at(places));
    _mm512_storeu_si512(out.news + at, b.at(places));
  };
  const __m512i places = places_of(bits);
  const auto total = static_cast<std::size_t>(std::popcount(bits));
  append(_mm512_castsi512_si256(places), 0);
  if (total > 32) [[unlikely]]
    append(_mm512_extracti64x4_epi64(places, 1), 32);
  return total;
}
#endif

template <class T>
std::size_t diff_values(const std::byte* base, const std::byte* target, std::size_t count,
                        std::uint32_t first, std::uint16_t* positions, std::byte* old_values,
                        std::byte* new_values) {
  const T* a = reinterpret_cast<const T*>(base);
  const T* b = reinterpret_cast<const T*>(target);
  const ChangeOutput<T> all{positions, reinterpret_cast<T*>(old_values),
                            reinterpret_cast<T*>(new_values)};
  std::size_t found = 0;
  std::size_t i = 0;
#if HWY_TARGET == HWY_AVX3_DL
  if constexpr (sizeof(T) == 2) {
    for (; i + kChunk <= count; i += kChunk) {
      prefetch_chunk(a + i, b + i);
      const TwoLines olds = TwoLines::load(a + i);
      const TwoLines news = TwoLines::load(b + i);
      found += append_changes(differing(olds, news), olds, news,
                              first + static_cast<std::uint32_t>(i), all.after(found));
    }
  }
#endif
  for (; i + kGroup<T> <= count; i += kGroup<T>) {
    std::uint64_t bits[kGroup<T> / kChunk];
    std::size_t total = 0;
    for (std::size_t chunk = 0; chunk < kGroup<T> / kChunk; ++chunk) {
      const std::size_t at = i + chunk * kChunk;
      prefetch_chunk(a + at, b + at);
      bits[chunk] = differing(a + at, b + at);
      total += static_cast<std::size_t>(std::popcount(bits[chunk]));
    }
    const ChangeOutput<T> out = all.after(found);
    const std::uint32_t group_first = first + static_cast<std::uint32_t>(i);
    if (total <= kGroup<T> / 40) {
      take_few<T, 4>(bits, group_first, a + i, b + i, out);
    } else if (total <= kGroup<T> / 12) {
      take_few<T, 8>(bits, group_first, a + i, b + i, out);
    } else {
      take_many(bits, group_first, a + i, b + i, out);
    }
    found += total;
  }
  const std::size_t before = found;
  found += diff<T>(base + i * sizeof(T), target + i * sizeof(T), count - i,
                   first + static_cast<std::uint32_t>(i), positions + found);
  for (std::size_t j = before; j < found; ++j) {
    std::memcpy(old_values + j * sizeof(T), base + (positions[j] - first) * sizeof(T), sizeof(T));
    std::memcpy(new_values + j * sizeof(T), target + (positions[j] - first) * sizeof(T), sizeof(T));
  }
  return found;
}
