#include "src/codec/class_choice.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <vector>

#include "src/base/bytes.hpp"

namespace sparcl::codec {
namespace {

constexpr unsigned kExponents = 8;               // of the size codes: 0 to 7
constexpr std::uint64_t kHeadBitsOfAClass = 14;  // in each superblock; measured
constexpr std::uint64_t kTableBitsOfAClass = 8 * 5;
constexpr std::uint64_t kFinestShare =
    64;  // keys with less than 1 / 64 of elements and changes are joined with the next

// Sums over the lower keys, so that an interval of keys is a difference.
struct Totals {
  std::uint64_t elements = 0;
  std::uint64_t changes = 0;
  std::uint64_t exceptions = 0;
  std::array<std::uint64_t, kExponents> listed_bits{};
  std::array<std::uint64_t, kExponents> all_bits{};

  void add(const ClassSample::Key& key);
  Totals operator-(const Totals& other) const;
};

// Estimated bits of sizes with exponent e, exact except for sizes next to a power of two (see
// mode_flat.cpp).
std::uint64_t size_bits(const std::array<std::uint32_t, ClassSample::kWidths>& widths, unsigned e) {
  std::uint64_t bits = 0;
  for (unsigned b = 0; b < widths.size(); ++b) {
    const unsigned scaled = std::max(b, e) + (b == e && b > 0 ? 1 : 0);
    bits += widths[b] * std::uint64_t{2 * scaled - e + 1};
  }
  return bits;
}

void Totals::add(const ClassSample::Key& key) {
  elements += key.elements;
  changes += key.changes;
  exceptions += key.exceptions;
  if (key.changes == 0) return;
  for (unsigned e = 0; e < kExponents; ++e) {
    listed_bits[e] += size_bits(key.listed, e);
    all_bits[e] += size_bits(key.all, e);
  }
}

Totals Totals::operator-(const Totals& other) const {
  Totals result = *this;
  result.elements -= other.elements;
  result.changes -= other.changes;
  result.exceptions -= other.exceptions;
  for (unsigned e = 0; e < kExponents; ++e) {
    result.listed_bits[e] -= other.listed_bits[e];
    result.all_bits[e] -= other.all_bits[e];
  }
  return result;
}

// The bits of `count` positions spread over `span`: the remainders, a 1 for each, and the zeros,
// which are the sum of the quotients. A remainder of a geometric distribution has a mean a little
// below the middle: lower by count 2^shift / span twelfths of 2^shift.
std::uint64_t list_bits(std::uint64_t span, std::uint64_t count) {
  if (count == 0) return 0;
  const unsigned shift = rank_shift(span, count);
  const std::uint64_t remainders = shift == 0 ? 0 : count * ((std::uint64_t{1} << shift) - 1) / 2;
  const std::uint64_t zeros = span - count > remainders ? (span - count - remainders) >> shift : 0;
  const std::uint64_t below_middle = shift == 0 ? 0 : ((count * count / span) << shift) / 12;
  return count * (shift + 1) + zeros + below_middle;
}

struct Sizes {
  bool all = false;
  unsigned exponent = 0;
  std::uint64_t bits = 0;
};

Sizes choose_sizes(const Totals& totals) {
  const std::uint64_t list = list_bits(totals.changes, totals.exceptions);
  Sizes best{false, 0, std::numeric_limits<std::uint64_t>::max()};
  for (const bool all : {false, true}) {
    for (unsigned e = 0; e < kExponents; ++e) {
      const std::uint64_t bits = all ? totals.all_bits[e] : list + totals.listed_bits[e];
      if (bits < best.bits) best = {all, e, bits};
    }
  }
  return best;
}

std::uint64_t class_bits(const Totals& totals, const Sizes& sizes) {
  return list_bits(totals.elements, totals.changes) + totals.changes + sizes.bits;
}

// Keys from the top down, joined until each group is worth a boundary: the search time is quadratic
// in the number of groups.
struct Groups {
  std::vector<std::uint8_t> lowest;  // lowest key of each group
  std::vector<Totals> before;        // of all groups before each, and of all groups

  explicit Groups(const ClassSample& sample) : before(1) {
    Totals sum;
    for (unsigned key = 256; key-- > 0;) {
      sum.add(sample.key(key));
      const Totals& last = before.back();
      const bool worth = (sum.elements - last.elements) * kFinestShare >= sample.elements() ||
                         (sum.changes - last.changes) * kFinestShare >=
                             std::max<std::uint64_t>(sample.changes(), 1);
      if (!worth && key > 0) continue;
      lowest.push_back(static_cast<std::uint8_t>(key));
      before.push_back(sum);
    }
  }
};

RoughCount expected(std::uint64_t count, const ClassSample& sample) {
  return RoughCount::of(count * kernels::kMaxRanks / std::max<std::uint64_t>(sample.elements(), 1));
}

ClassRow row_of(const Totals& totals, const ClassSample& sample) {
  const Sizes sizes = choose_sizes(totals);
  return {sizes.all, static_cast<std::uint8_t>(sizes.exponent), expected(totals.changes, sample),
          sizes.all ? RoughCount{} : expected(totals.exceptions, sample),
          expected(totals.elements, sample)};
}

}  // namespace

void ClassSample::add(const std::byte* base, const std::byte* target, std::size_t count) {
  elements_ += count;
  constexpr std::size_t kAtOnce = kTables;  // in one load
  std::size_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
    const auto olds = load_le<std::uint64_t>(base + 2 * i);
    const auto news = load_le<std::uint64_t>(target + 2 * i);
    for (std::size_t j = 0; j < kAtOnce; ++j)
      ++key_elements_[j][class_key(static_cast<std::uint16_t>(olds >> (16 * j)))];
    if (olds == news) continue;
    for (std::size_t j = 0; j < kAtOnce; ++j) {
      add_change(static_cast<std::uint16_t>(olds >> (16 * j)),
                 static_cast<std::uint16_t>(news >> (16 * j)));
    }
  }
  for (; i < count; ++i) {
    const auto old_value = load_le<std::uint16_t>(base + 2 * i);
    ++key_elements_[0][class_key(old_value)];
    add_change(old_value, load_le<std::uint16_t>(target + 2 * i));
  }
}

