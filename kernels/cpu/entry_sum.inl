// Part of cpu_kernels.cpp, compiled once for each instruction set: sorted entries are added in
// windows, which are arrays of one block's elements (entry_identity.inl: what absent ones hold).

// For elements of 1 and 2 bytes lists are merged and windows emptied one by one.
template <class T>
constexpr std::size_t kWindowElements = kWindowBytes / sizeof(T);

// No early end: so it is done with vectors.
bool ascend(const std::uint64_t* indices, std::size_t count) {
  std::uint64_t fails = 0;
  for (std::size_t i = 1; i < count; ++i) fails |= indices[i - 1] >= indices[i] ? 1 : 0;
  return fails == 0;
}

void lower_indices(const std::uint64_t* indices, std::size_t count, std::uint16_t* positions) {
  for (std::size_t i = 0; i < count; ++i) positions[i] = static_cast<std::uint16_t>(indices[i]);
}

// Words are made in a register: in memory each bit would wait for the one before it.
void mark_indices(const std::uint64_t* indices, std::size_t count, std::size_t elements,
                  std::byte* marks) {
  if (count == elements) {
    std::memset(marks, 0xff, elements / 8);
    return;
  }
  constexpr std::size_t kAhead = 64;  // indices; heuristic
  const std::size_t mask = elements - 1;
  std::memset(marks, 0, elements / 8);
  std::uint64_t word = 0;
  std::size_t at = 0;  // of the word
  for (std::size_t i = 0; i < count; ++i) {
    __builtin_prefetch(indices + i + kAhead);
    const std::size_t position = indices[i] & mask;
    if (position / 64 != at) {
      std::memcpy(marks + 8 * at, &word, sizeof word);
      word = 0;
      at = position / 64;
    }
    word |= std::uint64_t{1} << (position % 64);
  }
  std::memcpy(marks + 8 * at, &word, sizeof word);
}

std::size_t count_marks(const std::byte* marks, std::size_t bytes) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < bytes; at += 8)
    count += static_cast<std::size_t>(std::popcount(load_one<std::uint64_t>(marks + at)));
  return count;
}

std::size_t mark_positions(const std::uint16_t* positions, std::size_t count, std::uint32_t first,
                           std::size_t elements, std::uint32_t* marks) {
  const auto* from = reinterpret_cast<const std::byte*>(positions);
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t at = load_one<std::uint16_t>(from + 2 * i) - first;
    if (at >= elements || at < next) return i;
    next = at + 1;
    marks[at / 32] |= std::uint32_t{1} << (at % 32);
  }
  return count;
}

std::uint32_t count_before(const std::uint32_t* marks, std::size_t words, std::uint32_t* before) {
  std::uint32_t count = 0;
  for (std::size_t word = 0; word < words; ++word) {
    before[word] = count;
    count += static_cast<std::uint32_t>(std::popcount(marks[word]));
  }
  return count;
}

// As many at once as there are lanes of 32 bits.
void rank_positions(const std::uint16_t* positions, std::size_t count, std::uint32_t first,
                    const std::uint32_t* marks, const std::uint32_t* before,
                    std::uint16_t* ranks) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::Rebind<std::uint16_t, decltype(d)> half;
  const hn::RebindToSigned<decltype(d)> places;
  const auto one = hn::Set(d, 1), low = hn::Set(d, 31), begin = hn::Set(d, first);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto at = hn::Sub(hn::PromoteTo(d, hn::LoadU(half, positions + i)), begin);
    const auto word = hn::BitCast(places, hn::ShiftRight<5>(at));
    const auto below = hn::Sub(hn::Shl(one, hn::And(at, low)), one);
    const auto marked = hn::And(hn::GatherIndex(d, marks, word), below);
    const auto rank = hn::Add(hn::GatherIndex(d, before, word), hn::PopulationCount(marked));
    hn::StoreU(hn::DemoteTo(half, hn::BitCast(places, rank)), half, ranks + i);
  }
  for (; i < count; ++i) {
    const std::uint32_t at =
        load_one<std::uint16_t>(reinterpret_cast<const std::byte*>(positions + i)) - first;
    const std::uint32_t marked = marks[at / 32] & ((std::uint32_t{1} << (at % 32)) - 1);
    ranks[i] = static_cast<std::uint16_t>(before[at / 32] +
                                          static_cast<std::uint32_t>(std::popcount(marked)));
  }
}

std::size_t list_marks(const std::uint32_t* marks, std::size_t elements, std::uint32_t first,
                       std::uint16_t* positions) {
  std::size_t size = 0;
  for (std::size_t at = 0; at < elements; at += kChunk) {
    const std::uint64_t bits =
        load_one<std::uint64_t>(reinterpret_cast<const std::byte*>(marks) + at / 8);
    if (bits == 0) continue;
    size += append_set_bits(bits, first + static_cast<std::uint32_t>(at), positions + size);
  }
  return size;
}

