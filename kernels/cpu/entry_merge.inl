// Part of cpu_kernels.cpp, compiled once for each instruction set. Merges two sorted lists of
// entries into one, without a branch that depends on positions. Two merges run side by side, one
// from each end.

template <class T>
HWY_INLINE void store_one(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

HWY_INLINE std::uint16_t position_at(const EntryList& list, std::size_t i) {
  return load_one<std::uint16_t>(reinterpret_cast<const std::byte*>(list.positions) + 2 * i);
}

// `value` or `otherwise`, without a branch. Compilers tend to generate one.
template <class T>
HWY_INLINE T choose(bool wanted, T value, T otherwise) {
  using U = std::conditional_t<
      sizeof(T) == 8, std::uint64_t,
      std::conditional_t<sizeof(T) == 4, std::uint32_t,
                         std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
  const U mask = static_cast<U>(U{0} - static_cast<U>(wanted));
  return std::bit_cast<T>(static_cast<U>((std::bit_cast<U>(value) & mask) |
                                         (std::bit_cast<U>(otherwise) & static_cast<U>(~mask))));
}

// Positions, with accumulators beside them. The address of an accumulator follows from the address
// of its position, so a step updates only one address. Two merges side by side just fit into the
// registers.
template <class T>
class EntryCursor {
 public:
  HWY_INLINE EntryCursor(const std::uint16_t* positions, const std::byte* accumulators)
      : at_(reinterpret_cast<std::uintptr_t>(positions)),
        delta_(reinterpret_cast<std::uintptr_t>(accumulators) - kScale * at_) {}

  HWY_INLINE std::uint16_t position() const {
    return load_one<std::uint16_t>(reinterpret_cast<const std::byte*>(at_));
  }
  HWY_INLINE T value() const {
    return load_one<T>(reinterpret_cast<const std::byte*>(kScale * at_ + delta_));
  }
  HWY_INLINE void put(std::uint16_t position, T value) const {
    std::memcpy(reinterpret_cast<void*>(at_), &position, sizeof position);
    std::memcpy(reinterpret_cast<void*>(kScale * at_ + delta_), &value, sizeof value);
  }
  HWY_INLINE void skip(std::size_t entries) { at_ += sizeof(std::uint16_t) * entries; }
  HWY_INLINE std::size_t passed(const std::uint16_t* begin) const {
    return (at_ - reinterpret_cast<std::uintptr_t>(begin)) / sizeof(std::uint16_t);
  }

 private:
  static_assert(sizeof(T) >= 2);  // one byte would lie at half the distance
  static constexpr std::uintptr_t kScale = sizeof(T) / 2;
  std::uintptr_t at_, delta_;
};

// Merges two lists without branches, because the order of their positions is not predictable. A
// list without an entry at a position contributes the identity; for sums of floats +0 in its place,
// so that a single -0 becomes +0.
template <class T, ReduceOp kOp>
constexpr T kAbsent = kKnowsByValue<T, kOp> ? T{0} : identity_of<T, kOp>();

template <class T, ReduceOp kOp>
HWY_INLINE T merged(T a, T b) {
  if constexpr (kKnowsByValue<T, kOp>) return (a + T{0}) + b;  // adding T{0} twice: -0 becomes +0
  return combined<T, kOp>(a, b);
}

template <class T, ReduceOp kOp>
struct Merge {
  EntryCursor<T> a, b, out;

  HWY_INLINE void step() {
    const std::uint16_t at_a = a.position(), at_b = b.position();
    const bool from_a = at_a <= at_b, from_b = at_b <= at_a;
    out.put(choose(from_a, at_a, at_b), merged<T, kOp>(choose(from_a, a.value(), kAbsent<T, kOp>),
                                                       choose(from_b, b.value(), kAbsent<T, kOp>)));
    out.skip(1);
    a.skip(from_a);
    b.skip(from_b);
  }
};

HWY_INLINE EntryList part_of(const EntryList& list, std::size_t begin, std::size_t end,
                             std::size_t width) {
  return {reinterpret_cast<const std::uint16_t*>(
              reinterpret_cast<const std::byte*>(list.positions) + 2 * begin),
          list.accumulators + begin * width, end - begin};
}

// Merges the remaining entries of both lists one by one.
template <class T, ReduceOp kOp>
std::size_t merge_slowly(const EntryList& a, const EntryList& b, std::uint16_t* positions,
                         std::byte* accumulators) {
  std::size_t i = 0, j = 0, size = 0;
  for (; i < a.count || j < b.count; ++size) {
    const bool from_a = i < a.count && (j == b.count || position_at(a, i) <= position_at(b, j));
    const bool from_b = j < b.count && (i == a.count || position_at(b, j) <= position_at(a, i));
    positions[size] = from_a ? position_at(a, i) : position_at(b, j);
    const T value_a = from_a ? load_one<T>(a.accumulators + i * sizeof(T)) : kAbsent<T, kOp>;
    const T value_b = from_b ? load_one<T>(b.accumulators + j * sizeof(T)) : kAbsent<T, kOp>;
    store_one(accumulators + size * sizeof(T), merged<T, kOp>(value_a, value_b));
    i += from_a;
    j += from_b;
  }
  return size;
}

HWY_INLINE std::size_t count_below_position(const EntryList& list, std::uint16_t position) {
  std::size_t begin = 0;
  for (std::size_t left = list.count; left > 0;) {
    const std::size_t half = left / 2;
    const bool is_below = position_at(list, begin + half) < position;
    begin += is_below ? half + 1 : 0;
    left = is_below ? left - half - 1 : half;
  }
  return begin;
}

// Two lists of which this merge handles one half: their remaining entries, and where the sum
// continues.
template <class T, ReduceOp kOp>
struct MergeHalf {
  EntryList a, b;
  std::uint16_t* positions;
  std::byte* accumulators;

  HWY_INLINE std::size_t sure_steps() const {
    return a.count < b.count ? a.count : b.count;
  }  // each takes at most one entry of a list
  HWY_INLINE Merge<T, kOp> begin() const {
    return {
        {a.positions, a.accumulators}, {b.positions, b.accumulators}, {positions, accumulators}};
  }
  HWY_INLINE void leave(const Merge<T, kOp>& merge) {
    a = part_of(a, merge.a.passed(a.positions), a.count, sizeof(T));
    b = part_of(b, merge.b.passed(b.positions), b.count, sizeof(T));
    const std::size_t done = merge.out.passed(positions);
    positions += done;
    accumulators += done * sizeof(T);
  }
  HWY_INLINE void finish() {
    for (std::size_t steps = sure_steps(); steps > 0; steps = sure_steps()) {
      Merge<T, kOp> merge = begin();
      for (; steps > 0; --steps) merge.step();
      leave(merge);
    }
    const std::size_t rest = merge_slowly<T, kOp>(a, b, positions, accumulators);
    positions += rest;
    accumulators += rest * sizeof(T);
  }
};

// Each step depends on the step before it. The two halves are merged side by side, in half the
// time.
template <class T, ReduceOp kOp>
std::size_t merge_entries(const EntryList& a, const EntryList& b, std::uint16_t* positions,
                          std::byte* accumulators) {
  constexpr std::size_t kWorthHalving = 32;
  if constexpr (sizeof(T) == 1) {
    return merge_slowly<T, kOp>(a, b, positions, accumulators);
  } else {
    const std::size_t middle_a = a.count < kWorthHalving ? a.count : a.count / 2;
    const std::size_t middle_b =
        a.count < kWorthHalving ? b.count : count_below_position(b, position_at(a, middle_a));
    const std::size_t most = middle_a + middle_b;  // at most this many in the lower half
    MergeHalf<T, kOp> lower{part_of(a, 0, middle_a, sizeof(T)), part_of(b, 0, middle_b, sizeof(T)),
                            positions, accumulators};
    MergeHalf<T, kOp> upper{part_of(a, middle_a, a.count, sizeof(T)),
                            part_of(b, middle_b, b.count, sizeof(T)), positions + most,
                            accumulators + most * sizeof(T)};
    for (;;) {
      std::size_t steps =
          lower.sure_steps() < upper.sure_steps() ? lower.sure_steps() : upper.sure_steps();
      if (steps == 0) break;
      Merge<T, kOp> first = lower.begin(), second = upper.begin();
      for (; steps > 0; --steps) {
        first.step();
        second.step();
      }
      lower.leave(first);
      upper.leave(second);
    }
    lower.finish();
    upper.finish();
    const auto size = static_cast<std::size_t>(lower.positions - positions);
    const auto upper_size = static_cast<std::size_t>(upper.positions - positions) - most;
    if (size < most && upper_size > 0) {
      std::memmove(positions + size, positions + most, upper_size * sizeof(std::uint16_t));
      std::memmove(accumulators + size * sizeof(T), accumulators + most * sizeof(T),
                   upper_size * sizeof(T));
    }
    return size + upper_size;
  }
}
