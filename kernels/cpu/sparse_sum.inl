// Part of cpu_kernels.cpp, compiled once for each instruction set. Absent elements hold the operation's identity, so that nothing
// asks whether an element is there: entries are added blindly, windows are folded as arrays. A float's sum needs no bits of what is
// present either: its identity, -0, is the sum of nothing else, as values of -0 are added as +0.

template <class T>
constexpr bool kIsFloat = std::is_same_v<T, float> || std::is_same_v<T, double>;

template <class T, ReduceOp kOp>
constexpr T identity_of() {
  if constexpr (kOp == ReduceOp::kProd) return T{1};
  if constexpr (kOp == ReduceOp::kSum) return kIsFloat<T> ? static_cast<T>(-0.0) : T{0};
  constexpr bool kIsMax = kOp == ReduceOp::kMax;
  if constexpr (kIsFloat<T>) return kIsMax ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
  return kIsMax ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
}

template <class T, ReduceOp kOp>
constexpr bool kKnowsByValue = kIsFloat<T>&& kOp == ReduceOp::kSum;

// For elements of 1 and 2 bytes lists are merged and windows emptied one by one.
template <class T>
constexpr std::size_t kWindowElements = kWindowBytes / sizeof(T);

void lower_indices(const std::uint64_t* indices, std::size_t count, std::uint16_t* positions) {
  for (std::size_t i = 0; i < count; ++i) positions[i] = static_cast<std::uint16_t>(indices[i]);
}

void raise_positions(const std::uint16_t* positions, std::size_t count, std::uint64_t base, std::uint64_t* indices) {
  for (std::size_t i = 0; i < count; ++i) indices[i] = base + positions[i];
}

template <class T>
HWY_INLINE void store_one(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

HWY_INLINE std::uint16_t position_at(const EntryList& list, std::size_t i) {
  return load_one<std::uint16_t>(reinterpret_cast<const std::byte*>(list.positions) + 2 * i);
}

// Without a branch: whose turn it is is as good as random. What a list lacks at a position adds the identity; +0 for a float's sum,
// which makes -0 alone +0.
template <class T, ReduceOp kOp>
std::size_t merge_entries(const EntryList& a, const EntryList& b, std::uint16_t* positions, std::byte* accumulators) {
  constexpr T kAbsent = kKnowsByValue<T, kOp> ? T{0} : identity_of<T, kOp>();
  std::size_t i = 0, j = 0, size = 0;
  while (i < a.count && j < b.count) {
    const std::uint16_t at_a = position_at(a, i), at_b = position_at(b, j);
    const bool from_a = at_a <= at_b, from_b = at_b <= at_a;
    const T value_a = load_one<T>(a.accumulators + i * sizeof(T)), value_b = load_one<T>(b.accumulators + j * sizeof(T));
    store_one(accumulators + size * sizeof(T), combined<T, kOp>(from_a ? value_a : kAbsent, from_b ? value_b : kAbsent));
    positions[size++] = from_a ? at_a : at_b;
    i += from_a;
    j += from_b;
  }
  const auto append = [&](const EntryList& list, std::size_t from) HWY_ATTR {
    for (std::size_t n = from; n < list.count; ++n, ++size) {
      store_one(accumulators + size * sizeof(T), combined<T, kOp>(load_one<T>(list.accumulators + n * sizeof(T)), kAbsent));
      positions[size] = position_at(list, n);
    }
  };
  append(a, i);
  append(b, j);
  return size;
}

template <class T, ReduceOp kOp>
void clear_window(Window& window) {
  T* const own = reinterpret_cast<T*>(window.accumulators.data());
  for (std::size_t i = 0; i < kWindowElements<T>; ++i) own[i] = identity_of<T, kOp>();
  window.present.fill(0);
}

template <class T, ReduceOp kOp>
std::size_t add_entries(const EntryList& entries, std::uint32_t first, std::size_t elements, Window& window) {
  T* const own = reinterpret_cast<T*>(window.accumulators.data());
  const std::size_t end = first + elements;
  std::size_t i = 0;
  for (; i < entries.count; ++i) {
    const std::size_t position = position_at(entries, i);
    if (position >= end) break;
    const std::size_t at = (position - first) % kWindowElements<T>;  // what comes over a wire may not ascend
    const T value = load_one<T>(entries.accumulators + i * sizeof(T));
    if constexpr (kKnowsByValue<T, kOp>) {
      own[at] += value + T{0};
    } else {
      own[at] = combined<T, kOp>(own[at], value);
      window.present[at / 64] |= std::uint64_t{1} << (at % 64);
    }
  }
  return i;
}

template <class T, ReduceOp kOp>
void fold_window(Window& into, Window& other, std::size_t elements) {
  T* HWY_RESTRICT const own = reinterpret_cast<T*>(into.accumulators.data());
  T* HWY_RESTRICT const theirs = reinterpret_cast<T*>(other.accumulators.data());
  for (std::size_t i = 0; i < elements; ++i) {
    own[i] = combined<T, kOp>(own[i], theirs[i]);
    theirs[i] = identity_of<T, kOp>();
  }
  if constexpr (kKnowsByValue<T, kOp>) return;
  for (std::size_t i = 0; i < elements / 64; ++i) {
    into.present[i] |= other.present[i];
    other.present[i] = 0;
  }
}

// Appends those of 64 elements whose bits are set.
template <class T>
HWY_INLINE void append_chosen(const T* from, std::uint64_t bits, std::byte* out) {
  if constexpr (sizeof(T) >= 4) {
    const hn::ScalableTag<T> d;
    for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
      const std::uint64_t part = low_bits(bits >> lane, hn::Lanes(d));
      hn::StoreU(hn::Compress(hn::LoadU(d, from + lane), mask_of(d, part)), d, reinterpret_cast<T*>(out));
      out += static_cast<std::size_t>(std::popcount(part)) * sizeof(T);
    }
  } else {
    for (; bits != 0; bits &= bits - 1, out += sizeof(T)) store_one(out, from[std::countr_zero(bits)]);
  }
}

