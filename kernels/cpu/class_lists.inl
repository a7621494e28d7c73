// Part of cpu_kernels.cpp, compiled once for each instruction set. The lists of a block of classes,
// class by class.

#if HWY_TARGET == HWY_AVX3_DL

HWY_INLINE __m512i first_numbers() {
  return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

// Inclusive prefix sums of 16 numbers.
HWY_INLINE __m512i prefix_sums(__m512i v) {
  const __m512i zero = _mm512_setzero_si512();
  v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 15));
  v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 14));
  v = _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 12));
  return _mm512_add_epi32(v, _mm512_alignr_epi32(v, zero, 8));
}

HWY_INLINE __m512i last_lane(__m512i v) {
  return _mm512_permutexvar_epi32(_mm512_set1_epi32(15), v);
}

HWY_INLINE std::uint64_t sum_of_lanes(__m512i v) {
  alignas(64) std::uint32_t lanes[16];
  _mm512_store_si512(lanes, v);
  std::uint64_t sum = 0;
  for (const std::uint32_t lane : lanes) sum += lane;
  return sum;
}

// Appends the indices of the set bits, counted from `first`. Writes 16 or 64 entries.
HWY_INLINE std::size_t append_places(std::uint64_t bits, std::uint32_t first,
                                     std::uint32_t* places) {
  alignas(64) static constexpr auto kPlaces = [] {
    std::array<std::uint8_t, 64> all{};
    for (unsigned i = 0; i < 64; ++i) all[i] = static_cast<std::uint8_t>(i);
    return all;
  }();
  const __m512i near = _mm512_maskz_compress_epi8(bits, _mm512_load_si512(kPlaces.data()));
  const __m512i begin = _mm512_set1_epi32(static_cast<int>(first));
  const auto total = static_cast<std::size_t>(std::popcount(bits));
  _mm512_storeu_si512(places,
                      _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_castsi512_si128(near)), begin));
  if (total <= 16) [[likely]]
    return total;
  _mm512_storeu_si512(
      places + 16,
      _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(near, 1)), begin));
  _mm512_storeu_si512(
      places + 32,
      _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(near, 2)), begin));
  _mm512_storeu_si512(
      places + 48,
      _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(near, 3)), begin));
  return total;
}

std::size_t take_nonzero(std::int8_t* bytes, std::size_t count, std::uint32_t* places,
                         std::int8_t* values) {
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
  for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d))
    hn::StoreU(hn::Zero(d), d, bytes + lane);
}

// Calls visit(element, j) for the bits of rows, ascending, j from 0. The number of bits in a row is
// hard to predict, and a misprediction costs as much as a row. Therefore a likely number of bits is
// always visited. visit() may be called for bits that are not set and must tolerate that.
class LikelyBits {
 public:
  template <class Visit>
  HWY_INLINE std::size_t visit(std::uint64_t bits, const Visit& visit) {
    const auto count = static_cast<unsigned>(std::popcount(bits));
    unsigned j = 0;
    for (; j < likely_; ++j, bits &= bits - 1)
      visit(static_cast<unsigned>(std::countr_zero(bits)) % 64, j);
    for (; bits != 0; ++j, bits &= bits - 1)
      visit(static_cast<unsigned>(std::countr_zero(bits)), j);
    seen_ += count;
    if (++rows_ == kRows) {  // adapts to the last rows
      likely_ = seen_ < kRows / 10 ? 0 : 1 + (seen_ + kRows / 2) / kRows;
      likely_ = likely_ < 64 ? likely_ : 64;
      seen_ = rows_ = 0;
    }
    return count;
  }

 private:
  static constexpr unsigned kRows = 64;
  unsigned likely_ = 1;
  unsigned seen_ = 0;
  unsigned rows_ = 0;
};

