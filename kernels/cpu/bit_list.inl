// Part of cpu_kernels.cpp, compiled once for each instruction set.

// Divides gaps: all lanes of T at once, or one.
template <class T, bool kThirds>
class GapSplitter {
 public:
  using D = hn::ScalableTag<T>;
  using V = hn::VFromD<D>;

  explicit HWY_INLINE GapSplitter(GapDivisor divisor)
      : divisor_(divisor),
        value_(hn::Set(D(), static_cast<T>(divisor.value()))),
        low_(hn::Set(D(), low())) {}

  HWY_INLINE V quotient(V gap) const {
    const V units = hn::ShiftRightSame(gap, static_cast<int>(divisor_.shift));
    if constexpr (kThirds) return third(units);
    return units;
  }
  HWY_INLINE V remainder(V gap, V quotient) const {
    if constexpr (kThirds) return hn::Sub(gap, hn::Mul(quotient, value_));
    return hn::And(gap, low_);
  }
  // The number of remainders whose trit is not 0.
  HWY_INLINE std::size_t trits(V remainder) const {
    if constexpr (kThirds) return hn::CountTrue(D(), hn::Ne(remainder, hn::And(remainder, low_)));
    return 0;
  }

  HWY_INLINE std::uint32_t quotient(std::uint32_t gap) const {
    return (gap >> divisor_.shift) / (kThirds ? 3 : 1);
  }
  HWY_INLINE std::uint16_t remainder(std::uint32_t gap) const {
    return static_cast<std::uint16_t>(gap - quotient(gap) * divisor_.value());
  }
  HWY_INLINE std::size_t trits(std::uint16_t remainder) const {
    return kThirds && remainder > low() ? 1 : 0;
  }

 private:
  T low() const { return static_cast<T>((1u << divisor_.shift) - 1); }

  // x / 3 by the high half of a product: exact for all x.
  static HWY_INLINE V third(V x) {
    const D d;
    if constexpr (sizeof(T) == 2) {
      return hn::ShiftRight<1>(hn::MulHigh(x, hn::Set(d, T{0xaaab})));
    } else {
      const hn::RepartitionToWide<D> wide;  // of two lanes each
      const auto factor = hn::Set(d, T{0xaaaaaaab});
      const auto even = hn::ShiftRight<33>(hn::MulEven(x, factor));
      const auto odd = hn::ShiftRight<33>(
          hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, x))), factor));
      return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<32>(odd)));
    }
  }

  GapDivisor divisor_;
  V value_;
  V low_;
};

// Stores the low 16 bits of each lane of `from`.
template <class V>
HWY_INLINE void store_u16(V from, std::uint16_t* to) {
  const hn::DFromV<V> d;
  if constexpr (sizeof(hn::TFromD<decltype(d)>) == 2) {
    hn::StoreU(from, d, to);
  } else {
    const hn::Rebind<std::uint16_t, decltype(d)> half;
    hn::StoreU(hn::TruncateTo(half, from), half, to);
  }
}

// Loads u16 into lanes of T.
template <class T>
HWY_INLINE auto load_u16(const std::uint16_t* from) {
  const hn::ScalableTag<T> d;
  if constexpr (sizeof(T) == 2) {
    return hn::LoadU(d, from);
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<std::uint16_t, decltype(d)>(), from));
  }
}

template <class T, bool kThirds>
std::size_t split_gaps_by(const T* positions, std::size_t count, GapDivisor divisor,
                          std::uint16_t* remainders, std::uint16_t* marks) {
  const hn::ScalableTag<T> d;
  const GapSplitter<T, kThirds> splitter(divisor);
  const auto one = hn::Set(d, T{1});
  remainders[0] = splitter.remainder(positions[0]);
  marks[0] = static_cast<std::uint16_t>(splitter.quotient(positions[0]));
  std::size_t trits = splitter.trits(remainders[0]);
  const auto before = hn::Set(d, T{marks[0]});  // the first quotient, which is part of all sums
  PrefixSums<T> sums;
  const auto lanes = hn::Set(d, static_cast<T>(hn::Lanes(d)));
  auto places =
      hn::Iota(d, 1);  // loop-carried: an Iota from a variable is written to memory lane by lane
  std::size_t i = 1;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d), places = hn::Add(places, lanes)) {
    const auto gap =
        hn::Sub(hn::Sub(hn::LoadU(d, positions + i), hn::LoadU(d, positions + i - 1)), one);
    const auto quotient = splitter.quotient(gap);
    const auto remainder = splitter.remainder(gap, quotient);
    trits += splitter.trits(remainder);
    store_u16(remainder, remainders + i);
    store_u16(hn::Add(hn::Add(before, sums.next(quotient)), places), marks + i);
  }
  for (; i < count; ++i) {
    const std::uint32_t gap = positions[i] - positions[i - 1] - 1u;
    remainders[i] = splitter.remainder(gap);
    trits += splitter.trits(remainders[i]);
    marks[i] = static_cast<std::uint16_t>(marks[i - 1] + 1u + splitter.quotient(gap));
  }
  return trits;
}