template <class T, ReduceOp kOp>
HWY_INLINE std::uint64_t take_present(const T* from, std::uint64_t& present) {
  if constexpr (kKnowsByValue<T, kOp>) {
    using U = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    const hn::ScalableTag<U> d;
    const auto absent = hn::Set(d, static_cast<U>(U{1} << (8 * sizeof(U) - 1)));
    std::uint64_t bits = 0;
    for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d))
      bits |= bits_of(d, hn::Ne(hn::LoadU(d, reinterpret_cast<const U*>(from) + lane), absent)) << lane;
    return bits;
  } else {
    return std::exchange(present, 0);
  }
}

template <class T, ReduceOp kOp>
std::size_t take_entries(Window& window, std::uint32_t first, std::size_t elements, std::uint16_t* positions,
                         std::byte* accumulators) {
  T* const own = reinterpret_cast<T*>(window.accumulators.data());
  std::size_t size = 0;
  for (std::size_t i = 0; i < elements; i += kChunk) {
    const std::uint64_t bits = take_present<T, kOp>(own + i, window.present[i / 64]);
    append_chosen(own + i, bits, accumulators + size * sizeof(T));
    size += append_set_bits(bits, first + static_cast<std::uint32_t>(i), positions + size);
    for (std::size_t j = 0; j < kChunk; ++j) own[i + j] = identity_of<T, kOp>();
  }
  return size;
}

template <class T, ReduceOp kOp>
constexpr SparseSumKernels sum_kernels() {
  return {merge_entries<T, kOp>, clear_window<T, kOp>, add_entries<T, kOp>,
          fold_window<T, kOp>,   take_entries<T, kOp>, !kIsFloat<T> || kOp == ReduceOp::kSum};
}

template <class T>
void take_sums(EntryKernels& kernels, DataType type) {
  kernels.sums[static_cast<std::size_t>(type)] = {sum_kernels<T, ReduceOp::kSum>(), sum_kernels<T, ReduceOp::kProd>(),
                                                  sum_kernels<T, ReduceOp::kMax>(), sum_kernels<T, ReduceOp::kMin>()};
}

EntryKernels entries() {
  EntryKernels kernels = reference_entries();
  kernels.lower_indices = lower_indices;
  kernels.raise_positions = raise_positions;
  take_sums<std::int8_t>(kernels, DataType::kInt8);
  take_sums<std::uint8_t>(kernels, DataType::kUint8);
  take_sums<std::int16_t>(kernels, DataType::kInt16);
  take_sums<std::uint16_t>(kernels, DataType::kUint16);
  take_sums<std::int32_t>(kernels, DataType::kInt32);
  take_sums<std::uint32_t>(kernels, DataType::kUint32);
  take_sums<std::int64_t>(kernels, DataType::kInt64);
  take_sums<std::uint64_t>(kernels, DataType::kUint64);
  take_sums<float>(kernels, DataType::kFloat32);
  take_sums<double>(kernels, DataType::kFloat64);
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    take_sums<float>(kernels, type);
    for (SparseSumKernels& sum : kernels.sums[static_cast<std::size_t>(type)]) sum.takes_values = false;
  }
  return kernels;
}
