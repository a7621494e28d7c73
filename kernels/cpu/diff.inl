// Part of cpu_kernels.cpp, compiled once for each instruction set.

// Far enough to hide DRAM behind compares, near enough not to leave L1: 4 KiB measured 10 % faster than 2, 8 no faster
// (bench/codec).
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
std::size_t diff(const std::byte* base, const std::byte* target, std::size_t count, std::uint32_t first, std::uint16_t* positions) {
  const T* a = reinterpret_cast<const T*>(base);
  const T* b = reinterpret_cast<const T*>(target);
  std::size_t found = 0;
  std::size_t i = 0;
  for (; i + kChunk <= count; i += kChunk) {
    prefetch_chunk(a + i, b + i);
    found += append_set_bits(differing(a + i, b + i), first + static_cast<std::uint32_t>(i), positions + found);
  }
  for (; i < count; ++i) {
    positions[found] = static_cast<std::uint16_t>(first + i);
    found += std::memcmp(base + i * sizeof(T), target + i * sizeof(T), sizeof(T)) != 0;
  }
  return found;
}

// The values of a chunk whose bits are set. They are in L1 or in registers.
template <class T>
HWY_INLINE void append_values(std::uint64_t bits, const T* from, std::byte* values) {
  if constexpr (kCompressesPositions) {
    const hn::ScalableTag<T> d;
    T* out = reinterpret_cast<T*>(values);
    for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
      const std::uint64_t part = low_bits(bits >> lane, hn::Lanes(d));
      hn::StoreU(hn::Compress(hn::LoadU(d, from + lane), mask_of(d, part)), d, out);
      out += std::popcount(part);
    }
  } else {
    for (; bits != 0; bits &= bits - 1, values += sizeof(T)) std::memcpy(values, from + std::countr_zero(bits), sizeof(T));
  }
}

// Elements whose values are copied together, when their positions are known and while both arrays' parts are in L1.
template <class T>
constexpr std::size_t kGroup = 4096 / sizeof(T);

struct ValueOutput {
  std::byte* olds;
  std::byte* news;
};

// The values of a group: those at `positions` if they are few (under 6 %), else by the group's mask bits. A loop over few costs one
// wrong guess of its end; compressing costs the same for any number.
template <class T>
HWY_INLINE void copy_values(const std::uint64_t* bits, const std::uint16_t* positions, std::size_t count, std::uint32_t first,
                            const T* a, const T* b, ValueOutput out) {
  if (count <= kGroup<T> / 16) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(out.olds + i * sizeof(T), a + (positions[i] - first), sizeof(T));
      std::memcpy(out.news + i * sizeof(T), b + (positions[i] - first), sizeof(T));
    }
    return;
  }
  for (std::size_t chunk = 0; chunk < kGroup<T> / kChunk; ++chunk) {
    append_values(bits[chunk], a + chunk * kChunk, out.olds);
    append_values(bits[chunk], b + chunk * kChunk, out.news);
    const std::size_t bytes = static_cast<std::size_t>(std::popcount(bits[chunk])) * sizeof(T);
    out = {out.olds + bytes, out.news + bytes};
  }
}

#if HWY_TARGET == HWY_AVX3_DL
struct Lines {
  __m512i low;
  __m512i high;
};

// Positions and values of a chunk of elements of two bytes, always by the same few instructions: a branch on how many there are
// would be guessed wrong too often, and what follows a wrong guess asks memory for nothing meanwhile.
HWY_INLINE std::size_t append_changes(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t first, std::uint16_t* positions,
                                      std::uint16_t* olds, std::uint16_t* news) {
  const Lines old_lines{_mm512_loadu_si512(a), _mm512_loadu_si512(a + 32)};
  const Lines new_lines{_mm512_loadu_si512(b), _mm512_loadu_si512(b + 32)};
  const std::uint64_t bits = _mm512_cmpneq_epi16_mask(old_lines.low, new_lines.low) |
                             std::uint64_t{_mm512_cmpneq_epi16_mask(old_lines.high, new_lines.high)} << 32;
  const auto append = [&](__m256i some, std::size_t at) HWY_ATTR {
    const __m512i places = _mm512_cvtepu8_epi16(some);
    _mm512_storeu_si512(positions + at, _mm512_add_epi16(places, _mm512_set1_epi16(static_cast<short>(first))));
    _mm512_storeu_si512(olds + at, _mm512_permutex2var_epi16(old_lines.low, places, old_lines.high));
    _mm512_storeu_si512(news + at, _mm512_permutex2var_epi16(new_lines.low, places, new_lines.high));
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
std::size_t diff_values(const std::byte* base, const std::byte* target, std::size_t count, std::uint32_t first,
                        std::uint16_t* positions, std::byte* old_values, std::byte* new_values) {
  const T* a = reinterpret_cast<const T*>(base);
  const T* b = reinterpret_cast<const T*>(target);
  std::size_t found = 0;
  std::size_t i = 0;
#if HWY_TARGET == HWY_AVX3_DL
  if constexpr (sizeof(T) == 2) {
    T* olds = reinterpret_cast<T*>(old_values);
    T* news = reinterpret_cast<T*>(new_values);
    for (; i + kChunk <= count; i += kChunk) {
      prefetch_chunk(a + i, b + i);
      found += append_changes(a + i, b + i, first + static_cast<std::uint32_t>(i), positions + found, olds + found, news + found);
    }
  }
#endif
  for (; i + kGroup<T> <= count; i += kGroup<T>) {
    std::uint64_t bits[kGroup<T> / kChunk];
    const std::size_t before = found;
    const auto group_first = first + static_cast<std::uint32_t>(i);
    for (std::size_t chunk = 0; chunk < kGroup<T> / kChunk; ++chunk) {
      const std::size_t at = chunk * kChunk;
      prefetch_chunk(a + i + at, b + i + at);
      bits[chunk] = differing(a + i + at, b + i + at);
      found += append_set_bits(bits[chunk], group_first + static_cast<std::uint32_t>(at), positions + found);
    }
    copy_values(bits, positions + before, found - before, group_first, a + i, b + i,
                {old_values + before * sizeof(T), new_values + before * sizeof(T)});
  }
  const std::size_t before = found;
  found +=
      diff<T>(base + i * sizeof(T), target + i * sizeof(T), count - i, first + static_cast<std::uint32_t>(i), positions + found);
  for (std::size_t j = before; j < found; ++j) {
    std::memcpy(old_values + j * sizeof(T), base + (positions[j] - first) * sizeof(T), sizeof(T));
    std::memcpy(new_values + j * sizeof(T), target + (positions[j] - first) * sizeof(T), sizeof(T));
  }
  return found;
}