constexpr std::size_t kLineBytes = 64;

// The number of elements of `bytes` each before the next cache line begins; all elements if no
// element starts at the start of a line.
HWY_INLINE std::size_t before_line(const void* at, std::size_t bytes, std::size_t count) {
  const std::size_t over = reinterpret_cast<std::uintptr_t>(at) % kLineBytes;
  const std::size_t left = over == 0 ? 0 : kLineBytes - over;
  return left % bytes != 0 || left / bytes > count ? count : left / bytes;
}

void raise_positions(const std::uint16_t* positions, std::size_t count, std::uint64_t base,
                     Output output, std::uint64_t* indices) {
  const auto* from = reinterpret_cast<const std::byte*>(positions);
  std::size_t i = 0;
  if (output == Output::kStreamed) {
    const hn::ScalableTag<std::uint64_t> d;
    const std::size_t head = before_line(indices, sizeof *indices, count);
    for (; i < head; ++i) indices[i] = base + load_one<std::uint16_t>(from + 2 * i);
    alignas(kLineBytes) std::uint64_t line[kLineBytes / sizeof(std::uint64_t)];
    for (; i + std::size(line) <= count; i += std::size(line)) {
      for (std::size_t j = 0; j < std::size(line); ++j)
        line[j] = base + load_one<std::uint16_t>(from + 2 * (i + j));
      for (std::size_t j = 0; j < std::size(line); j += hn::Lanes(d))
        hn::Stream(hn::Load(d, line + j), d, indices + i + j);
    }
    hwy::FlushStream();  // streamed stores wait for no other one: whoever is told of the output by
                         // a flag must see it
  }
  for (; i < count; ++i) indices[i] = base + load_one<std::uint16_t>(from + 2 * i);
}

void copy_bytes(const std::byte* from, std::size_t bytes, Output output, std::byte* to) {
  std::size_t i = 0;
  if (output == Output::kStreamed) {
    const hn::ScalableTag<std::uint8_t> d;
    i = before_line(to, 1, bytes);
    if (i > 0) std::memcpy(to, from, i);
    for (; i + kLineBytes <= bytes; i += kLineBytes) {
      for (std::size_t j = i; j < i + kLineBytes; j += hn::Lanes(d))
        hn::Stream(hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(from) + j), d,
                   reinterpret_cast<std::uint8_t*>(to) + j);
    }
    hwy::FlushStream();
  }
  if (i < bytes) std::memcpy(to + i, from + i, bytes - i);
}

// Lanes of a window at once. Compilers' own vectors are shorter if they do not know AVX-512 well.
template <class T, class Visit>
HWY_INLINE void for_lanes(std::size_t elements, Visit visit) {
  const hn::ScalableTag<T> d;
  for (std::size_t i = 0; i < elements; i += hn::Lanes(d)) visit(d, i);
}

template <class T>
HWY_INLINE void empty(T* window, std::size_t elements, T identity) {
  for_lanes<T>(elements, [=](auto d, std::size_t i)
                             HWY_ATTR { hn::Store(hn::Set(d, identity), d, window + i); });
}

template <class T, ReduceOp kOp>
void clear_window(Window& window) {
  empty(reinterpret_cast<T*>(window.accumulators.data()), kWindowElements<T>,
        identity_of<T, kOp>());
  window.present.fill(0);
}

