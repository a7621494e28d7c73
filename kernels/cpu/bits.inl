// Part of cpu_kernels.cpp, compiled once for each instruction set.

constexpr std::size_t kChunk = 64;  // elements that a loop takes at once: one word of mask bits

template <class D, class M>
std::uint64_t bits_of(D d, M mask) {
  std::uint64_t bits = 0;
  hn::StoreMaskBits(d, mask, reinterpret_cast<std::uint8_t*>(&bits));
  return bits;
}

template <class D>
auto mask_of(D d, std::uint64_t bits) {
  return hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&bits));
}

#if HWY_TARGET == HWY_AVX2
// For each byte of bits, which of 8 lanes are set: the places of these from the lowest on, 4 bits
// each.
inline constexpr std::array<std::uint32_t, 256> kSetLanes = [] {
  std::array<std::uint32_t, 256> all{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    for (unsigned lane = 0, at = 0; lane < 8; ++lane) {
      if ((bits >> lane & 1) != 0) all[bits] |= lane << (4 * at++);
    }
  }
  return all;
}();
#endif

// Moves the lanes whose bits are set to the front; the lanes after them are undefined. Lanes of 4
// or 8 bytes; with VBMI2 also of 1 and 2. As hn::Compress, whose tables g++ 12 copies to the stack
// each time.
template <class D>
HWY_INLINE hn::Vec<D> compressed(D d, hn::Vec<D> lanes, std::uint64_t bits) {
  constexpr std::size_t kBytes = sizeof(hn::TFromD<D>);
  static_assert(kBytes >= 4 || HWY_TARGET == HWY_AVX3_DL, "would be moved as lanes of 8 bytes");
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  const auto words = hn::BitCast(hn::ScalableTag<std::int32_t>(), lanes);
  using Words = hn::Vec512<std::int32_t>;
#if HWY_TARGET == HWY_AVX3_DL
  if constexpr (kBytes == 1)
    return hn::BitCast(d, Words{_mm512_maskz_compress_epi8(bits, words.raw)});
  if constexpr (kBytes == 2)
    return hn::BitCast(d,
                       Words{_mm512_maskz_compress_epi16(static_cast<__mmask32>(bits), words.raw)});
#endif
  if constexpr (kBytes == 4)
    return hn::BitCast(d,
                       Words{_mm512_maskz_compress_epi32(static_cast<__mmask16>(bits), words.raw)});
  return hn::BitCast(d, Words{_mm512_maskz_compress_epi64(static_cast<__mmask8>(bits), words.raw)});
#elif HWY_TARGET == HWY_AVX2
  const auto words = hn::BitCast(hn::ScalableTag<std::int32_t>(), lanes);
  const std::uint64_t pairs = _pdep_u64(bits, 0x55) * 3;  // a lane of 8 bytes is two
  const std::uint32_t packed = kSetLanes[kBytes == 4 ? bits : pairs];
  const __m256i places = _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(packed)),
                                           _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
  return hn::BitCast(d, hn::Vec256<std::int32_t>{_mm256_permutevar8x32_epi32(words.raw, places)});
#else
  return hn::Compress(lanes, mask_of(d, bits));
#endif
}

// Bit i of `order` goes to the place of the i-th bit that is set in `mask`; zeros elsewhere.
HWY_INLINE std::uint64_t deposit_bits(std::uint64_t order, std::uint64_t mask) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return _pdep_u64(order, mask);
#else
  std::uint64_t result = 0;
  for (; order != 0 && mask != 0; mask &= mask - 1, order >>= 1)
    result |= (order & 1) != 0 ? mask & (0 - mask) : 0;
  return result;
#endif
}

// Bit i of the result is that at the place of the i-th bit that is set in `mask`; zeros above.
HWY_INLINE std::uint64_t extract_bits(std::uint64_t bits, std::uint64_t mask) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return _pext_u64(bits, mask);
#else
  std::uint64_t result = 0;
  for (unsigned i = 0; mask != 0; mask &= mask - 1, ++i)
    result |= ((bits >> std::countr_zero(mask)) & 1) << i;
  return result;
#endif
}

#if HWY_TARGET == HWY_AVX3_DL
// The indices of the set bits, as bytes from the lowest on, followed by zeros. One compress of
// bytes replaces two of words.
HWY_INLINE __m512i places_of(std::uint64_t bits) {
  alignas(64) static constexpr auto kPlaces = [] {
    std::array<std::uint8_t, 64> all{};
    for (unsigned i = 0; i < 64; ++i) all[i] = static_cast<std::uint8_t>(i);
    return all;
  }();
  return _mm512_maskz_compress_epi8(bits, _mm512_load_si512(kPlaces.data()));
}
#endif

#if HWY_TARGET != HWY_AVX3_DL
// For each byte, which of its bits are set, from the lowest on.
inline constexpr std::array<std::array<std::uint8_t, 8>, 256> kSetBits = [] {
  std::array<std::array<std::uint8_t, 8>, 256> all{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    for (unsigned bit = 0, at = 0; bit < 8; ++bit) {
      if ((bits >> bit & 1) != 0) all[bits][at++] = static_cast<std::uint8_t>(bit);
    }
  }
  return all;
}();
#endif

