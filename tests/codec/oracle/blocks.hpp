#pragma once
// Blocks: where they lie, and what their contents say.

#include "tests/codec/oracle/frame.hpp"

namespace sparcl::oracle {

constexpr std::uint64_t kBlockElements = 65536;
constexpr std::uint64_t kMaxGroupChanges = 16384;

struct ElementKind {
  unsigned bytes;
  bool is_float;
  unsigned exponent_bits = 0;  // of floats of 16 bits and more
};

// Of a data type as in sparcl.h.
ElementKind element_kind(std::uint8_t data_type);

// Some of the elements of one array.
struct Piece {
  std::size_t array;
  std::uint64_t first;
  std::uint64_t count;
};

struct Block {
  std::uint64_t index;
  std::uint64_t elements;
  ElementKind kind;
  std::vector<Piece> pieces;
  std::uint64_t in_run = 0;  // its number in its run
};

std::vector<Block> cut_blocks(const std::vector<ArraySpec>& arrays);

std::vector<std::uint64_t> all_positions(const Block& block);

// Values of a block's elements, as unsigned numbers.
using Values = std::vector<std::uint64_t>;

Values load(const std::vector<Bytes>& arrays, const Block& block);
void store(std::vector<Bytes>& arrays, const Block& block, const Values& values);
Bytes as_bytes(const Values& values, const ElementKind& kind);

// What a block's content says: that its elements at `positions` have new values. Of a whole block
// (dense, fresh) these are all.
struct Changes {
  std::vector<std::uint64_t> positions;
  Values values;
  bool fresh = false;
  bool needs_base = false;  // they are found by what is held
  bool fits = true;         // and that can be the base
};

// A step d against an old value.
struct Step {
  bool negative = false;
  std::uint64_t size = 1;  // |d|
};

// Refuses what does not fit a type of so many bits.
void check_size(const Step& step, unsigned bits);
std::uint64_t add(std::uint64_t old, const Step& step, const ElementKind& kind);

// `old`: the values that the steps of a flat block are added to. content: behind the gap.
Changes read_block(unsigned mode, std::span<const std::byte> content, const Block& block,
                   const Values& old, Kind stream);

}  // namespace sparcl::oracle
