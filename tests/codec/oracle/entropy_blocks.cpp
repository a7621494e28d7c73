#include "tests/codec/oracle/entropy_blocks.hpp"

#include <algorithm>
#include <array>

#include "tests/codec/oracle/lists.hpp"

namespace sparcl::oracle {
namespace {

constexpr std::uint64_t kSlots = 2048;
constexpr std::uint64_t kMinState = 1 << 15;

using Table = std::array<std::uint64_t, 256>;  // frequencies

Table read_table(BitCursor& bits) {
  Table table{};
  const std::uint64_t first = bits.number(8);
  const std::uint64_t last = bits.number(8);
  refuse_if(last < first, "a table ends before it begins");
  std::uint64_t sum = 0;
  for (std::uint64_t symbol = first; symbol <= last; ++symbol) {
    const std::uint64_t zeros = bits.unary();
    refuse_if(zeros > 11, "a frequency of more than 11 bits");
    table[symbol] = (std::uint64_t{1} << zeros) + bits.number(static_cast<unsigned>(zeros)) - 1;
    sum += table[symbol];
  }
  refuse_if(sum != kSlots, "frequencies have another sum");
  return table;
}

// Tables in one bit string, which ends with its byte.
std::vector<Table> read_tables(ByteCursor& in, std::size_t count) {
  ByteCursor ahead = in;
  const std::span<const std::byte> rest = ahead.take(ahead.left());
  BitCursor bits(rest);
  std::vector<Table> tables;
  for (std::size_t i = 0; i < count; ++i) tables.push_back(read_table(bits));
  while (bits.at() % 8 != 0) refuse_if(bits.bit(), "bits after the tables");
  in.take(bits.at() / 8);
  return tables;
}

struct Stream {
  std::array<std::uint64_t, 32> states;
  std::vector<std::uint64_t> words;
};

Stream read_stream(ByteCursor& in, std::uint64_t symbols) {
  Stream stream;
  const std::uint64_t words = in.varint();
  refuse_if(words > symbols, "more words than symbols");
  for (std::uint64_t& state : stream.states) {
    state = in.number(4);
    refuse_if(state < kMinState || state >= std::uint64_t{1} << 31, "a state out of its range");
  }
  refuse_if(in.left() < 2 * words, "a stream is cut off");
  for (std::uint64_t i = 0; i < words; ++i) stream.words.push_back(in.number(2));
  return stream;
}

// tables[i]: that of symbol i. False if the stream does not end as it began.
bool take_symbols(Stream stream, const std::vector<const Table*>& tables,
                  std::vector<std::uint64_t>& symbols) {
  std::size_t used = 0;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    std::uint64_t& x = stream.states[i % 32];
    const Table& table = *tables[i];
    const std::uint64_t slot = x % kSlots;
    std::uint64_t symbol = 0;
    std::uint64_t start = 0;
    while (slot >= start + table[symbol]) start += table[symbol++];
    symbols.push_back(symbol);
    x = table[symbol] * (x / kSlots) + slot - start;
    if (x >= kMinState) continue;
    if (used == stream.words.size()) return false;
    x = (x << 16) + stream.words[used++];
  }
  return used == stream.words.size() && std::all_of(stream.states.begin(), stream.states.end(),
                                                    [](std::uint64_t x) { return x == kMinState; });
}

std::uint64_t key_of(std::uint64_t old, const ElementKind& kind) {
  if (!kind.is_float) return 0;
  if (kind.bytes == 8) {
    const std::uint64_t exponent = old >> 52 & 0x7ff;
    return std::min<std::uint64_t>(exponent < 896 ? 0 : exponent - 896, 255);
  }
  return (old << 1 >> (8 * kind.bytes - 8)) & 0xff;
}

// Of element after element: is it changed, and how. False if that is not possible.
bool read_code_steps(BitCursor& bits, const std::vector<std::uint64_t>& tokens, std::uint64_t count,
                     const Block& block, const Values& old, Changes& changes) {
  std::vector<bool> negative;
  for (std::uint64_t i = 0; i < count; ++i) negative.push_back(bits.bit());
  for (std::uint64_t i = 0; i < block.elements; ++i) {
    const std::uint64_t t = tokens[i];
    if (t == 0) continue;
    if (changes.positions.size() == count) return false;
    Step step{negative[changes.positions.size()], t};
    if (t >= 4)
      step.size = ((2 + t % 2) << (t / 2 - 1)) + bits.number(static_cast<unsigned>(t / 2 - 1));
    check_size(step, 8 * block.kind.bytes);
    changes.positions.push_back(i);
    changes.values.push_back(add(old[i], step, block.kind));
  }
  bits.end();
  return changes.positions.size() == count;
}

}  // namespace

