// Part of cpu_kernels.cpp, compiled once for each instruction set. T is unsigned.

template <class T, Numbers kNumbers, class D>
HWY_INLINE hn::VFromD<D> magnitude(D d, hn::VFromD<D> bits) {
  if constexpr (kNumbers == Numbers::kUnsigned) return bits;
  if constexpr (kNumbers == Numbers::kFloat)
    return hn::And(bits, hn::Set(d, static_cast<T>(hwy::LimitsMax<T>() >> 1)));
  const hn::RebindToSigned<D> ds;
  return hn::BitCast(d, hn::Abs(hn::BitCast(ds, bits)));
}

template <class T, Numbers kNumbers>
HWY_INLINE std::uint64_t at_least(const T* values, T least) {
  const hn::ScalableTag<T> d;
  std::uint64_t bits = 0;
  for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
    const auto keys = magnitude<T, kNumbers>(d, hn::LoadU(d, values + lane));
    bits |= bits_of(d, hn::Eq(hn::Max(keys, hn::Set(d, least)), keys))
            << lane;  // unsigned >=, which not every target has
  }
  return bits;
}

template <class T, Numbers kNumbers>
std::size_t find_at_least(const std::byte* array, std::size_t count, std::uint32_t first,
                          std::uint64_t least, std::uint16_t* positions) {
  if (least > hwy::LimitsMax<T>()) return 0;
  const T* values = reinterpret_cast<const T*>(array);
  const std::size_t whole = count / kChunk * kChunk;
  std::size_t found = 0;
  for (std::size_t i = 0; i < whole; i += kChunk) {
    for (std::size_t line = 0; line < kChunk * sizeof(T); line += 64)
      __builtin_prefetch(array + i * sizeof(T) + line + kPrefetchBytes);
    found += append_set_bits(at_least<T, kNumbers>(values + i, static_cast<T>(least)),
                             first + static_cast<std::uint32_t>(i), positions + found);
  }
  if (whole == count) return found;
  alignas(64) T tail[kChunk] = {};  // see find_not_one
  std::memcpy(tail, array + whole * sizeof(T), (count - whole) * sizeof(T));
  const std::uint64_t bits =
      low_bits(at_least<T, kNumbers>(tail, static_cast<T>(least)), count - whole);
  return found +
         append_set_bits(bits, first + static_cast<std::uint32_t>(whole), positions + found);
}

template <class T, Numbers kNumbers>
void magnitude_keys(const std::byte* array, const std::uint16_t* positions, std::size_t count,
                    std::uint32_t first, std::uint64_t cap, std::uint64_t* keys) {
  for (std::size_t i = 0; i < count; ++i) {
    T bits;
    std::memcpy(&bits, array + (positions[i] - first) * sizeof(T), sizeof(T));
    constexpr T kSign = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
    if constexpr (kNumbers == Numbers::kFloat) bits = static_cast<T>(bits & ~kSign);
    if constexpr (kNumbers == Numbers::kSigned)
      bits = static_cast<T>((bits & kSign) != 0 ? T{0} - bits : bits);
    keys[i] = bits < cap ? bits : cap;
  }
}
