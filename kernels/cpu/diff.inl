// Part of cpu_kernels.cpp, compiled once for each instruction set.

// Far enough to hide DRAM behind compares, near enough not to leave L1: 1-4 KiB measured alike (bench/codec).
constexpr std::size_t kPrefetchBytes = 2048;

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
std::size_t diff(const std::byte* base, const std::byte* target, std::size_t count, std::uint32_t first, std::uint16_t* positions) {
  const T* a = reinterpret_cast<const T*>(base);
  const T* b = reinterpret_cast<const T*>(target);
  std::size_t found = 0;
  std::size_t i = 0;
  for (; i + kChunk <= count; i += kChunk) {
    for (std::size_t line = 0; line < kChunk * sizeof(T); line += 64) {
      __builtin_prefetch(base + i * sizeof(T) + line + kPrefetchBytes);
      __builtin_prefetch(target + i * sizeof(T) + line + kPrefetchBytes);
    }
    found += append_set_bits(differing(a + i, b + i), first + static_cast<std::uint32_t>(i), positions + found);
  }
  for (; i < count; ++i) {
    positions[found] = static_cast<std::uint16_t>(first + i);
    found += std::memcmp(base + i * sizeof(T), target + i * sizeof(T), sizeof(T)) != 0;
  }
  return found;
}