template <class T, ReduceOp kOp>
std::size_t add_entries(const EntryList& entries, std::uint32_t first, std::size_t elements,
                        Window& window) {
  T* const own = reinterpret_cast<T*>(window.accumulators.data());
  const std::size_t end = first + elements;
  std::size_t i = 0;
  for (; i < entries.count; ++i) {
    const std::size_t position = position_at(entries, i);
    if (position >= end) break;
    const std::size_t at =
        (position - first) % kWindowElements<T>;  // what comes over a wire may not ascend
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
HWY_INLINE void add_one(T& own, T value) {
  own = kKnowsByValue<T, kOp> ? own + (value + T{0}) : combined<T, kOp>(own, value);
}

// 64 elements, all of them present.
template <class T, ReduceOp kOp>
HWY_INLINE void add_all(const T* from, T* own) {
  if constexpr (kOp == ReduceOp::kSum && sizeof(T) >= 4) {
    for_lanes<T>(kChunk, [=](auto d, std::size_t i) HWY_ATTR {
      auto value = hn::LoadU(d, from + i);
      if constexpr (kIsFloat<T>) value = hn::Add(value, hn::Zero(d));
      hn::Store(hn::Add(hn::Load(d, own + i), value), d, own + i);
    });
  } else {
    for (std::size_t i = 0; i < kChunk; ++i)
      add_one<T, kOp>(own[i], load_one<T>(reinterpret_cast<const std::byte*>(from + i)));
  }
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr bool kExpands = true;

// Loads the values from `from` on into the lanes whose bits are set; reads nothing after them.
template <class T>
HWY_INLINE auto expanded(const std::byte* from, std::uint64_t lanes) {
  const hn::ScalableTag<T> d;
  if constexpr (sizeof(T) == 4) {
    return hn::BitCast(d, hn::Vec512<std::int32_t>{
                              _mm512_maskz_expandloadu_epi32(static_cast<__mmask16>(lanes), from)});
  } else {
    return hn::BitCast(d, hn::Vec512<std::int64_t>{
                              _mm512_maskz_expandloadu_epi64(static_cast<__mmask8>(lanes), from)});
  }
}
#elif HWY_TARGET == HWY_AVX2
constexpr bool kExpands = true;

// For each byte of bits and each of 8 lanes, how many are set before it, 4 bits each.
inline constexpr std::array<std::uint32_t, 256> kSetBefore = [] {
  std::array<std::uint32_t, 256> all{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    for (unsigned lane = 0, before = 0; lane < 8; ++lane) {
      all[bits] |= before << (4 * lane);
      before += bits >> lane & 1;
    }
  }
  return all;
}();

template <class T>
HWY_INLINE auto expanded(const std::byte* from, std::uint64_t lanes) {
  const std::uint64_t words = sizeof(T) == 4 ? lanes : _pdep_u64(lanes, 0x55) * 3;
  const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  const __m256i counts = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i count = _mm256_set1_epi32(std::popcount(words));
  const __m256i packed =
      _mm256_maskload_epi32(reinterpret_cast<const int*>(from), _mm256_cmpgt_epi32(count, counts));
  const __m256i places =
      _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(kSetBefore[words])), shifts);
  return hn::BitCast(hn::ScalableTag<T>(),
                     hn::Vec256<std::int32_t>{_mm256_permutevar8x32_epi32(packed, places)});
}
#else
constexpr bool kExpands = false;
#endif

// Adds those of 64 elements whose bits are set.
template <class T, ReduceOp kOp>
HWY_INLINE void add_chosen(const std::byte* from, std::uint64_t bits, T* own) {
  if constexpr (kExpands && kOp == ReduceOp::kSum && sizeof(T) >= 4) {
    const hn::ScalableTag<T> d;
    for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
      const std::uint64_t part = low_bits(bits >> lane, hn::Lanes(d));
      const auto old = hn::Load(d, own + lane);
      auto sum = hn::Add(old, expanded<T>(from, part));
      if constexpr (kIsFloat<T>) sum = hn::Add(sum, hn::Zero(d));
      hn::Store(hn::IfThenElse(mask_of(d, part), sum, old), d, own + lane);
      from += static_cast<std::size_t>(std::popcount(part)) * sizeof(T);
    }
  } else {
    for (; bits != 0; bits &= bits - 1, from += sizeof(T))
      add_one<T, kOp>(own[std::countr_zero(bits)], load_one<T>(from));
  }
}

template <class T, ReduceOp kOp>
std::size_t add_marked(const EntryList& entries, std::size_t elements, Window& window) {
  T* const own = reinterpret_cast<T*>(window.accumulators.data());
  const std::byte* from = entries.accumulators;
  for (std::size_t i = 0; i < elements; i += kChunk) {
    const std::uint64_t bits = load_one<std::uint64_t>(entries.marks + i / 8);
    if (bits == ~std::uint64_t{0}) {
      add_all<T, kOp>(reinterpret_cast<const T*>(from), own + i);
    } else {
      add_chosen<T, kOp>(from, bits, own + i);
    }
    if constexpr (!kKnowsByValue<T, kOp>) window.present[i / kChunk] |= bits;
    from += static_cast<std::size_t>(std::popcount(bits)) * sizeof(T);
  }
  return static_cast<std::size_t>(from - entries.accumulators) / sizeof(T);
}

