#include "tests/codec/oracle/class_blocks.hpp"

#include <algorithm>
#include <bit>

#include "tests/codec/oracle/lists.hpp"

namespace sparcl::oracle {
namespace {

constexpr std::uint64_t kRoom = std::uint64_t{1} << 18;

std::uint64_t rough(std::uint64_t c) {
  const std::uint64_t value = c < 8 ? c : (8 + c % 8) << (c / 8 - 1);
  refuse_if(value > kRoom, "a class expects more than 2^18");
  return value;
}

unsigned remainder_bits(std::uint64_t span, std::uint64_t count) {
  unsigned l = 0;
  while (l < 15 && (64 * count) << l < 31 * span) ++l;
  return l;
}

// A count, coded by what was expected.
std::uint64_t read_count(BitCursor& bits, std::uint64_t expected, unsigned e, std::uint64_t most) {
  const std::uint64_t f = read_magnitudes(bits, 1, e).front();
  const std::uint64_t half = f / 2 + f % 2;
  refuse_if(f % 2 == 1 && half > expected, "a count below zero");
  const std::uint64_t count = f % 2 == 0 ? expected + half : expected - half;
  refuse_if(count > most, "a count of a class is too large");
  return count;
}

unsigned half_width(std::uint64_t expected) {
  return static_cast<unsigned>(std::bit_width(expected)) / 2;
}

struct Counts {
  std::uint64_t changes = 0;
  std::uint64_t exceptions = 0;
  unsigned l = 0;
};

std::vector<Counts> read_counts(BitCursor& bits, const ClassTable& table, std::uint64_t elements,
                                std::uint64_t changes) {
  std::vector<Counts> counts(table.size());
  std::uint64_t left = changes;
  for (std::size_t c = 0; c < table.size(); ++c) {
    const ExponentClass& of = table[c];
    Counts& own = counts[c];
    const std::uint64_t expected = of.changes * elements / kRoom;
    own.changes =
        c + 1 == table.size() ? left : read_count(bits, expected, half_width(expected), left);
    left -= own.changes;
    if (own.changes == 0) continue;
    own.exceptions = own.changes;
    const std::uint64_t exceptions =
        of.exceptions * own.changes / std::max<std::uint64_t>(of.changes, 1);
    if (!of.all) own.exceptions = read_count(bits, exceptions, half_width(exceptions), own.changes);
    own.l = static_cast<unsigned>(
        read_count(bits, remainder_bits(of.elements * elements / kRoom, own.changes), 0, 15));
  }
  return counts;
}

std::size_t class_of(const ClassTable& table, std::uint64_t old) {
  const std::uint64_t key = (old + old) % 65536 >> 8;
  std::size_t c = 0;
  while (key < table[c].lowest) ++c;
  return c;
}

// Of one class, in the order of ranks.
struct ClassChanges {
  std::vector<std::uint64_t> ranks;
  std::vector<Step> steps;
};

std::vector<ClassChanges> read_class_changes(BitCursor& bits, const ClassTable& table,
                                             std::uint64_t elements, std::uint64_t changes) {
  const std::vector<Counts> counts = read_counts(bits, table, elements, changes);
  std::vector<ClassChanges> classes(table.size());
  std::vector<PositionList> ranks, exceptions;
  for (std::size_t c = 0; c < table.size(); ++c) {
    const std::uint64_t listed = table[c].all ? 0 : counts[c].exceptions;
    ranks.emplace_back(elements, counts[c].changes, counts[c].l);
    exceptions.emplace_back(counts[c].changes, listed, remainder_bits(counts[c].changes, listed));
    classes[c].steps.resize(counts[c].changes);
  }
  for (PositionList& list : ranks) list.read_planes(bits);
  for (ClassChanges& each : classes) {
    for (Step& step : each.steps) step.negative = bits.bit();
  }
  for (PositionList& list : ranks) list.read_unary(bits);
  for (PositionList& list : exceptions) list.read_planes(bits);
  for (PositionList& list : exceptions) list.read_unary(bits);

  std::vector<unsigned> exponents;
  for (std::size_t c = 0; c < table.size(); ++c)
    exponents.insert(exponents.end(), counts[c].exceptions, table[c].e);
  const Values sizes = read_magnitudes(bits, exponents);
  bits.end();
  std::size_t next = 0;
  for (std::size_t c = 0; c < table.size(); ++c) {
    for (std::uint64_t i = 0; i < counts[c].exceptions; ++i) {
      Step& step = classes[c].steps[table[c].all ? i : exceptions[c].positions()[i]];
      refuse_if(sizes[next] > kRoom, "a step leaves the range of its type");
      step.size = sizes[next++] + (table[c].all ? 1 : 2);
    }
    for (const Step& step : classes[c].steps) check_size(step, 16);
    classes[c].ranks = ranks[c].positions();
  }
  return classes;
}

}  // namespace

ClassTable read_class_table(std::span<const std::byte> content) {
  ByteCursor in(content);
  const std::uint64_t count = in.number(1);
  refuse_if(count == 0 || count > 12, "no number of classes");
  ClassTable table;
  for (std::uint64_t c = 0; c < count; ++c) {
    const std::uint64_t lowest = in.number(1);
    const std::uint64_t parameters = in.number(1);
    refuse_if(c > 0 && lowest >= table.back().lowest, "classes do not descend");
    refuse_if((lowest == 0) != (c + 1 == count), "classes do not end at 0");
    refuse_if(parameters >= 0x10, "parameters of a class that are not defined");
    const std::uint64_t changes = rough(in.number(1));
    const std::uint64_t exceptions = rough(in.number(1));
    const std::uint64_t elements = rough(in.number(1));
    refuse_if(exceptions > changes, "a class expects more exceptions than changes");
    table.push_back({lowest, static_cast<unsigned>(parameters & 7), (parameters & 8) != 0, changes,
                     exceptions, elements});
  }
  refuse_if(in.left() > 0, "a class table has bytes left over");
  return table;
}

SuperChanges read_superblock(std::span<const std::byte> content, const ClassTable& table,
                             const std::vector<Block>& blocks, const std::vector<Values>& olds) {
  refuse_if(content.size() < 2, "a block is cut off before its old check");
  std::uint64_t elements = 0;
  for (const Block& block : blocks) elements += block.elements;
  ByteCursor in(content.first(content.size() - 2));
  SuperChanges super;
  super.count = in.varint();
  refuse_if(super.count == 0 || super.count > elements, "a superblock's change count is none");
  BitCursor bits(in.take(in.left()));
  const std::vector<ClassChanges> classes = read_class_changes(bits, table, elements, super.count);

  std::vector<std::uint64_t> rank(table.size(), 0);  // of the next element
  std::vector<std::size_t> change(table.size(), 0);  // that comes next
  std::uint64_t found = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    Changes& changes = super.changes.emplace_back();
    for (std::uint64_t i = 0; i < blocks[b].elements; ++i) {
      const std::size_t c = class_of(table, olds[b][i]);
      const ClassChanges& own = classes[c];
      const bool changed = change[c] < own.ranks.size() && own.ranks[change[c]] == rank[c];
      ++rank[c];
      if (!changed) continue;
      changes.positions.push_back(i);
      changes.values.push_back(add(olds[b][i], own.steps[change[c]++], blocks[b].kind));
      ++found;
    }
  }
  super.fits = found == super.count;
  return super;
}

}  // namespace sparcl::oracle