template <class T>
std::size_t split_gaps(const T* positions, std::size_t count, GapDivisor divisor,
                       std::uint16_t* remainders, std::uint16_t* marks) {
  if (count == 0) return 0;
  const auto body = divisor.thirds ? split_gaps_by<T, true> : split_gaps_by<T, false>;
  return body(positions, count, divisor, remainders, marks);
}

template <class T>
std::uint64_t join_gaps(const std::uint16_t* remainders, const std::uint16_t* marks,
                        std::size_t count, GapDivisor divisor, T* positions) {
  if (count == 0) return 0;
  const hn::ScalableTag<T> d;
  const auto value = hn::Set(d, static_cast<T>(divisor.value()));
  std::uint32_t sum = 0;  // no modulus needed: below 2^16 * 2^16
  for (std::size_t i = 0; i < count; ++i) sum += remainders[i];
  PrefixSums<T> sums;
  const auto lanes = hn::Set(d, static_cast<T>(hn::Lanes(d)));
  auto places = hn::Iota(d, 0);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d), places = hn::Add(places, lanes)) {
    const auto quotients = hn::Mul(hn::Sub(load_u16<T>(marks + i), places), value);
    hn::StoreU(hn::Add(hn::Add(quotients, sums.next(load_u16<T>(remainders + i))), places), d,
               positions + i);
  }
  std::uint32_t tail_sum = sums.total();
  for (; i < count; ++i) {
    tail_sum += remainders[i];
    positions[i] =
        static_cast<T>((marks[i] - static_cast<std::uint32_t>(i)) * divisor.value() + tail_sum + i);
  }
  return (marks[count - 1] - std::uint64_t{count - 1}) * divisor.value() + sum + (count - 1);
}

void pack_planes(const std::uint16_t* values, std::size_t count, unsigned planes, BitWriter& out) {
  const hn::ScalableTag<std::uint16_t> d;
  BitWriter writer = out;  // a copy in registers
  for (unsigned j = 0; j < planes; ++j) {
    const auto plane = hn::Set(d, static_cast<std::uint16_t>(1u << j));
    for (std::size_t i = 0; i < count; i += kChunk) {
      std::uint64_t bits = 0;
      for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
        bits |= bits_of(d, hn::TestBit(hn::LoadU(d, values + i + lane), plane)) << lane;
      }
      const std::size_t left = count - i;
      writer.put(low_bits(bits, left), static_cast<unsigned>(left < kChunk ? left : kChunk));
    }
  }
  out = writer;
}

void unpack_planes(const std::byte* bits, std::uint64_t bit, std::size_t count, unsigned planes,
                   std::uint16_t* values) {
  const hn::ScalableTag<std::uint16_t> d;
  const std::size_t lanes =
      hn::Lanes(d);  // at most 32, so extra entries after the last stay inside kPositionSlack
  for (std::size_t i = 0; i < count; i += lanes) {
    auto value = hn::Zero(d);
    for (unsigned j = 0; j < planes; ++j) {
      const auto mask = mask_of(d, low_bits(load_bits(bits, bit + j * count + i), lanes));
      value =
          hn::Or(value, hn::IfThenElseZero(mask, hn::Set(d, static_cast<std::uint16_t>(1u << j))));
    }
    hn::StoreU(value, d, values + i);
  }
}

// Masks of 64 values: is the trit above the low `shift` bits not 0, and is it 2?
struct TritBits {
  std::uint64_t any = 0;
  std::uint64_t two = 0;
};

HWY_INLINE TritBits trit_bits(const std::uint16_t* values, unsigned shift) {
  const hn::ScalableTag<std::uint16_t> d;
  const auto low = hn::Set(d, static_cast<std::uint16_t>((1u << shift) - 1));
  const auto two = hn::Set(d, static_cast<std::uint16_t>(2u << shift));
  TritBits found;
  for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
    const auto value = hn::LoadU(d, values + lane);
    found.any |= bits_of(d, hn::Ne(value, hn::And(value, low))) << lane;
    found.two |= bits_of(d, hn::TestBit(value, two)) << lane;
  }
  return found;
}

void pack_trits(const std::uint16_t* values, std::size_t count, unsigned shift, BitWriter& out) {
  BitWriter writer = out;
  for (std::size_t i = 0; i < count; i += kChunk) {
    const std::size_t left = count - i;
    writer.put(low_bits(trit_bits(values + i, shift).any, left),
               static_cast<unsigned>(left < kChunk ? left : kChunk));
  }
  for (std::size_t i = 0; i < count; i += kChunk) {
    const TritBits found = trit_bits(values + i, shift);
    const std::uint64_t any = low_bits(found.any, count - i);
    writer.put(extract_bits(found.two, any), static_cast<unsigned>(std::popcount(any)));
  }
  out = writer;
}

