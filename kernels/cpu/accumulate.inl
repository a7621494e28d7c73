// Part of cpu_kernels.cpp, compiled once for each instruction set.

constexpr std::size_t kStrip = 1024;  // heuristic: elements whose accumulators are still in the
                                      // first cache when some are taken

// Values as accumulators of T: float, double, or an unsigned integer.
template <class T>
struct NativeValues {
  using Accumulator = T;
  static constexpr std::size_t kBytes = sizeof(T);
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const std::byte* values) {
    return hn::LoadU(d, reinterpret_cast<const T*>(values));
  }
};

struct Bfloat16Values {
  using Accumulator = float;
  static constexpr std::size_t kBytes = 2;
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const std::byte* values) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<std::uint16_t, D> d16;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(
                              du, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(values)))));
  }
};

struct Float16Values {
  using Accumulator = float;
  static constexpr std::size_t kBytes = 2;
  template <class D>
  static HWY_INLINE hn::VFromD<D> load(D d, const std::byte* values) {
    const hn::Rebind<hwy::float16_t, D> d16;
    return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(values)));
  }
};

template <class D>
HWY_INLINE hn::VFromD<D> canonical(D d, hn::VFromD<D> acc) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    const auto nan =
        hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(),
                               sizeof(hn::TFromD<D>) == 4 ? 0x7fc00000U : 0x7ff8ULL << 48));
    return hn::IfThenElse(hn::Eq(acc, acc), hn::Add(acc, hn::Zero(d)), nan);
  } else {
    return acc;
  }
}

// kChunk elements: writes acc (plus the residual that `acc` holds, with feedback) to `acc`. Returns
// the elements that reach `least`.
template <class Values, Numbers kNumbers, bool kFeedback, class Bits>
HWY_INLINE std::uint64_t accumulate_chunk(const std::byte* values, std::byte* acc, Bits least) {
  using T = typename Values::Accumulator;
  const hn::ScalableTag<T> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  std::uint64_t large = 0;
  for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
    T* at = reinterpret_cast<T*>(acc) + lane;
    auto sum = Values::load(d, values + lane * Values::kBytes);
    if constexpr (kFeedback) sum = hn::Add(sum, hn::LoadU(d, at));
    sum = canonical(d, sum);
    hn::StoreU(sum, d, at);
    const auto keys = magnitude<Bits, kNumbers>(du, hn::BitCast(du, sum));
    large |= bits_of(du, hn::Eq(hn::Max(keys, hn::Set(du, least)), keys))
             << lane;  // unsigned >=, which not every target has
  }
  return large;
}

// As above, for fewer elements than a chunk.
template <class Values, Numbers kNumbers, bool kFeedback, class Bits>
std::uint64_t accumulate_rest(const std::byte* values, std::size_t count, std::byte* acc,
                              Bits least) {
  alignas(64) std::byte own_values[kChunk * Values::kBytes] = {};
  alignas(64) std::byte own_acc[kChunk * sizeof(Bits)] = {};
  std::memcpy(own_values, values, count * Values::kBytes);
  if constexpr (kFeedback) std::memcpy(own_acc, acc, count * sizeof(Bits));
  const std::uint64_t large =
      accumulate_chunk<Values, kNumbers, kFeedback>(own_values, own_acc, least);
  std::memcpy(acc, own_acc, count * sizeof(Bits));
  return low_bits(large, count);
}