Changes read_packed(std::span<const std::byte> content, const Block& block, bool fresh) {
  const unsigned width = 8 * block.kind.bytes;
  ByteCursor in(content);
  const std::uint64_t planes = in.number(1);
  refuse_if(planes >> block.kind.bytes != 0, "a plane that there is not");
  std::size_t coded = 0;
  for (unsigned j = 0; j < block.kind.bytes; ++j) coded += planes >> j & 1;
  const std::vector<Table> tables = read_tables(in, coded);
  Values values(block.elements, 0);
  auto table = tables.begin();
  for (unsigned j = 0; j < block.kind.bytes; ++j) {
    std::vector<std::uint64_t> symbols;
    if ((planes >> j & 1) == 0) {
      for (std::uint64_t i = 0; i < block.elements; ++i) symbols.push_back(in.number(1));
    } else {
      const Stream stream = read_stream(in, block.elements);
      const std::vector<const Table*> same(block.elements, &*table++);
      refuse_if(!take_symbols(stream, same, symbols), "a plane's stream does not end as it should");
    }
    for (std::uint64_t i = 0; i < block.elements; ++i) values[i] |= symbols[i] << (8 * j);
  }
  refuse_if(in.left() > 0, "a packed block has bytes left over");
  Changes changes;
  changes.fresh = fresh;
  for (std::uint64_t& value : values) {
    if (block.kind.is_float) value = value >> 1 | (value & 1) << (width - 1);
  }
  changes.positions = all_positions(block);
  changes.values = std::move(values);
  return changes;
}

Changes read_coded(std::span<const std::byte> content, const Block& block, const Values& old) {
  ByteCursor in(content);
  const std::uint64_t count = in.varint();
  refuse_if(count == 0 || count > block.elements, "a block's change count is none");
  const std::uint64_t bound_count = in.number(1);
  refuse_if(bound_count > 15, "too many contexts");
  std::vector<std::uint64_t> bounds;
  for (std::uint64_t i = 0; i < bound_count; ++i) {
    bounds.push_back(in.number(1));
    refuse_if(bounds[i] <= (i == 0 ? 0 : bounds[i - 1]), "bounds do not ascend");
  }
  const std::vector<Table> tables = read_tables(in, bounds.size() + 1);
  for (const Table& table : tables) {
    for (std::size_t t = 2 * 8 * std::size_t{block.kind.bytes}; t < table.size(); ++t) {
      refuse_if(table[t] != 0, "a symbol for steps larger than the type");
    }
  }
  const Stream stream = read_stream(in, block.elements);
  refuse_if(8 * in.left() < count, "a block is cut off inside its signs");

  std::vector<const Table*> chosen;
  for (const std::uint64_t value : old) {
    const std::uint64_t key = key_of(value, block.kind);
    chosen.push_back(&tables[static_cast<std::size_t>(std::count_if(
        bounds.begin(), bounds.end(), [&](std::uint64_t bound) { return bound <= key; }))]);
  }
  Changes changes;
  changes.needs_base = true;
  std::vector<std::uint64_t> tokens;
  changes.fits = take_symbols(stream, chosen, tokens);
  if (changes.fits) {
    try {
      BitCursor bits(in.take(in.left()));
      changes.fits = read_code_steps(bits, tokens, count, block, old, changes);
    } catch (const Refusal&) {
      changes.fits = false;
    }
  }
  if (changes.fits) return changes;
  changes.positions.clear();
  changes.values.clear();
  for (std::uint64_t i = 0; i < count; ++i) {  // so many elements are counted, and none changes
    changes.positions.push_back(i);
    changes.values.push_back(old[i]);
  }
  return changes;
}

}  // namespace sparcl::oracle