std::uint64_t unpack_trits(const std::byte* bits, std::uint64_t bit, std::uint64_t limit,
                           std::size_t count, unsigned shift, std::uint16_t* values) {
  if (limit < count) return kNoTrits;
  std::uint64_t used = count;
  for (std::size_t i = 0; i < count; i += kChunk)
    used += std::popcount(low_bits(load_bits(bits, bit + i), count - i));
  if (limit < used) return kNoTrits;
  const hn::ScalableTag<std::uint16_t> d;
  const auto unit = hn::Set(d, static_cast<std::uint16_t>(1u << shift));
  std::uint64_t next = bit + count;
  for (std::size_t i = 0; i < count; i += kChunk) {
    const std::uint64_t any = low_bits(load_bits(bits, bit + i), count - i);
    const std::uint64_t two = deposit_bits(load_bits(bits, next), any);
    next += std::popcount(any);
    for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
      const auto ones = hn::IfThenElseZero(mask_of(d, any >> lane), unit);
      const auto twos = hn::IfThenElseZero(mask_of(d, two >> lane), unit);
      hn::StoreU(hn::Add(hn::LoadU(d, values + i + lane), hn::Add(ones, twos)), d,
                 values + i + lane);
    }
  }
  return used;
}

// The bits of all lanes.
template <class D>
HWY_INLINE std::uint64_t or_lanes(D d, hn::VFromD<D> v) {
  if constexpr (hn::MaxLanes(d) == 2) {
    return hn::GetLane(v) | hn::ExtractLane(v, 1);
  } else {
    const hn::Half<D> half;
    return or_lanes(half, hn::Or(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

constexpr std::size_t kMarksAtOnce =
    16;  // about 30 to 40 bits in a list that keeps to its gap_divisor()

// The bits of the marks first, first + 1 ... up to the last of kMarksAtOnce marks, at most 64.
HWY_INLINE std::uint64_t bits_of_marks(const std::uint16_t* marks, std::uint16_t first) {
  const hn::CappedTag<std::uint64_t, kMarksAtOnce> d;
  const hn::Rebind<std::uint32_t, decltype(d)> d32;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  auto bits = hn::Zero(d);
  for (std::size_t i = 0; i < kMarksAtOnce; i += hn::Lanes(d)) {
    const auto places = hn::Sub(hn::LoadU(d16, marks + i), hn::Set(d16, first));
    bits = hn::Or(bits, hn::Shl(hn::Set(d, 1), hn::PromoteTo(d, hn::PromoteTo(d32, places))));
  }
  return or_lanes(d, bits);
}

void write_marks(const std::uint16_t* marks, std::size_t count, BitWriter& out) {
  constexpr std::size_t kMore = 8 * sizeof(std::uint64_t);  // marks that take as many bits at least
  constexpr unsigned kMaxBits = SteadyBitWriter::kMaxBits;
  unsigned next = 0;  // the first unwritten bit
  std::size_t i = 0;
  const auto put_one = [&](auto& writer) HWY_ATTR {
    for (; marks[i] - next >= kMaxBits; next += kMaxBits) writer.put(0, kMaxBits);
    writer.put(std::uint64_t{1} << (marks[i] - next), marks[i] - next + 1);
    next = marks[i++] + 1u;
  };
  SteadyBitWriter steady(out, count > kMarksAtOnce + kMore);
  while (i + kMarksAtOnce + kMore < count) {
    const unsigned end = marks[i + kMarksAtOnce - 1] + 1u;
    if (end - next <= kMaxBits) [[likely]] {
      steady.put(bits_of_marks(marks + i, static_cast<std::uint16_t>(next)), end - next);
      next = end;
      i += kMarksAtOnce;
    } else {
      for (std::size_t left = kMarksAtOnce; left > 0; --left) put_one(steady);
    }
  }
  BitWriter writer = steady.stop();  // a copy in registers
  for (; i + kMarksAtOnce <= count;) {
    const unsigned end = marks[i + kMarksAtOnce - 1] + 1u;
    if (end - next > kMaxBits) break;
    writer.put(bits_of_marks(marks + i, static_cast<std::uint16_t>(next)), end - next);
    next = end;
    i += kMarksAtOnce;
  }
  while (i < count) put_one(writer);
  out = writer;
}

std::size_t find_marks(const std::byte* bits, std::uint64_t bit, std::uint64_t limit,
                       std::size_t count, std::uint16_t* marks) {
  std::size_t found = 0;
  for (std::uint64_t i = 0; i < limit && found < count; i += kChunk) {
    const std::uint64_t word = low_bits(load_bits(bits, bit + i), limit - i);
    found += append_set_bits(word, static_cast<std::uint32_t>(i), marks + found);
  }
  return found < count ? found : count;
}
