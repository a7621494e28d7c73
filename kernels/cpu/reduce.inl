// Part of cpu_kernels.cpp, compiled once for each instruction set. Plain loops that compilers
// vectorise, except for 16-bit floats and roundings.

constexpr std::size_t kHalvesAtOnce = 8;

template <class T>
void widen_native(const std::byte* values, std::size_t count, std::byte* accumulators) {
  T* HWY_RESTRICT out = reinterpret_cast<T*>(accumulators);
  for (std::size_t i = 0; i < count; ++i) {
    const T value = load_one<T>(values + i * sizeof(T));
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      out[i] = value + T{0};
    } else {
      out[i] = value;
    }
  }
}

template <class T>
void narrow_native(const std::byte* accumulators, std::size_t count, std::byte* values) {
  const T* HWY_RESTRICT in = reinterpret_cast<const T*>(accumulators);
  for (std::size_t i = 0; i < count; ++i) {
    T value = in[i];
    if constexpr (std::is_same_v<T, float>)
      value = value != value ? std::bit_cast<float>(0x7fc00000U) : value;
    if constexpr (std::is_same_v<T, double>)
      value = value != value ? std::bit_cast<double>(0x7ff8000000000000U) : value;
    std::memcpy(values + i * sizeof(T), &value, sizeof value);
  }
}

void widen_bfloat16(const std::byte* values, std::size_t count, std::byte* accumulators) {
  float* HWY_RESTRICT out = reinterpret_cast<float*>(accumulators);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] =
        std::bit_cast<float>(std::uint32_t{load_one<std::uint16_t>(values + 2 * i)} << 16) + 0.0F;
  }
}

void narrow_bfloat16(const std::byte* accumulators, std::size_t count, std::byte* values) {
  const float* HWY_RESTRICT in = reinterpret_cast<const float*>(accumulators);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(in[i]);
    const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // ties to even
    const auto result = static_cast<std::uint16_t>(in[i] != in[i] ? 0x7fc0 : rounded);
    std::memcpy(values + 2 * i, &result, sizeof result);
  }
}

// As above. Below the smallest normal number it adds a number that makes the last bit of the sum
// the type's last bit.
template <unsigned kExponentBits, unsigned kMantissaBits, bool kHasInfinity>
void narrow_float8(const std::byte* accumulators, std::size_t count, std::byte* values) {
  constexpr unsigned kShift = 23 - kMantissaBits;
  constexpr std::uint32_t kBias = (1U << (kExponentBits - 1)) - 1;
  constexpr std::uint32_t kRebias = (127 - kBias) << 23;
  constexpr std::uint32_t kMinNormal = (127 - kBias + 1) << 23;
  constexpr std::uint32_t kUnits = (127 - kBias + 1 - kMantissaBits + 23) << 23;
  constexpr std::uint32_t kInfinity = ((1U << kExponentBits) - 1) << kMantissaBits;
  constexpr std::uint32_t kTooLarge =
      kHasInfinity ? kInfinity : 0x7e;  // without infinity the largest number
  constexpr std::uint32_t kNan = kHasInfinity ? kInfinity | (1U << (kMantissaBits - 1)) : 0x7f;
  const float* HWY_RESTRICT in = reinterpret_cast<const float*>(accumulators);
  std::uint8_t* HWY_RESTRICT out = reinterpret_cast<std::uint8_t*>(values);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(in[i]);
    const std::uint32_t size = bits & 0x7fffffff;
    const std::uint32_t normal =
        (size - kRebias + (1U << (kShift - 1)) - 1 + ((size >> kShift) & 1)) >> kShift;
    const std::uint32_t small =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + std::bit_cast<float>(kUnits)) -
        kUnits;
    const std::uint32_t rounded = size < kMinNormal ? small : normal;
    const std::uint32_t number =
        (rounded > kTooLarge ? kTooLarge : rounded) | ((bits >> 24) & 0x80);
    out[i] = static_cast<std::uint8_t>(size > 0x7f800000 ? kNan : number);
  }
}

#if HWY_TARGET != HWY_SSE4 && HWY_TARGET != HWY_SSSE3  // Highway 1.0.3 truncates there