// First writes indices inside a part as 16 bits, because compressing 16-bit lanes is fast.
std::size_t take_nonzero(std::int8_t* bytes, std::size_t count, std::uint32_t* places,
                         std::int8_t* values) {
  constexpr std::size_t kPart = 4096;
  std::uint16_t near[kPart + kPositionSlack];
  LikelyBits likely;
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kPart) {
    const std::size_t left = count - i < kPart ? count - i : kPart;
    std::size_t own = 0;
    for (std::size_t at = 0; at < left; at += kChunk) {
      const std::uint64_t bits = low_bits(nonzero_chunk(bytes + i + at), left - at);
      own += likely.visit(bits, [&](unsigned place, unsigned j) HWY_ATTR {
        near[own + j] = static_cast<std::uint16_t>(at + place);
      });
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

void split_byte_steps(const std::int8_t* steps, std::size_t count, std::int8_t* beyond,
                      std::uint64_t* negative) {
  const hn::ScalableTag<std::int8_t> d;
  for (std::size_t i = 0; i < count; i += kChunk) {
    std::uint64_t bits = 0;
    for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
      const auto step = hn::LoadU(d, steps + i + lane);
      bits |= bits_of(d, hn::Lt(step, hn::Zero(d))) << lane;
      hn::StoreU(hn::Sub(hn::Abs(step), hn::Set(d, 1)), d,
                 beyond + i + lane);  // -128: 127, modulo 256
    }
    negative[i / kChunk] = low_bits(bits, count - i);
  }
  if (count % kChunk == 0) negative[count / kChunk] = 0;
}

std::uint32_t split_ranks(const std::uint32_t* ranks, std::size_t count, unsigned shift,
                          std::uint32_t mark_base, std::uint16_t* remainders,
                          std::uint32_t* marks) {
  const std::uint32_t low = (1u << shift) - 1;
  std::size_t i = 0;
#if HWY_TARGET == HWY_AVX3_DL
  const __m128i by_shift = _mm_cvtsi32_si128(static_cast<int>(shift));
  const __m512i one = _mm512_set1_epi32(1);
  __m512i ranks_before = _mm512_set1_epi32(-1);
  __m512i base = _mm512_set1_epi32(static_cast<int>(mark_base - 1));  // the mark before
  for (; i + 16 <= count; i += 16) {
    const __m512i own = _mm512_loadu_si512(ranks + i);
    const __m512i gaps =
        _mm512_sub_epi32(_mm512_sub_epi32(own, _mm512_alignr_epi32(own, ranks_before, 15)), one);
    ranks_before = own;
    const __m512i remainder = _mm512_and_si512(gaps, _mm512_set1_epi32(static_cast<int>(low)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(remainders + i),
                        _mm512_cvtepi32_epi16(remainder));
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

std::uint64_t join_ranks(const std::uint16_t* remainders, const std::uint32_t* marks,
                         std::size_t count, unsigned shift, std::uint32_t mark_base,
                         std::uint32_t* ranks) {
  if (count == 0) return 0;
  std::uint64_t sum = 0;  // no modulus needed
  std::size_t i = 0;
#if HWY_TARGET == HWY_AVX3_DL
  const __m128i by_shift = _mm_cvtsi32_si128(static_cast<int>(shift));
  __m512i before = _mm512_setzero_si512();
  __m512i each = _mm512_setzero_si512();  // at most 2^14 numbers below 2^16 in a lane
  for (; i + 16 <= count; i += 16) {
    const __m512i own =
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(remainders + i)));
    each = _mm512_add_epi32(each, own);
    const __m512i within = prefix_sums(own);
    const __m512i places =
        _mm512_add_epi32(first_numbers(), _mm512_set1_epi32(static_cast<int>(i)));
    const __m512i gone =
        _mm512_sub_epi32(_mm512_loadu_si512(marks + i),
                         _mm512_add_epi32(places, _mm512_set1_epi32(static_cast<int>(mark_base))));
    const __m512i sums = _mm512_add_epi32(_mm512_add_epi32(within, before), places);
    _mm512_storeu_si512(ranks + i, _mm512_add_epi32(_mm512_sll_epi32(gone, by_shift), sums));
    before = _mm512_add_epi32(before, last_lane(within));
  }
  sum = sum_of_lanes(each);
#endif
  for (; i < count; ++i) {
    sum += remainders[i];
    ranks[i] = static_cast<std::uint32_t>(
        (std::uint64_t{marks[i] - mark_base - static_cast<std::uint32_t>(i)} << shift) + sum + i);
  }
  return (std::uint64_t{marks[count - 1] - mark_base - static_cast<std::uint32_t>(count - 1)}
          << shift) +
         sum + (count - 1);
}

bool read_sizes(const std::byte* bits, std::uint64_t bit, const std::uint32_t* marks,
                std::size_t count, std::uint32_t mark_base, unsigned exponent,
                std::uint32_t* sizes) {
  if (count == 0) return true;
  bool is_valid = true;
  std::size_t i = 0;
#if HWY_TARGET == HWY_AVX3_DL
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i exponents = _mm512_set1_epi32(static_cast<int>(exponent));
  const __m512i least = _mm512_sllv_epi32(one, exponents);
  __m512i at =
      _mm512_set1_epi32(static_cast<int>(bit % 8));  // fewer than 2^18 * 22 bits: 32 are enough
  const std::byte* from = bits + bit / 8;
  __m512i ones_before = _mm512_set1_epi32(static_cast<int>(mark_base - 1));
  for (; is_valid && i + 16 <= count; i += 16) {
    const __m512i ones = _mm512_loadu_si512(marks + i);
    const __m512i zeros =
        _mm512_sub_epi32(_mm512_sub_epi32(ones, _mm512_alignr_epi32(ones, ones_before, 15)), one);
    ones_before = ones;
    is_valid = _mm512_cmpgt_epu32_mask(zeros, _mm512_set1_epi32(kMaxSizeZeros)) == 0;
    if (!is_valid) break;
    const __m512i lengths = _mm512_add_epi32(zeros, exponents);
    const __m512i ends = prefix_sums(lengths);
    const __m512i places = _mm512_add_epi32(at, _mm512_sub_epi32(ends, lengths));
    const __m512i words = _mm512_i32gather_epi32(_mm512_srli_epi32(places, 3), from, 1);
    const __m512i shifted =
        _mm512_srlv_epi32(words, _mm512_and_si512(places, _mm512_set1_epi32(7)));
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
    is_valid = zeros <= kMaxSizeZeros;
    const unsigned length = (zeros & 31) + exponent;
    sizes[i] = static_cast<std::uint32_t>(low_bits(load_bits(bits, bit), length) +
                                          (std::uint64_t{1} << length)) -
               (1u << exponent);
    bit += length;
  }
  return is_valid;
}

// As write_marks: a part at a time, with flags as bytes first.
void write_long_marks(const std::uint32_t* marks, std::size_t count, BitWriter& out) {
  if (count == 0) return;
  constexpr std::uint32_t kPart = 8192;
  alignas(64) std::uint8_t flags[kPart] = {};
  const hn::ScalableTag<std::uint8_t> d;
  BitWriter writer = out;  // a copy in registers
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

std::size_t find_long_marks(const std::byte* bits, std::uint64_t bit, std::uint64_t limit,
                            std::size_t count, std::uint32_t* marks) {
  std::size_t found = 0;
  for (std::uint64_t i = 0; i < limit && found < count; i += kChunk) {
    std::uint64_t word = low_bits(load_bits(bits, bit + i), limit - i);
#if HWY_TARGET == HWY_AVX3_DL
    // At most 64 more entries than requested, which is the slack; `marks` has room for `count`.
    for (std::uint32_t at = static_cast<std::uint32_t>(i); word != 0; word >>= 16, at += 16) {
      const auto part = static_cast<__mmask16>(word);
      const __m512i places =
          _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(at)),
                           _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
      _mm512_storeu_si512(marks + found, _mm512_maskz_compress_epi32(part, places));
      found += static_cast<std::size_t>(std::popcount(static_cast<std::uint32_t>(part)));
    }
#else
    for (; word != 0; word &= word - 1) {
      marks[found++] =
          static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(std::countr_zero(word));
    }
#endif
  }
  return found < count ? found : count;
}