template <class T, ReduceOp kOp>
void fold_window(Window& into, Window& other, std::size_t elements) {
  T* HWY_RESTRICT const own = reinterpret_cast<T*>(into.accumulators.data());
  T* HWY_RESTRICT const theirs = reinterpret_cast<T*>(other.accumulators.data());
  if constexpr (kKnowsByValue<T, kOp>) {
    for_lanes<T>(elements, [=](auto d, std::size_t i) HWY_ATTR {
      hn::Store(hn::Add(hn::Load(d, own + i), hn::Load(d, theirs + i)), d, own + i);
      hn::Store(hn::Set(d, identity_of<T, kOp>()), d, theirs + i);
    });
    return;
  }
  for (std::size_t i = 0; i < elements; ++i) own[i] = combined<T, kOp>(own[i], theirs[i]);
  empty(theirs, elements, identity_of<T, kOp>());
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
      hn::StoreU(compressed(d, hn::LoadU(d, from + lane), part), d, reinterpret_cast<T*>(out));
      out += static_cast<std::size_t>(std::popcount(part)) * sizeof(T);
    }
  } else {
    for (; bits != 0; bits &= bits - 1, out += sizeof(T))
      store_one(out, from[std::countr_zero(bits)]);
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
      bits |= bits_of(d, hn::Ne(hn::LoadU(d, reinterpret_cast<const U*>(from) + lane), absent))
              << lane;
    return bits;
  } else {
    return std::exchange(present, 0);
  }
}

// Finds the positions first, then the values: one by one if they are few, by vectors if they are
// many.
template <class T, ReduceOp kOp>
std::size_t take_entries(Window& window, std::uint32_t first, std::size_t elements,
                         std::uint16_t* positions, std::byte* accumulators) {
  constexpr std::size_t kFew = 8;  // elements an entry
  T* const own = reinterpret_cast<T*>(window.accumulators.data());
  std::uint64_t words[kWindowElements<T> / kChunk];
  std::size_t size = 0;
  for (std::size_t i = 0; i < elements; i += kChunk) {
    const std::uint64_t bits = take_present<T, kOp>(own + i, window.present[i / kChunk]);
    words[i / kChunk] = bits;
    size += append_set_bits(bits, first + static_cast<std::uint32_t>(i), positions + size);
  }
  if (kFew * size < elements) {
    for (std::size_t i = 0; i < size; ++i) {
      T& at = own[positions[i] - first];
      store_one(accumulators + i * sizeof(T), std::exchange(at, identity_of<T, kOp>()));
    }
    return size;
  }
  for (std::size_t i = 0; i < elements; i += kChunk) {
    const std::uint64_t bits = words[i / kChunk];
    append_chosen(own + i, bits, accumulators);
    accumulators += static_cast<std::size_t>(std::popcount(bits)) * sizeof(T);
    empty(own + i, kChunk, identity_of<T, kOp>());
  }
  return size;
}

template <class T, ReduceOp kOp>
std::size_t take_marked(Window& window, std::size_t elements, std::byte* marks,
                        std::byte* accumulators) {
  T* const own = reinterpret_cast<T*>(window.accumulators.data());
  std::byte* to = accumulators;
  for (std::size_t i = 0; i < elements; i += kChunk) {
    const std::uint64_t bits = take_present<T, kOp>(own + i, window.present[i / kChunk]);
    store_one(marks + i / 8, bits);
    if (bits == ~std::uint64_t{0}) {
      std::memcpy(to, own + i, kChunk * sizeof(T));
    } else {
      append_chosen(own + i, bits, to);
    }
    to += static_cast<std::size_t>(std::popcount(bits)) * sizeof(T);
    empty(own + i, kChunk, identity_of<T, kOp>());
  }
  return static_cast<std::size_t>(to - accumulators) / sizeof(T);
}

template <class T, ReduceOp kOp>
constexpr SparseSumKernels sum_kernels() {
  return {merge_entries<T, kOp>, clear_window<T, kOp>,
          add_entries<T, kOp>,   add_marked<T, kOp>,
          fold_window<T, kOp>,   take_entries<T, kOp>,
          take_marked<T, kOp>,   !kIsFloat<T> || kOp == ReduceOp::kSum};
}

template <class T>
void take_sums(EntryKernels& kernels, DataType type) {
  kernels.sums[static_cast<std::size_t>(type)] = {
      sum_kernels<T, ReduceOp::kSum>(), sum_kernels<T, ReduceOp::kProd>(),
      sum_kernels<T, ReduceOp::kMax>(), sum_kernels<T, ReduceOp::kMin>()};
}

EntryKernels entries() {
  EntryKernels kernels = reference_entries();
  kernels.ascend = ascend;
  kernels.lower_indices = lower_indices;
  kernels.mark_indices = mark_indices;
  kernels.count_marks = count_marks;
  kernels.raise_positions = raise_positions;
  kernels.copy_bytes = copy_bytes;
  kernels.mark_positions = mark_positions;
  kernels.count_before = count_before;
  kernels.rank_positions = rank_positions;
  kernels.list_marks = list_marks;
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
  for (const DataType type :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    take_sums<float>(kernels, type);
    for (SparseSumKernels& sum : kernels.sums[static_cast<std::size_t>(type)])
      sum.takes_values = false;
  }
  return kernels;
}