void widen_float16(const std::byte* values, std::size_t count, std::byte* accumulators) {
  const hn::CappedTag<float, kHalvesAtOnce> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  float* out = reinterpret_cast<float*>(accumulators);
  const std::size_t lanes = hn::Lanes(d);
  hwy::float16_t tail[kHalvesAtOnce] = {};
  for (std::size_t i = 0; i < count; i += lanes) {
    const bool is_whole = i + lanes <= count;
    const auto* from = reinterpret_cast<const hwy::float16_t*>(values + 2 * i);
    if (!is_whole) from = static_cast<hwy::float16_t*>(std::memcpy(tail, from, 2 * (count - i)));
    const auto wide = hn::Add(hn::PromoteTo(d, hn::LoadU(d16, from)), hn::Zero(d));
    if (is_whole) {
      hn::StoreU(wide, d, out + i);
    } else {
      float rest[kHalvesAtOnce];
      hn::StoreU(wide, d, rest);
      std::memcpy(out + i, rest, sizeof(float) * (count - i));
    }
  }
}

void narrow_float16(const std::byte* accumulators, std::size_t count, std::byte* values) {
  const hn::CappedTag<float, kHalvesAtOnce> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  const hn::RebindToUnsigned<decltype(d16)> du;
  const float* in = reinterpret_cast<const float*>(accumulators);
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < count; i += lanes) {
    float rest[kHalvesAtOnce] = {};
    const std::size_t own = count - i < lanes ? count - i : lanes;
    std::memcpy(rest, in + i, sizeof(float) * own);
    std::uint16_t bits[kHalvesAtOnce];
    hn::StoreU(hn::BitCast(du, hn::DemoteTo(d16, hn::LoadU(d, rest))), du, bits);
    for (std::size_t j = 0; j < own; ++j) bits[j] = (bits[j] & 0x7fff) > 0x7c00 ? 0x7e00 : bits[j];
    std::memcpy(values + 2 * i, bits, 2 * own);
  }
}

#endif

template <class T, ReduceOp kOp>
HWY_INLINE T combined(T a, T b) {
  if constexpr (kOp == ReduceOp::kMax) {
    return a > b || a != a ? a : b;
  } else if constexpr (kOp == ReduceOp::kMin) {
    return a < b || a != a ? a : b;
  } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    return kOp == ReduceOp::kSum ? a + b : a * b;
  } else {
    using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                    std::uint32_t>;  // unsigned: they wrap around
    return static_cast<T>(kOp == ReduceOp::kSum ? Wide(a) + Wide(b) : Wide(a) * Wide(b));
  }
}

template <class T, ReduceOp kOp>
void combine(std::byte* into, const std::byte* other, std::size_t count) {
  T* HWY_RESTRICT out = reinterpret_cast<T*>(into);
  const T* HWY_RESTRICT in = reinterpret_cast<const T*>(other);
  for (std::size_t i = 0; i < count; ++i) out[i] = combined<T, kOp>(out[i], in[i]);
}

template <class T>
std::array<CombineKernel*, kReduceOps> combines_of() {
  return {combine<T, ReduceOp::kSum>, combine<T, ReduceOp::kProd>, combine<T, ReduceOp::kMax>,
          combine<T, ReduceOp::kMin>};
}

template <class T>
void take_native(ReduceTable& table, DataType type) {
  ReduceKernels& kernels =
      table[static_cast<std::size_t>(type)];  // dividing is rare: as the reference has it
  kernels.widen = widen_native<T>;
  kernels.narrow = narrow_native<T>;
  kernels.combine = combines_of<T>();
}

ReduceTable reduces() {
  ReduceTable table = reference_reduces();
  take_native<std::int8_t>(table, DataType::kInt8);
  take_native<std::uint8_t>(table, DataType::kUint8);
  take_native<std::int16_t>(table, DataType::kInt16);
  take_native<std::uint16_t>(table, DataType::kUint16);
  take_native<std::int32_t>(table, DataType::kInt32);
  take_native<std::uint32_t>(table, DataType::kUint32);
  take_native<std::int64_t>(table, DataType::kInt64);
  take_native<std::uint64_t>(table, DataType::kUint64);
  take_native<float>(table, DataType::kFloat32);
  take_native<double>(table, DataType::kFloat64);
  for (const DataType type :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    table[static_cast<std::size_t>(type)].combine = combines_of<float>();
  }
  table[static_cast<std::size_t>(DataType::kBfloat16)].widen = widen_bfloat16;
  table[static_cast<std::size_t>(DataType::kBfloat16)].narrow = narrow_bfloat16;
  table[static_cast<std::size_t>(DataType::kFloat8e4m3)].narrow = narrow_float8<4, 3, false>;
  table[static_cast<std::size_t>(DataType::kFloat8e5m2)].narrow = narrow_float8<5, 2, true>;
#if HWY_TARGET != HWY_SSE4 && HWY_TARGET != HWY_SSSE3
  table[static_cast<std::size_t>(DataType::kFloat16)].widen = widen_float16;
  table[static_cast<std::size_t>(DataType::kFloat16)].narrow = narrow_float16;
#endif
  return table;
}
