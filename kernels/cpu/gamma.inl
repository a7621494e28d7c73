// Part of cpu_kernels.cpp, compiled once for each instruction set. Some of it is scalar code: the
// variable shifts of AVX2 make it twice as fast.

#if HWY_TARGET == HWY_AVX3_DL
using Numbers8 = hn::FixedTag<std::uint64_t, 8>;

// floor(log2 v) of numbers that are not 0: sets all bits below the highest one and counts them.
// Highway has no names for the instructions that count zeros.
HWY_INLINE hn::VFromD<Numbers8> floor_log2(hn::VFromD<Numbers8> v) {
  v = hn::Or(v, hn::ShiftRight<1>(v));
  v = hn::Or(v, hn::ShiftRight<2>(v));
  v = hn::Or(v, hn::ShiftRight<4>(v));
  v = hn::Or(v, hn::ShiftRight<8>(v));
  v = hn::Or(v, hn::ShiftRight<16>(v));
  v = hn::Or(v, hn::ShiftRight<32>(v));
  return hn::Sub(hn::PopulationCount(v), hn::Set(Numbers8(), 1));
}
#endif

void gamma_widths(const std::uint64_t* values, std::size_t count, std::uint64_t more,
                  std::uint32_t* widths) {
  std::uint32_t tables[4][64] =
      {};  // used in turn: most values are equal, and an increment would wait for the previous one
  std::size_t i = 0;
#if HWY_TARGET == HWY_AVX3_DL
  const Numbers8 d;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    alignas(64) std::uint64_t logs[hn::MaxLanes(d)];
    hn::Store(floor_log2(hn::Add(hn::LoadU(d, values + i), hn::Set(d, 1 + more))), d, logs);
    for (std::size_t k = 0; k < hn::Lanes(d); ++k) ++tables[k % 4][logs[k] % 64];
  }
#endif
  for (; i < count; ++i) ++tables[i % 4][63 - std::countl_zero((values[i] + 1 + more) | 1)];
  for (std::size_t b = 0; b < 64; ++b)
    widths[b] = tables[0][b] + tables[1][b] + tables[2][b] + tables[3][b];
}

std::uint64_t gamma_lengths(const std::uint64_t* values, std::size_t count, unsigned exponent,
                            std::uint8_t* lengths) {
  std::uint64_t total = 0;
  std::size_t i = 0;
#if HWY_TARGET == HWY_AVX3_DL
  const Numbers8 d;
  auto sums = hn::Zero(d);
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto logs =
        floor_log2(hn::Add(hn::LoadU(d, values + i), hn::Set(d, std::uint64_t{1} << exponent)));
    sums = hn::Add(sums, logs);
    hn::StoreU(hn::TruncateTo(hn::FixedTag<std::uint8_t, 8>(), logs),
               hn::FixedTag<std::uint8_t, 8>(), lengths + i);
  }
  alignas(64) std::uint64_t parts[hn::MaxLanes(d)];
  hn::Store(sums, d, parts);
  for (const std::uint64_t part : parts) total += part;
#endif
  for (; i < count; ++i) {
    const auto length =
        static_cast<unsigned>(63 - std::countl_zero(values[i] + (std::uint64_t{1} << exponent)));
    lengths[i] = static_cast<std::uint8_t>(length);
    total += length;
  }
  return 2 * total + count - count * std::uint64_t{exponent};
}

constexpr std::size_t kCodesAtOnce = 8;
constexpr std::uint64_t kEachByte = 0x0101010101010101;

// The sum of bits_of(lengths, first) << offsets over kCodesAtOnce codes. The codes are combined
// first, because each write to the bit stream waits for the previous one. `offsets`: a byte each.
template <class BitsOf>
HWY_INLINE std::uint64_t join_codes(std::uint64_t offsets, BitsOf bits_of) {
  const hn::CappedTag<std::uint64_t, kCodesAtOnce> d;
  const hn::Rebind<std::uint32_t, decltype(d)> d32;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  auto bits = hn::Zero(d);
  for (std::size_t i = 0; i < kCodesAtOnce; i += hn::Lanes(d)) {
    const std::uint64_t own = offsets >> (8 * i);
    const auto bytes = hn::LoadU(d8, reinterpret_cast<const std::uint8_t*>(&own));
    bits = hn::Or(bits, hn::Shl(bits_of(d, i), hn::PromoteTo(d, hn::PromoteTo(d32, bytes))));
  }
  return or_lanes(d, bits);
}