void ClassSample::add(unsigned key, std::uint32_t elements, const std::uint32_t* listed,
                      const std::uint32_t* all) {
  elements_ += elements;
  key_elements_[0][key] += elements;
  Key& own = keys_[key];
  for (unsigned width = 0; width < kWidths; ++width) {
    own.listed[width] += listed[width];
    own.exceptions += listed[width];
    own.all[width] += all[width];
    own.changes += all[width];
    changes_ += all[width];
  }
}

void ClassSample::add_change(std::uint16_t old_value, std::uint16_t new_value) {
  if (old_value == new_value) return;
  const auto ord = [](std::uint16_t bits) {
    return static_cast<std::uint16_t>((bits & 0x8000) ? ~bits : bits | 0x8000);
  };
  const auto size =
      static_cast<unsigned>(std::abs(static_cast<std::int16_t>(ord(new_value) - ord(old_value))));
  Key& key = keys_[class_key(old_value)];
  ++changes_;
  ++key.changes;
  ++key.all[static_cast<std::size_t>(std::bit_width(size | 1)) - 1];
  if (size == 1) return;
  ++key.exceptions;
  ++key.listed[static_cast<std::size_t>(std::bit_width((size - 1) | 1)) - 1];
}

ClassSample::Key ClassSample::key(unsigned i) const {
  Key key = keys_[i];
  for (const auto& table : key_elements_) key.elements += table[i];
  return key;
}

std::uint64_t overhead_bits(unsigned classes, const ClassSample& sample,
                            std::uint64_t region_elements) {
  const std::uint64_t superblocks = (region_elements + kernels::kMaxRanks - 1) / kernels::kMaxRanks;
  const std::uint64_t bits = classes * (kTableBitsOfAClass + kHeadBitsOfAClass * superblocks);
  return bits * sample.elements() / std::max<std::uint64_t>(region_elements, 1);
}

ClassChoice choose_classes(const ClassSample& sample, std::uint64_t region_elements) {
  const Groups groups(sample);
  const std::size_t count = groups.lowest.size();
  // fewest[n][j]: bits of the first j groups in n + 1 classes; from[n][j]: the start of the last of
  // these classes.
  std::array<std::vector<std::uint64_t>, kMaxChosen> fewest;
  std::array<std::vector<std::size_t>, kMaxChosen> from;
  for (unsigned n = 0; n < kMaxChosen; ++n) {
    fewest[n].assign(count + 1, std::numeric_limits<std::uint64_t>::max() / 2);
    from[n].assign(count + 1, 0);
  }
  for (std::size_t last = 1; last <= count; ++last) {
    for (std::size_t first = 0; first < last; ++first) {
      const Totals totals = groups.before[last] - groups.before[first];
      const std::uint64_t own = class_bits(totals, choose_sizes(totals));
      if (first == 0) fewest[0][last] = own;
      for (unsigned n = 1; n < kMaxChosen && first > 0; ++n) {
        if (fewest[n - 1][first] + own >= fewest[n][last]) continue;
        fewest[n][last] = fewest[n - 1][first] + own;
        from[n][last] = first;
      }
    }
  }
  unsigned best = 0;
  const auto total = [&](unsigned n) {
    return fewest[n][count] + overhead_bits(n + 1, sample, region_elements);
  };
  for (unsigned n = 1; n < kMaxChosen; ++n) best = total(n) < total(best) ? n : best;

  ClassChoice choice;
  choice.sample_bits = fewest[best][count];
  choice.table.cut.count = best + 1;
  std::size_t last = count;
  for (unsigned c = best + 1; c-- > 0;) {
    const std::size_t first = from[c][last];
    choice.table.cut.lowest[c] = groups.lowest[last - 1];
    choice.table.rows[c] = row_of(groups.before[last] - groups.before[first], sample);
    last = first;
  }
  return choice;
}

std::uint64_t sample_bits(const ClassTable& table, const ClassSample& sample) {
  std::uint64_t bits = 0;
  unsigned key = 256;
  for (unsigned c = 0; c < table.cut.count; ++c) {
    Totals totals;
    while (key > table.cut.lowest[c]) totals.add(sample.key(--key));
    const ClassRow& row = table.rows[c];
    const std::uint64_t sizes =
        row.all ? totals.all_bits[row.exponent]
                : list_bits(totals.changes, totals.exceptions) + totals.listed_bits[row.exponent];
    bits += class_bits(totals, {row.all, row.exponent, sizes});
  }
  return bits;
}

}  // namespace sparcl::codec
