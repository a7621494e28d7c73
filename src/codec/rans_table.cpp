#include "src/codec/rans_table.hpp"

#include <algorithm>
#include <bit>

namespace sparcl::codec {
namespace {

using kernels::kRansBits;
using kernels::kRansSlots;
using kernels::kRansSymbols;

// log2 of value > 0 in units of 2^-8, at most 2^-8 too small: bit by bit, by squaring.
constexpr std::uint32_t log2_of(std::uint32_t value) {
  const auto whole = static_cast<std::uint32_t>(std::bit_width(value) - 1);
  std::uint64_t fraction =
      (std::uint64_t{value} << 31) >> whole;  // in [1, 2), 31 bits after the point
  std::uint32_t log = whole;
  for (int bit = 0; bit < 8; ++bit) {
    fraction = (fraction * fraction) >> 31;
    const auto carry = static_cast<std::uint32_t>(fraction >> 32);
    fraction >>= carry;
    log = log << 1 | carry;
  }
  return log;
}

// Estimates use a table, because squaring is slow: log2 of the first 12 bits.
constexpr unsigned kLogBits = 12;
const std::array<std::uint16_t, std::size_t{1} << kLogBits>& logs() {
  static const auto table = [] {
    std::array<std::uint16_t, std::size_t{1} << kLogBits> made{};
    for (std::uint32_t i = 1; i < made.size(); ++i)
      made[i] = static_cast<std::uint16_t>(log2_of(i));
    return made;
  }();
  return table;
}

std::uint32_t fast_log2(std::uint32_t value) {
  const unsigned width = static_cast<unsigned>(std::bit_width(value));
  const unsigned over = width > kLogBits ? width - kLogBits : 0;
  return logs()[value >> over] + (over << 8);
}

unsigned gamma_bits(std::uint32_t value) {
  return 2 * static_cast<unsigned>(std::bit_width(value)) - 1;
}

struct Range {
  std::size_t first = 0;
  std::size_t last = 0;
};

template <class Table>
Range range_of(const Table& table) {
  Range range{0, table.size() - 1};
  while (table[range.first] == 0) ++range.first;
  while (table[range.last] == 0) --range.last;
  return range;
}

}  // namespace

Frequencies normalise(std::span<const std::uint32_t> counts) {
  std::uint64_t total = 0;
  for (const std::uint32_t count : counts) total += count;
  Frequencies frequencies{};
  std::uint32_t sum = 0;
  for (std::size_t symbol = 0; symbol < counts.size(); ++symbol) {
    if (counts[symbol] == 0) continue;
    const std::uint64_t rounded = (std::uint64_t{counts[symbol]} * kRansSlots + total / 2) / total;
    frequencies[symbol] = static_cast<std::uint16_t>(std::max<std::uint64_t>(1, rounded));
    sum += frequencies[symbol];
  }
  // The rounding error of the sum goes to the symbol that it costs least. There are 8 slots for
  // each symbol, so the symbol can give some.
  while (sum != kRansSlots) {
    const auto most = std::max_element(frequencies.begin(), frequencies.end());
    if (sum < kRansSlots) {
      *most = static_cast<std::uint16_t>(*most + (kRansSlots - sum));
      return frequencies;
    }
    const std::uint32_t taken = std::min(sum - kRansSlots, std::uint32_t{*most} / 8 + 1);
    *most = static_cast<std::uint16_t>(*most - taken);
    sum -= taken;
  }
  return frequencies;
}

std::uint64_t symbols_cost(std::span<const std::uint32_t> counts) {
  std::uint32_t total = 0;
  std::uint64_t cost = 0;
  for (const std::uint32_t count : counts) {
    if (count == 0) continue;
    total += count;
    cost += std::uint64_t{count} * fast_log2(count);
  }
  if (total == 0) return 0;
  return std::uint64_t{total} * fast_log2(total) -
         std::min(std::uint64_t{total} * fast_log2(total), cost);
}

std::uint64_t table_cost(std::span<const std::uint32_t> counts) {
  const Range range = range_of(counts);
  std::uint32_t total = 0;
  for (const std::uint32_t count : counts) total += count;
  std::uint64_t bits = 16;
  for (std::size_t symbol = range.first; symbol <= range.last; ++symbol) {
    const std::uint64_t share = std::uint64_t{counts[symbol]} * kRansSlots / total;
    bits += gamma_bits(static_cast<std::uint32_t>(
        counts[symbol] == 0 ? 1 : std::max<std::uint64_t>(share, 1) + 1));
  }
  return bits << 8;
}

std::uint64_t table_bits(const Frequencies& frequencies) {
  const Range range = range_of(frequencies);
  std::uint64_t bits = 16;
  for (std::size_t symbol = range.first; symbol <= range.last; ++symbol)
    bits += gamma_bits(frequencies[symbol] + 1u);
  return bits;
}

void write_table(const Frequencies& frequencies, kernels::BitWriter& bits) {
  const Range range = range_of(frequencies);
  bits.put(range.first, 8);
  bits.put(range.last, 8);
  for (std::size_t symbol = range.first; symbol <= range.last; ++symbol) {
    const std::uint64_t v = frequencies[symbol] + std::uint64_t{1};
    const auto zeros = static_cast<unsigned>(std::bit_width(v)) - 1;
    bits.put(std::uint64_t{1} << zeros, zeros + 1);
    bits.put(v - (std::uint64_t{1} << zeros), zeros);
  }
}

bool read_table(BitCursor& bits, Frequencies& frequencies) {
  const auto take = [&](unsigned count) {
    const std::uint64_t value = kernels::low_bits(kernels::load_bits(bits.bytes, bits.at), count);
    bits.at += count;
    return static_cast<std::uint32_t>(value);
  };
  frequencies.fill(0);
  if (bits.left() < 16) return false;
  const std::uint32_t first = take(8);
  const std::uint32_t last = take(8);
  if (last < first) return false;
  std::uint32_t sum = 0;
  for (std::uint32_t symbol = first; symbol <= last; ++symbol) {
    const std::uint64_t left = bits.left();
    const auto zeros = static_cast<unsigned>(
        std::countr_zero(kernels::load_bits(bits.bytes, bits.at) | std::uint64_t{1} << 63));
    if (zeros > kRansBits || 2 * zeros + 1 > left) return false;
    bits.at += zeros + 1;
    const std::uint32_t frequency = (1u << zeros) + take(zeros) - 1;
    sum += frequency;
    if (sum > kRansSlots) return false;
    frequencies[symbol] = static_cast<std::uint16_t>(frequency);
  }
  return sum == kRansSlots;
}

void fill_push(const Frequencies& frequencies, kernels::RansPush* table) {
  std::uint32_t start = 0;
  for (std::size_t symbol = 0; symbol < kRansSymbols; ++symbol) {
    if (frequencies[symbol] == 0) continue;
    table[symbol] = kernels::rans_push(frequencies[symbol], start);
    start += frequencies[symbol];
  }
}

void fill_pop(const Frequencies& frequencies, std::uint32_t* table) {
  for (std::uint32_t symbol = 0; symbol < kRansSymbols; ++symbol) {
    for (std::uint32_t i = 0; i < frequencies[symbol]; ++i)
      *table++ = kernels::rans_pop(symbol, frequencies[symbol], i);
  }
}

}  // namespace sparcl::codec
