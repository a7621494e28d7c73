// Part of cpu_kernels.cpp, compiled once for each instruction set. Lanes are signed here: the same
// bits, and the sign is at hand.

template <bool kFloat, class D, class V>
HWY_INLINE V ord(D d, V bits) {
  if constexpr (!kFloat) return bits;
  return hn::Xor(bits,
                 hn::Or(hn::BroadcastSignBit(bits), hn::Set(d, hwy::LimitsMin<hn::TFromD<D>>())));
}

template <bool kFloat, class D, class V>
HWY_INLINE V unord(D d, V order) {
  if constexpr (!kFloat) return order;
  return hn::Xor(order, hn::Or(hn::BroadcastSignBit(hn::Not(order)),
                               hn::Set(d, hwy::LimitsMin<hn::TFromD<D>>())));
}

// One chunk of kChunk elements. Returns the sign bits.
template <class T, bool kFloat>
HWY_INLINE std::uint64_t split_chunk(const T* old_values, const T* new_values, T* magnitudes) {
  const hn::ScalableTag<T> d;
  std::uint64_t negative = 0;
  for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
    const auto step = hn::Sub(ord<kFloat>(d, hn::LoadU(d, new_values + lane)),
                              ord<kFloat>(d, hn::LoadU(d, old_values + lane)));
    negative |= bits_of(d, hn::Lt(step, hn::Zero(d))) << lane;
    hn::StoreU(hn::Abs(step), d, magnitudes + lane);
  }
  return negative;
}

template <class T, bool kFloat>
void split_steps(const std::byte* old_values, const std::byte* new_values, std::size_t count,
                 std::byte* magnitudes, std::uint64_t* negative) {
  const T* olds = reinterpret_cast<const T*>(old_values);
  const T* news = reinterpret_cast<const T*>(new_values);
  const std::size_t whole = count / kChunk * kChunk;
  for (std::size_t i = 0; i < whole; i += kChunk) {
    negative[i / kChunk] =
        split_chunk<T, kFloat>(olds + i, news + i, reinterpret_cast<T*>(magnitudes) + i);
  }
  negative[whole / kChunk] = 0;
  if (whole == count) return;
  T tails[3][kChunk] = {};  // padding: equal values, so step 0 and sign 0
  std::memcpy(tails[0], olds + whole, (count - whole) * sizeof(T));
  std::memcpy(tails[1], news + whole, (count - whole) * sizeof(T));
  negative[whole / kChunk] = split_chunk<T, kFloat>(tails[0], tails[1], tails[2]);
  std::memcpy(magnitudes + whole * sizeof(T), tails[2], (count - whole) * sizeof(T));
}

template <class T>
HWY_INLINE std::uint64_t not_one(const T* values) {
  const hn::ScalableTag<T> d;
  std::uint64_t bits = 0;
  for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
    bits |= bits_of(d, hn::Ne(hn::LoadU(d, values + lane), hn::Set(d, T{1}))) << lane;
  }
  return bits;
}

template <class T>
std::size_t find_not_one(const std::byte* magnitudes, std::size_t count, std::uint16_t* indices) {
  const T* values = reinterpret_cast<const T*>(magnitudes);
  const std::size_t whole = count / kChunk * kChunk;
  std::size_t found = 0;
  for (std::size_t i = 0; i < whole; i += kChunk)
    found += append_set_bits(not_one(values + i), static_cast<std::uint32_t>(i), indices + found);
  if (whole == count) return found;
  // g++ 12 fills it by aligned stores, for which AddressSanitizer does not align its stack unless
  // told to.
  alignas(64) T tail[kChunk] = {};
  std::memcpy(tail, values + whole, (count - whole) * sizeof(T));
  return found + append_set_bits(low_bits(not_one(tail), count - whole),
                                 static_cast<std::uint32_t>(whole), indices + found);
}

template <class T>
HWY_INLINE void unit_chunk(std::uint64_t bits, T* steps) {
  const hn::ScalableTag<T> d;
  for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
    const auto mask = mask_of(d, low_bits(bits >> lane, hn::Lanes(d)));
    hn::StoreU(hn::IfThenElse(mask, hn::Set(d, T{-1}), hn::Set(d, T{1})), d, steps + lane);
  }
}

template <class T>
void unit_steps(const std::byte* bits, std::uint64_t bit, std::size_t count, std::byte* steps) {
  const std::size_t whole = count / kChunk * kChunk;
  for (std::size_t i = 0; i < whole; i += kChunk)
    unit_chunk(load_bits(bits, bit + i), reinterpret_cast<T*>(steps) + i);
  if (whole == count) return;
  T tail[kChunk];
  unit_chunk(load_bits(bits, bit + whole), tail);
  std::memcpy(steps + whole * sizeof(T), tail, (count - whole) * sizeof(T));
}

template <class T, bool kFloat>
HWY_INLINE void add_chunk(const T* old_values, const T* steps, T* new_values) {
  const hn::ScalableTag<T> d;
  for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
    const auto order =
        hn::Add(ord<kFloat>(d, hn::LoadU(d, old_values + lane)), hn::LoadU(d, steps + lane));
    hn::StoreU(unord<kFloat>(d, order), d, new_values + lane);
  }
}

template <class T, bool kFloat>
void add_steps(const std::byte* old_values, const std::byte* steps, std::size_t count,
               std::byte* new_values) {
  const T* olds = reinterpret_cast<const T*>(old_values);
  const T* added = reinterpret_cast<const T*>(steps);
  const std::size_t whole = count / kChunk * kChunk;
  for (std::size_t i = 0; i < whole; i += kChunk)
    add_chunk<T, kFloat>(olds + i, added + i, reinterpret_cast<T*>(new_values) + i);
  if (whole == count) return;
  T tails[3][kChunk] = {};
  std::memcpy(tails[0], olds + whole, (count - whole) * sizeof(T));
  std::memcpy(tails[1], added + whole, (count - whole) * sizeof(T));
  add_chunk<T, kFloat>(tails[0], tails[1], tails[2]);
  std::memcpy(new_values + whole * sizeof(T), tails[2], (count - whole) * sizeof(T));
}
