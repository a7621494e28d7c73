// Part of cpu_kernels.cpp, compiled once for each instruction set.

void split_gaps(const std::uint16_t* positions, std::size_t count, unsigned shift, std::uint16_t* remainders,
                std::uint16_t* marks) {
  if (count == 0) return;
  const hn::ScalableTag<std::uint16_t> d;
  const auto low = hn::Set(d, static_cast<std::uint16_t>((1u << shift) - 1));
  const auto one = hn::Set(d, std::uint16_t{1});
  remainders[0] = static_cast<std::uint16_t>(positions[0] & ((1u << shift) - 1));
  marks[0] = static_cast<std::uint16_t>(positions[0] >> shift);
  const auto before = hn::Set(d, marks[0]);  // the first quotient, which is in all sums
  PrefixSums<std::uint16_t> sums;
  const auto lanes = hn::Set(d, static_cast<std::uint16_t>(hn::Lanes(d)));
  auto places = hn::Iota(d, 1);  // carried on: an Iota from a variable is written to memory lane by lane
  std::size_t i = 1;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d), places = hn::Add(places, lanes)) {
    const auto gap = hn::Sub(hn::Sub(hn::LoadU(d, positions + i), hn::LoadU(d, positions + i - 1)), one);
    const auto quotients = hn::Add(before, sums.next(hn::ShiftRightSame(gap, static_cast<int>(shift))));
    hn::StoreU(hn::And(gap, low), d, remainders + i);
    hn::StoreU(hn::Add(quotients, places), d, marks + i);
  }
  for (; i < count; ++i) {
    const unsigned gap = positions[i] - positions[i - 1] - 1u;
    remainders[i] = static_cast<std::uint16_t>(gap & ((1u << shift) - 1));
    marks[i] = static_cast<std::uint16_t>(marks[i - 1] + 1u + (gap >> shift));
  }
}

std::uint64_t join_gaps(const std::uint16_t* remainders, const std::uint16_t* marks, std::size_t count, unsigned shift,
                        std::uint16_t* positions) {
  if (count == 0) return 0;
  const hn::ScalableTag<std::uint16_t> d;
  std::uint32_t sum = 0;  // without modulus: below 2^16 * 2^16
  for (std::size_t i = 0; i < count; ++i) sum += remainders[i];
  PrefixSums<std::uint16_t> sums;
  const auto lanes = hn::Set(d, static_cast<std::uint16_t>(hn::Lanes(d)));
  auto places = hn::Iota(d, 0);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d), places = hn::Add(places, lanes)) {
    const auto quotients = hn::ShiftLeftSame(hn::Sub(hn::LoadU(d, marks + i), places), static_cast<int>(shift));
    hn::StoreU(hn::Add(hn::Add(quotients, sums.next(hn::LoadU(d, remainders + i))), places), d, positions + i);
  }
  std::uint32_t tail_sum = sums.total();
  for (; i < count; ++i) {
    tail_sum += remainders[i];
    positions[i] = static_cast<std::uint16_t>(((marks[i] - static_cast<std::uint32_t>(i)) << shift) + tail_sum + i);
  }
  return ((marks[count - 1] - std::uint64_t{count - 1}) << shift) + sum + (count - 1);
}

void split_wide_gaps(const std::uint32_t* positions, std::size_t count, unsigned shift, std::uint16_t* remainders,
                     std::uint16_t* marks) {
  if (count == 0) return;
  const hn::ScalableTag<std::uint32_t> wide;
  const hn::Rebind<std::uint16_t, decltype(wide)> d;  // as many lanes
  const std::uint32_t low = (1u << shift) - 1;
  remainders[0] = static_cast<std::uint16_t>(positions[0] & low);
  marks[0] = static_cast<std::uint16_t>(positions[0] >> shift);
  const auto before = hn::Set(wide, marks[0]);
  PrefixSums<std::uint32_t> sums;
  const auto lanes = hn::Set(wide, static_cast<std::uint32_t>(hn::Lanes(wide)));
  auto places = hn::Iota(wide, 1);
  std::size_t i = 1;
  for (; i + hn::Lanes(wide) <= count; i += hn::Lanes(wide), places = hn::Add(places, lanes)) {
    const auto gap = hn::Sub(hn::Sub(hn::LoadU(wide, positions + i), hn::LoadU(wide, positions + i - 1)), hn::Set(wide, 1));
    const auto quotients = hn::Add(before, sums.next(hn::ShiftRightSame(gap, static_cast<int>(shift))));
    hn::StoreU(hn::TruncateTo(d, hn::And(gap, hn::Set(wide, low))), d, remainders + i);
    hn::StoreU(hn::TruncateTo(d, hn::Add(quotients, places)), d, marks + i);
  }
  for (; i < count; ++i) {
    const std::uint32_t gap = positions[i] - positions[i - 1] - 1;
    remainders[i] = static_cast<std::uint16_t>(gap & low);
    marks[i] = static_cast<std::uint16_t>(marks[i - 1] + 1u + (gap >> shift));
  }
}

