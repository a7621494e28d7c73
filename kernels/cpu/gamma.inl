// Part of cpu_kernels.cpp, compiled once for each instruction set: scalar code, but the instructions for counting zeros and
// shifting by a variable that came with AVX2 make it twice as fast.

void gamma_widths(const std::uint64_t* values, std::size_t count, std::uint64_t more, std::uint32_t* widths) {
  std::uint32_t tables[4][64] = {};  // in turn: most values are alike, and an increment would wait for the one before it
  for (std::size_t i = 0; i < count; ++i) ++tables[i % 4][63 - std::countl_zero((values[i] + 1 + more) | 1)];
  for (std::size_t b = 0; b < 64; ++b) widths[b] = tables[0][b] + tables[1][b] + tables[2][b] + tables[3][b];
}

std::uint64_t gamma_lengths(const std::uint64_t* values, std::size_t count, unsigned exponent, std::uint8_t* lengths) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto length = static_cast<unsigned>(63 - std::countl_zero(values[i] + (std::uint64_t{1} << exponent)));
    lengths[i] = static_cast<std::uint8_t>(length);
    total += length;
  }
  return 2 * total + count - count * std::uint64_t{exponent};
}

void write_gammas(const std::uint64_t* values, const std::uint8_t* lengths, std::size_t count, unsigned exponent, BitWriter& out) {
  BitWriter writer = out;  // in registers
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned zeros = lengths[i] - exponent;
    writer.put(std::uint64_t{1} << zeros, zeros + 1);
  }
  for (std::size_t i = 0; i < count; ++i) {
    // v's lower bits and m's e low bits are one number.
    writer.put(values[i] + (std::uint64_t{1} << exponent) - (std::uint64_t{1} << lengths[i]), lengths[i]);
  }
  out = writer;
}

std::uint64_t read_gammas(const std::byte* bits, std::uint64_t bit, std::uint64_t limit, std::size_t count, unsigned exponent,
                          std::uint8_t* lengths, std::uint64_t* values) {
  std::size_t found = 0;
  std::uint64_t end = 0;  // of the unary codes so far
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