template <class Values, Numbers kNumbers, bool kFeedback, class Bits>
std::size_t accumulate_strip(const std::byte* values, std::size_t count, std::byte* acc,
                             std::uint32_t first, Bits least, std::uint16_t* positions) {
  const std::size_t whole = count / kChunk * kChunk;
  std::size_t found = 0;
  for (std::size_t i = 0; i < whole; i += kChunk) {
    const std::byte* from = values + i * Values::kBytes;
    std::byte* to = acc + i * sizeof(Bits);
    for (std::size_t line = 0; line < kChunk * Values::kBytes; line += 64)
      __builtin_prefetch(from + line + kPrefetchBytes);
    if constexpr (kFeedback) {
      for (std::size_t line = 0; line < kChunk * sizeof(Bits); line += 64)
        __builtin_prefetch(to + line + kPrefetchBytes, 1);
    }
    const std::uint64_t large = accumulate_chunk<Values, kNumbers, kFeedback>(from, to, least);
    found += append_set_bits(large, first + static_cast<std::uint32_t>(i), positions + found);
  }
  if (whole == count) return found;
  const std::uint64_t large = accumulate_rest<Values, kNumbers, kFeedback>(
      values + whole * Values::kBytes, count - whole, acc + whole * sizeof(Bits), least);
  return found +
         append_set_bits(large, first + static_cast<std::uint32_t>(whole), positions + found);
}

template <class Values, Numbers kNumbers>
std::size_t accumulate_pass(const std::byte* values, std::size_t count, std::byte* residual,
                            std::uint32_t first, std::uint64_t least, std::uint16_t* positions,
                            std::byte* taken) {
  using Bits = hwy::MakeUnsigned<typename Values::Accumulator>;
  alignas(64) std::byte own[kStrip * sizeof(Bits)];
  const bool any = least <= hwy::LimitsMax<Bits>();
  const Bits reached = any ? static_cast<Bits>(least) : hwy::LimitsMax<Bits>();
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kStrip) {
    const std::size_t size = count - i < kStrip ? count - i : kStrip;
    const std::byte* from = values + i * Values::kBytes;
    const std::uint32_t begin = first + static_cast<std::uint32_t>(i);
    std::byte* acc = residual != nullptr ? residual + i * sizeof(Bits) : own;
    const std::size_t more = residual != nullptr
                                 ? accumulate_strip<Values, kNumbers, true>(
                                       from, size, acc, begin, reached, positions + found)
                                 : accumulate_strip<Values, kNumbers, false>(
                                       from, size, acc, begin, reached, positions + found);
    for (const std::size_t end = found + (any ? more : 0); found < end; ++found) {
      std::memcpy(taken + found * sizeof(Bits), acc + (positions[found] - begin) * sizeof(Bits),
                  sizeof(Bits));
    }
  }
  return found;
}

template <class Values, Numbers kNumbers>
std::size_t take_large(const std::byte* values, std::size_t count, std::uint32_t first,
                       std::uint64_t least, std::uint16_t* positions, std::byte* taken) {
  return accumulate_pass<Values, kNumbers>(values, count, nullptr, first, least, positions, taken);
}

template <class Values, Numbers kNumbers>
void take_accumulates(AccumulateTable& table, DataType type) {
  table[static_cast<std::size_t>(type)] = {accumulate_pass<Values, kNumbers>,
                                           take_large<Values, kNumbers>};
}

AccumulateTable accumulates() {
  AccumulateTable table = reference_accumulates();
  take_accumulates<NativeValues<std::uint32_t>, Numbers::kSigned>(table, DataType::kInt32);
  take_accumulates<NativeValues<std::uint32_t>, Numbers::kUnsigned>(table, DataType::kUint32);
  take_accumulates<NativeValues<std::uint64_t>, Numbers::kSigned>(table, DataType::kInt64);
  take_accumulates<NativeValues<std::uint64_t>, Numbers::kUnsigned>(table, DataType::kUint64);
  take_accumulates<NativeValues<float>, Numbers::kFloat>(table, DataType::kFloat32);
  take_accumulates<NativeValues<double>, Numbers::kFloat>(table, DataType::kFloat64);
  take_accumulates<Bfloat16Values, Numbers::kFloat>(table, DataType::kBfloat16);
#if HWY_TARGET != HWY_SSE4 && HWY_TARGET != HWY_SSSE3  // as reduce.inl has it
  take_accumulates<Float16Values, Numbers::kFloat>(table, DataType::kFloat16);
#endif
  return table;
}