std::uint64_t join_wide_gaps(const std::uint16_t* remainders, const std::uint16_t* marks, std::size_t count, unsigned shift,
                             std::uint32_t* positions) {
  if (count == 0) return 0;
  const hn::ScalableTag<std::uint32_t> wide;
  const hn::Rebind<std::uint16_t, decltype(wide)> d;  // as many lanes
  PrefixSums<std::uint32_t> sums;
  const auto lanes = hn::Set(wide, static_cast<std::uint32_t>(hn::Lanes(wide)));
  auto places = hn::Iota(wide, 0);
  std::size_t i = 0;
  for (; i + hn::Lanes(wide) <= count; i += hn::Lanes(wide), places = hn::Add(places, lanes)) {
    const auto quotients =
        hn::ShiftLeftSame(hn::Sub(hn::PromoteTo(wide, hn::LoadU(d, marks + i)), places), static_cast<int>(shift));
    const auto remainder_sums = sums.next(hn::PromoteTo(wide, hn::LoadU(d, remainders + i)));
    hn::StoreU(hn::Add(hn::Add(quotients, remainder_sums), places), wide, positions + i);
  }
  std::uint32_t sum = sums.total();  // below 2^16 * 2^16
  for (; i < count; ++i) {
    sum += remainders[i];
    positions[i] = ((marks[i] - static_cast<std::uint32_t>(i)) << shift) + sum + static_cast<std::uint32_t>(i);
  }
  return ((marks[count - 1] - std::uint64_t{count - 1}) << shift) + sum + (count - 1);
}

void pack_planes(const std::uint16_t* values, std::size_t count, unsigned planes, BitWriter& out) {
  const hn::ScalableTag<std::uint16_t> d;
  BitWriter writer = out;  // in registers
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

void unpack_planes(const std::byte* bits, std::uint64_t bit, std::size_t count, unsigned planes, std::uint16_t* values) {
  const hn::ScalableTag<std::uint16_t> d;
  const std::size_t lanes = hn::Lanes(d);  // at most 32, so rubbish after the last entry stays inside kPositionSlack
  for (std::size_t i = 0; i < count; i += lanes) {
    auto value = hn::Zero(d);
    for (unsigned j = 0; j < planes; ++j) {
      const auto mask = mask_of(d, low_bits(load_bits(bits, bit + j * count + i), lanes));
      value = hn::Or(value, hn::IfThenElseZero(mask, hn::Set(d, static_cast<std::uint16_t>(1u << j))));
    }
    hn::StoreU(value, d, values + i);
  }
}

// Of all lanes.
template <class D>
HWY_INLINE std::uint64_t or_lanes(D d, hn::VFromD<D> v) {
  if constexpr (hn::MaxLanes(d) == 2) {
    return hn::GetLane(v) | hn::ExtractLane(v, 1);
  } else {
    const hn::Half<D> half;
    return or_lanes(half, hn::Or(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

constexpr std::size_t kMarksAtOnce = 16;  // about 30 bits in a list that keeps to its rice_shift()

// The bits first, first + 1 ... up to the last of kMarksAtOnce marks, which are 64 at most.
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

void write_marks(const std::uint16_t* marks, std::size_t count, std::byte*, BitWriter& out) {
  constexpr std::size_t kMore = 8 * sizeof(std::uint64_t);  // marks that take as many bits at least
  constexpr unsigned kMostBits = SteadyBitWriter::kMostBits;
  unsigned next = 0;  // the first bit that is not written
  std::size_t i = 0;
  const auto put_one = [&](auto& writer) HWY_ATTR {
    for (; marks[i] - next >= kMostBits; next += kMostBits) writer.put(0, kMostBits);
    writer.put(std::uint64_t{1} << (marks[i] - next), marks[i] - next + 1);
    next = marks[i++] + 1u;
  };
  SteadyBitWriter steady(out, count > kMarksAtOnce + kMore);
  while (i + kMarksAtOnce + kMore < count) {
    const unsigned end = marks[i + kMarksAtOnce - 1] + 1u;
    if (end - next <= kMostBits) [[likely]] {
      steady.put(bits_of_marks(marks + i, static_cast<std::uint16_t>(next)), end - next);
      next = end;
      i += kMarksAtOnce;
    } else {
      for (std::size_t left = kMarksAtOnce; left > 0; --left) put_one(steady);
    }
  }
  BitWriter writer = steady.stop();  // in registers
  for (; i + kMarksAtOnce <= count;) {
    const unsigned end = marks[i + kMarksAtOnce - 1] + 1u;
    if (end - next > kMostBits) break;
    writer.put(bits_of_marks(marks + i, static_cast<std::uint16_t>(next)), end - next);
    next = end;
    i += kMarksAtOnce;
  }
  while (i < count) put_one(writer);
  out = writer;
}

std::size_t find_marks(const std::byte* bits, std::uint64_t bit, std::uint64_t limit, std::size_t count, std::uint16_t* marks) {
  std::size_t found = 0;
  for (std::uint64_t i = 0; i < limit && found < count; i += kChunk) {
    const std::uint64_t word = low_bits(load_bits(bits, bit + i), limit - i);
    found += append_set_bits(word, static_cast<std::uint32_t>(i), marks + found);
  }
  return found < count ? found : count;
}
