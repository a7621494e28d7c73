#pragma once
// The exponent classes in use, and the counts expected of each class in a superblock
// (docs/reference/wire-format.md). Sender and receiver code the actual counts against these
// expectations, on the host and on devices. All of it is integer arithmetic, so all get the same
// result.

#include <array>
#include <cstdint>

#include "kernels/bit_list.hpp"
#include "kernels/classes.hpp"

namespace sparcl::kernels {

constexpr unsigned bits_of(std::uint64_t value) {
  unsigned bits = 0;
  for (; value != 0; value >>= 1) ++bits;
  return bits;
}

// A count as eight bits, 6 % apart: exact below 16.
struct RoughCount {
  std::uint8_t code = 0;

  static constexpr RoughCount of(std::uint64_t count) {
    if (count < 8) return {static_cast<std::uint8_t>(count)};
    const unsigned shift = bits_of(count) - 4;
    if (shift >= 31) return {255};
    return {static_cast<std::uint8_t>(8 * (shift + 1) + ((count >> shift) & 7))};
  }
  constexpr std::uint64_t value() const {
    return code < 8 ? code : std::uint64_t{8u + code % 8u} << (code / 8 - 1);
  }
};
constexpr unsigned kLargestExpectation = 128;  // as RoughCount
static_assert(RoughCount{kLargestExpectation}.value() == kMaxRanks);

struct ClassRow {
  bool all = false;           // true: sizes of all steps are coded, not only of steps other than 1
  std::uint8_t exponent = 0;  // of their codes, at most 7
  // In a superblock of kMaxRanks elements.
  RoughCount changes;
  RoughCount exceptions;
  RoughCount elements;
};

struct ClassTable {
  ClassCut cut;
  std::array<ClassRow, kMaxClasses> rows{};

  std::size_t bytes() const { return 1 + 5 * std::size_t{cut.count}; }  // of its section
};

// The counts of one class in one superblock.
struct ClassCounts {
  std::uint32_t changes = 0;
  std::uint32_t exceptions = 0;  // steps whose sizes are coded: all changes if `all`
  std::uint32_t shift = 0;       // bits of a remainder of the ranks
};
using SuperCounts = std::array<ClassCounts, kMaxClasses>;

constexpr unsigned kMaxRankShift = 15;

// The shift of Golomb's rule for `count` ranks below `span` (0.481 = 31 / 64), at most the maximum
// of the format.
constexpr unsigned rank_shift(std::uint64_t span, std::uint64_t count) {
  if (count == 0 || 64 * count >= 31 * span) return 0;
  const unsigned shift = min_gap_shift(64 * count, 31 * span);
  return shift < kMaxRankShift ? shift : kMaxRankShift;
}

// Codes a count against its expectation. The coded number is small if the count is near it.
struct CountExpectation {
  std::uint64_t value;
  unsigned exponent;  // of the code

  // The deviation of independent events is about the square root.
  static constexpr CountExpectation of_events(std::uint64_t value) {
    return {value, bits_of(value) / 2};
  }

  constexpr std::uint64_t fold(std::uint64_t count) const {
    return count >= value ? 2 * (count - value) : 2 * (value - count) - 1;
  }
  // Wraps around if no count folds to `folded`; the caller checks the result.
  constexpr std::uint64_t unfold(std::uint64_t folded) const {
    return folded % 2 == 0 ? value + folded / 2 : value - (folded + 1) / 2;
  }
};

constexpr std::uint64_t scaled_count(RoughCount count, std::uint32_t elements) {
  return count.value() * elements / kMaxRanks;
}
constexpr CountExpectation expected_changes(const ClassRow& row, std::uint32_t elements) {
  return CountExpectation::of_events(scaled_count(row.changes, elements));
}
constexpr CountExpectation expected_exceptions(const ClassRow& row, std::uint32_t changes) {
  const std::uint64_t of_all = row.changes.value();
  return CountExpectation::of_events(row.exceptions.value() * changes / (of_all > 0 ? of_all : 1));
}
constexpr CountExpectation expected_shift(const ClassRow& row, std::uint32_t elements,
                                          std::uint32_t changes) {
  return {rank_shift(scaled_count(row.elements, elements), changes), 0};
}

// Calls visit(count, its expectation) for the numbers of a class block's head in their order. The
// changes of the last class follow from the total.
template <class Visit>
constexpr void for_each_class_number(const ClassTable& table, std::uint32_t elements,
                                     const SuperCounts& counts, Visit visit) {
  for (unsigned c = 0; c < table.cut.count; ++c) {
    const ClassRow& row = table.rows[c];
    const ClassCounts& own = counts[c];
    if (c + 1 < table.cut.count) visit(own.changes, expected_changes(row, elements));
    if (own.changes == 0) continue;
    if (!row.all) visit(own.exceptions, expected_exceptions(row, own.changes));
    visit(own.shift, expected_shift(row, elements, own.changes));
  }
}

// Reads these numbers. `changes`: the total of all classes, 1 to `elements`. read(exponent, number)
// reads the next number and returns whether there is one. Returns false if the numbers are
// impossible.
template <class Read>
constexpr bool read_class_numbers(const ClassTable& table, std::uint32_t elements,
                                  std::uint32_t changes, Read read, SuperCounts& counts) {
  const auto read_count = [&](const CountExpectation& expected, std::uint64_t most,
                              std::uint32_t& count) {
    std::uint64_t folded = 0;
    if (!read(expected.exponent, folded)) return false;
    const std::uint64_t value = expected.unfold(folded);
    count = static_cast<std::uint32_t>(value);
    return value <= most;
  };
  std::uint32_t left = changes;
  for (unsigned c = 0; c < table.cut.count; ++c) {
    const ClassRow& row = table.rows[c];
    ClassCounts& own = counts[c];
    own = {left, 0, 0};
    if (c + 1 < table.cut.count && !read_count(expected_changes(row, elements), left, own.changes))
      return false;
    left -= own.changes;
    if (own.changes == 0) continue;
    own.exceptions = own.changes;
    if (!row.all && !read_count(expected_exceptions(row, own.changes), own.changes, own.exceptions))
      return false;
    if (!read_count(expected_shift(row, elements, own.changes), kMaxRankShift, own.shift))
      return false;
  }
  return left == 0;
}

}  // namespace sparcl::kernels
