#include "src/codec/class_table.hpp"

#include <algorithm>
#include <bit>

#include "src/base/bytes.hpp"

namespace sparcl::codec {
namespace {

constexpr unsigned kAllKeysFlag = 0x08;
constexpr unsigned kRowExponentMask = 0x07;
constexpr unsigned kMaxShift = 15;
constexpr std::size_t kRowBytes = 5;
constexpr unsigned kLargestExpectation = 128;  // as RoughCount
static_assert(RoughCount{kLargestExpectation}.value() == kernels::kMaxRanks);

// A count against what is expected of it: how far it is off, as a number that is small where it is near.
struct Expectation {
  std::uint64_t value;
  unsigned exponent;  // of the code

  // About the deviation of independent events: the square root.
  static Expectation of_events(std::uint64_t value) { return {value, static_cast<unsigned>(std::bit_width(value)) / 2}; }

  std::uint64_t fold(std::uint64_t count) const { return count >= value ? 2 * (count - value) : 2 * (value - count) - 1; }
  // Wraps where no count folds so: the caller looks at the result.
  std::uint64_t unfold(std::uint64_t folded) const { return folded % 2 == 0 ? value + folded / 2 : value - (folded + 1) / 2; }
};

std::uint64_t scaled(RoughCount count, std::uint32_t elements) { return count.value() * elements / kernels::kMaxRanks; }

Expectation expected_changes(const ClassRow& row, std::uint32_t elements) {
  return Expectation::of_events(scaled(row.changes, elements));
}

Expectation expected_exceptions(const ClassRow& row, std::uint32_t changes) {
  return Expectation::of_events(row.exceptions.value() * changes / std::max<std::uint64_t>(row.changes.value(), 1));
}

Expectation expected_shift(const ClassRow& row, std::uint32_t elements, std::uint32_t changes) {
  return {rank_shift(scaled(row.elements, elements), changes), 0};
}

std::uint64_t gamma_bits(std::uint64_t value, unsigned exponent) {
  return 2 * static_cast<unsigned>(std::bit_width((value >> exponent) + 1)) - 1 + exponent;
}

void write_gamma(std::uint64_t value, unsigned exponent, kernels::BitWriter& out) {
  const std::uint64_t v = (value >> exponent) + 1;
  const unsigned zeros = static_cast<unsigned>(std::bit_width(v)) - 1;
  out.put(std::uint64_t{1} << zeros, zeros + 1);
  out.put(kernels::low_bits(value, exponent), exponent);
  out.put(v - (std::uint64_t{1} << zeros), zeros);
}

// Values below 2^32 only, which is more than any count.
bool read_gamma(BitCursor& bits, unsigned exponent, std::uint64_t& value) {
  const std::uint64_t word = kernels::low_bits(kernels::load_bits(bits.bytes, bits.at), bits.left());
  const auto zeros = static_cast<unsigned>(std::countr_zero(word));
  if (zeros + exponent > 31 || bits.left() < 2 * zeros + 1 + exponent) return false;
  const std::uint64_t suffix = kernels::low_bits(kernels::load_bits(bits.bytes, bits.at + zeros + 1), zeros + exponent);
  value = (((std::uint64_t{1} << zeros) - 1) << exponent) + suffix;
  bits.at += 2 * zeros + 1 + exponent;
  return true;
}

bool read_count(BitCursor& bits, const Expectation& expected, std::uint64_t most, std::uint32_t& count) {
  std::uint64_t folded = 0;
  if (!read_gamma(bits, expected.exponent, folded)) return false;
  const std::uint64_t value = expected.unfold(folded);
  count = static_cast<std::uint32_t>(value);
  return value <= most;
}

// Calls visit(count, its expectation) for the numbers of the head in their order; the last class's changes are what is left.
template <class Visit>
void for_each_number(const ClassTable& table, std::uint32_t elements, const SuperCounts& counts, Visit visit) {
  for (unsigned c = 0; c < table.cut.count; ++c) {
    const ClassRow& row = table.rows[c];
    const ClassCounts& own = counts[c];
    if (c + 1 < table.cut.count) visit(own.changes, expected_changes(row, elements));
    if (own.changes == 0) continue;
    if (!row.all) visit(own.exceptions, expected_exceptions(row, own.changes));
    visit(own.shift, expected_shift(row, elements, own.changes));
  }
}

}  // namespace

RoughCount RoughCount::of(std::uint64_t count) {
  if (count < 8) return {static_cast<std::uint8_t>(count)};
  const unsigned shift = static_cast<unsigned>(std::bit_width(count)) - 4;
  if (shift >= 31) return {255};
  return {static_cast<std::uint8_t>(8 * (shift + 1) + ((count >> shift) & 7))};
}

void store(const ClassTable& table, std::byte* out) {
  *out++ = static_cast<std::byte>(table.cut.count);
  for (unsigned c = 0; c < table.cut.count; ++c, out += kRowBytes) {
    const ClassRow& row = table.rows[c];
    store_le(out, table.cut.lowest[c]);
    store_le(out + 1, static_cast<std::uint8_t>(row.exponent | (row.all ? kAllKeysFlag : 0)));
    store_le(out + 2, row.changes.code);
    store_le(out + 3, row.exceptions.code);
    store_le(out + 4, row.elements.code);
  }
}

const char* parse(std::span<const std::byte> content, ClassTable& table) {
  if (content.empty()) return "is empty";
  const auto count = static_cast<unsigned>(content[0]);
  if (count == 0 || count > kernels::kMaxClasses || content.size() != 1 + kRowBytes * count)
    return "has not as many classes as it says";
  table = {};
  table.cut.count = count;
  for (unsigned c = 0; c < count; ++c) {
    const std::byte* at = content.data() + 1 + kRowBytes * c;
    const auto lowest = load_le<std::uint8_t>(at);
    const auto parameters = load_le<std::uint8_t>(at + 1);
    if ((c > 0 && lowest >= table.cut.lowest[c - 1]) || (lowest == 0) != (c + 1 == count))
      return "has classes that do not descend to zero";
    if (parameters > (kAllKeysFlag | kRowExponentMask)) return "has invalid parameters";
    for (std::size_t i = 2; i < kRowBytes; ++i) {
      if (load_le<std::uint8_t>(at + i) > kLargestExpectation) return "expects more than there is room for";
    }
    if (load_le<std::uint8_t>(at + 3) > load_le<std::uint8_t>(at + 2)) return "expects more exceptions than changes";
    table.cut.lowest[c] = lowest;
    table.rows[c] = {(parameters & kAllKeysFlag) != 0,
                     static_cast<std::uint8_t>(parameters & kRowExponentMask),
                     {load_le<std::uint8_t>(at + 2)},
                     {load_le<std::uint8_t>(at + 3)},
                     {load_le<std::uint8_t>(at + 4)}};
  }
  return nullptr;
}

std::uint64_t head_bits(const ClassTable& table, std::uint32_t elements, const SuperCounts& counts) {
  std::uint64_t bits = 0;
  for_each_number(table, elements, counts, [&](std::uint32_t count, const Expectation& expected) {
    bits += gamma_bits(expected.fold(count), expected.exponent);
  });
  return bits;
}

void write_head(const ClassTable& table, std::uint32_t elements, const SuperCounts& counts, kernels::BitWriter& out) {
  for_each_number(table, elements, counts, [&](std::uint32_t count, const Expectation& expected) {
    write_gamma(expected.fold(count), expected.exponent, out);
  });
}

bool read_head(const ClassTable& table, std::uint32_t elements, std::uint32_t changes, BitCursor& bits, SuperCounts& counts) {
  std::uint32_t left = changes;
  for (unsigned c = 0; c < table.cut.count; ++c) {
    const ClassRow& row = table.rows[c];
    ClassCounts& own = counts[c];
    own = {left, 0, 0};
    if (c + 1 < table.cut.count && !read_count(bits, expected_changes(row, elements), left, own.changes)) return false;
    left -= own.changes;
    if (own.changes == 0) continue;
    own.exceptions = own.changes;
    if (!row.all && !read_count(bits, expected_exceptions(row, own.changes), own.changes, own.exceptions)) return false;
    if (!read_count(bits, expected_shift(row, elements, own.changes), kMaxShift, own.shift)) return false;
  }
  return left == 0;
}

unsigned rank_shift(std::uint64_t span, std::uint64_t count) { return std::min(rice_shift(span, count), kMaxShift); }

}  // namespace sparcl::codec
