// Part of cpu_kernels.cpp, compiled once for each instruction set.

constexpr std::size_t kChunk = 64;  // elements that a loop takes at once: one word of mask bits

// VBMI2 compresses u16 lanes in one instruction; elsewhere counting trailing zeros is faster than compressing by tables.
constexpr bool kCompressesPositions = HWY_TARGET == HWY_AVX3_DL;

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

// Writes first + i for each bit i that is set, and up to kPositionSlack entries of rubbish. Returns how many bits are set.
HWY_INLINE std::size_t append_set_bits(std::uint64_t bits, std::uint32_t first, std::uint16_t* positions) {
  const auto total = static_cast<std::size_t>(std::popcount(bits));
  if constexpr (kCompressesPositions) {
    const hn::ScalableTag<std::uint16_t> d;
    for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
      const std::uint64_t part = low_bits(bits >> lane, hn::Lanes(d));
      hn::StoreU(hn::Compress(hn::Iota(d, static_cast<std::uint16_t>(first + lane)), mask_of(d, part)), d, positions);
      positions += std::popcount(part);
    }
  } else {
    for (; bits != 0; bits &= bits - 1) *positions++ = static_cast<std::uint16_t>(first + static_cast<unsigned>(std::countr_zero(bits)));
  }
  return total;
}

// Sums of all lanes up to each, in eight lanes: short enough in latency, and the same on every target.
using EightPositions = hn::FixedTag<std::uint16_t, 8>;

HWY_INLINE hn::VFromD<EightPositions> prefix_sums(EightPositions d, hn::VFromD<EightPositions> v) {
  v = hn::Add(v, hn::ShiftLeftLanes<1>(d, v));
  v = hn::Add(v, hn::ShiftLeftLanes<2>(d, v));
  return hn::Add(v, hn::ShiftLeftLanes<4>(d, v));
}