// Writes first + i for each set bit i, and up to kPositionSlack undefined entries. Returns the
// number of set bits.
HWY_INLINE std::size_t append_set_bits(std::uint64_t bits, std::uint32_t first,
                                       std::uint16_t* positions) {
  const auto total = static_cast<std::size_t>(std::popcount(bits));
#if HWY_TARGET == HWY_AVX3_DL
  const __m512i places = places_of(bits);
  const __m512i begin = _mm512_set1_epi16(static_cast<short>(first));
  _mm512_storeu_si512(
      positions, _mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(places)), begin));
  if (total > 32) [[unlikely]]
    _mm512_storeu_si512(
        positions + 32,
        _mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(places, 1)), begin));
#else
  constexpr std::size_t kFew = 6;  // heuristic: fewer are found faster one by one
  if (total <= kFew) {
    for (; bits != 0; bits &= bits - 1)
      *positions++ =
          static_cast<std::uint16_t>(first + static_cast<unsigned>(std::countr_zero(bits)));
    return total;
  }
  const hn::CappedTag<std::uint8_t, 8> bytes;
  const hn::CappedTag<std::uint16_t, 8> words;
  for (std::uint32_t at = first; bits != 0; bits >>= 8, at += 8) {
    const std::size_t part = bits % 256;
    const auto places = hn::PromoteTo(words, hn::LoadU(bytes, kSetBits[part].data()));
    hn::StoreU(hn::Add(places, hn::Set(words, static_cast<std::uint16_t>(at))), words, positions);
    positions += std::popcount(part);
  }
#endif
  return total;
}

// Appends to a BitWriter without a branch on full words, which is often mispredicted: it stores
// eight bytes each time. Each put except the last must therefore be followed by at least eight more
// bytes.
class SteadyBitWriter {
 public:
  static constexpr unsigned kMaxBits = 56;

  HWY_INLINE SteadyBitWriter(const BitWriter& from, bool used) : out_(from) {
    if (used) advance(out_.pending_bits);
  }

  // count <= kMaxBits; the bits of `bits` above count must be zero.
  HWY_INLINE void put(std::uint64_t bits, unsigned count) {
    out_.pending |= bits << out_.pending_bits;
    advance(out_.pending_bits + count);
  }

  HWY_INLINE BitWriter stop() const { return out_; }

 private:
  // `filled` < 64 bits are pending: whole bytes of them are done with.
  HWY_INLINE void advance(unsigned filled) {
    std::memcpy(out_.at, &out_.pending, 8);
    out_.at += filled / 8;
    out_.pending >>= filled / 8 * 8;
    out_.pending_bits = filled % 8;
  }

  BitWriter out_;
};

// Inclusive sums of lanes, modulo 2^16 or 2^32. It shifts inside blocks of 16 bytes, and adds the
// sums of the earlier blocks by permutes. Targets with one block need no permutes.
template <class T>
class PrefixSums {
 public:
  using D = hn::ScalableTag<T>;
  using V = hn::VFromD<D>;

  HWY_INLINE PrefixSums()
      : carry_(hn::Zero(D())) {
  }  // written out: the compiler's own would not be of this instruction set

  // Call in a loop: what came before is carried on.
  HWY_INLINE V next(V v) {
    v = hn::Add(v, hn::ShiftLeftLanes<1>(d_, v));
    v = hn::Add(v, hn::ShiftLeftLanes<2>(d_, v));
    if constexpr (kBlockLanes == 8) v = hn::Add(v, hn::ShiftLeftLanes<4>(d_, v));
    const V block_sums = hn::Broadcast<kBlockLanes - 1>(v);
    for (std::size_t back = 1; back < hn::Lanes(d_) / kBlockLanes; ++back)
      v = hn::Add(v, move_blocks(block_sums, back));
    const V sums = hn::Add(v, carry_);
    carry_ = hn::Add(carry_,
                     last_block(hn::Broadcast<kBlockLanes - 1>(
                         v)));  // not of `sums`: one addition is all that the next round waits for
    return sums;
  }

  T total() const { return hn::GetLane(carry_); }

 private:
  static constexpr int kBlockLanes = 16 / sizeof(T);
  using D32 = hn::Repartition<std::uint32_t, D>;

  // Block b of the result is block b - back, or zero if there is none.
  HWY_INLINE V move_blocks(V v, std::size_t back) const {
    const auto places = hn::Iota(d32_, 0);
    const auto blocks = hn::Set(d32_, static_cast<std::uint32_t>(4 * back));
    const auto moved = hn::TableLookupLanes(
        hn::BitCast(d32_, v),
        hn::IndicesFromVec(d32_, hn::And(hn::Sub(places, blocks), last_lane())));
    return hn::BitCast(
        d_, hn::IfThenElseZero(
                hn::Gt(places, hn::Set(d32_, static_cast<std::uint32_t>(4 * back - 1))), moved));
  }

  HWY_INLINE V last_block(V v) const {
    if (hn::Lanes(d_) == kBlockLanes) return v;
    return hn::BitCast(
        d_, hn::TableLookupLanes(hn::BitCast(d32_, v), hn::IndicesFromVec(d32_, last_lane())));
  }

  HWY_INLINE hn::VFromD<D32> last_lane() const {
    return hn::Set(d32_, static_cast<std::uint32_t>(hn::Lanes(d32_) - 1));
  }

  D d_;
  D32 d32_;
  V carry_;
};