// Appends codes whose bit counts are the bytes of counts_of(i). `left`: total bits of these and of
// the codes that follow. put_one(i, writer) writes the remaining codes, and groups with long codes.
template <class CountsOf, class Join, class PutOne>
HWY_INLINE void put_codes(std::size_t count, std::uint64_t left, CountsOf counts_of, Join join,
                          PutOne put_one, BitWriter& out) {
  constexpr std::uint64_t kLongCounts = 0xe0 * kEachByte;  // their sums might not fit into a byte
  SteadyBitWriter steady(out, left >= 64);
  std::size_t i = 0;
  for (; i + kCodesAtOnce <= count; i += kCodesAtOnce) {
    const std::uint64_t counts = counts_of(i);
    const std::uint64_t ends = counts * kEachByte;
    const auto total = static_cast<unsigned>(ends >> 56);
    if ((counts & kLongCounts) != 0 || total > SteadyBitWriter::kMaxBits || left < total + 64)
      break;
    steady.put(join(i, ends - counts), total);
    left -= total;
  }
  BitWriter writer = steady.stop();
  for (; i < count; ++i) put_one(i, writer);
  out = writer;
}

void write_gammas(const std::uint64_t* values, const std::uint8_t* lengths, std::size_t count,
                  unsigned exponent, BitWriter& out) {
  const auto lengths_of = [=](std::size_t i) HWY_ATTR {
    std::uint64_t eight;
    std::memcpy(&eight, lengths + i, sizeof eight);
    return eight;
  };
  std::uint64_t suffix_bits = 0;
  for (std::size_t i = 0; i < count; ++i) suffix_bits += lengths[i];
  const std::uint64_t unary_bits = suffix_bits + count - count * std::uint64_t{exponent};
  const std::uint64_t zeros_and_one = kEachByte - exponent * kEachByte;
  put_codes(
      count, unary_bits + suffix_bits,
      [=](std::size_t i) HWY_ATTR { return lengths_of(i) + zeros_and_one; },
      [=](std::size_t i, std::uint64_t offsets) HWY_ATTR {
        const std::uint64_t ones = offsets + lengths_of(i) - exponent * kEachByte;
        return join_codes(ones, [](auto d, std::size_t) HWY_ATTR { return hn::Set(d, 1); });
      },
      [=](std::size_t i, BitWriter& writer) HWY_ATTR {
        const unsigned zeros = lengths[i] - exponent;
        writer.put(std::uint64_t{1} << zeros, zeros + 1);
      },
      out);
  // v's lower bits and m's e low bits form one number.
  put_codes(
      count, suffix_bits, lengths_of,
      [=](std::size_t i, std::uint64_t offsets) HWY_ATTR {
        return join_codes(offsets, [=](auto d, std::size_t k) HWY_ATTR {
          const hn::Rebind<std::uint32_t, decltype(d)> d32;
          const hn::Rebind<std::uint8_t, decltype(d)> d8;
          const auto own = hn::PromoteTo(d, hn::PromoteTo(d32, hn::LoadU(d8, lengths + i + k)));
          const auto less =
              hn::Sub(hn::Shl(hn::Set(d, 1), own), hn::Set(d, std::uint64_t{1} << exponent));
          return hn::Sub(hn::LoadU(d, values + i + k), less);
        });
      },
      [=](std::size_t i, BitWriter& writer) HWY_ATTR {
        writer.put(values[i] + (std::uint64_t{1} << exponent) - (std::uint64_t{1} << lengths[i]),
                   lengths[i]);
      },
      out);
}

std::uint64_t read_gammas(const std::byte* bits, std::uint64_t bit, std::uint64_t limit,
                          std::size_t count, unsigned exponent, std::uint8_t* lengths,
                          std::uint64_t* values) {
  std::size_t found = 0;
  std::uint64_t end = 0;  // end of the unary codes written
  std::uint64_t total = 0;
  for (std::uint64_t base = 0; found < count; base += 64) {
    if (base >= limit) return kNoGammas;
    std::uint64_t word = low_bits(load_bits(bits, bit + base), limit - base);
    for (; word != 0 && found < count; word &= word - 1, ++found) {
      const std::uint64_t one = base + static_cast<unsigned>(std::countr_zero(word));
      const std::uint64_t length = one - end + exponent;
      if (length > 63) return kNoGammas;
      lengths[found] = static_cast<std::uint8_t>(length);
      total += length;
      end = one + 1;
    }
  }
  if (limit - end < total) return kNoGammas;
  std::uint64_t at = bit + end;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t suffix = low_bits(load_bits(bits, at), lengths[i]);
    values[i] = suffix + (std::uint64_t{1} << lengths[i]) - (std::uint64_t{1} << exponent);
    at += lengths[i];
  }
  return end + total;
}
