#pragma once
// The exponent classes in use, and what is expected of a superblock in each: its section, and the head of a class block
// (docs/wire-format.md).

#include <array>
#include <cstdint>
#include <span>

#include "kernels/kernel_set.hpp"
#include "src/base/status.hpp"
#include "src/codec/split_rice.hpp"

namespace sparcl::codec {

// Of a 16-bit float: the top eight bits of its magnitude.
constexpr std::uint8_t class_key(std::uint16_t value) {
  return static_cast<std::uint8_t>(static_cast<std::uint16_t>(value + value) >> 8);
}
inline unsigned class_of(const kernels::ClassCut& cut, std::uint16_t value) {
  unsigned c = 0;
  while (class_key(value) < cut.lowest[c]) ++c;
  return c;
}

// A count as eight bits, 6 % apart: exact below 16.
struct RoughCount {
  std::uint8_t code = 0;

  static RoughCount of(std::uint64_t count);
  constexpr std::uint64_t value() const { return code < 8 ? code : std::uint64_t{8u + code % 8u} << (code / 8 - 1); }
};

struct ClassRow {
  bool all = false;           // sizes of all steps are coded, not of those alone that are not 1
  std::uint8_t exponent = 0;  // of their codes, at most 7
  // In a superblock of kMaxRanks elements.
  RoughCount changes;
  RoughCount exceptions;
  RoughCount elements;
};

struct ClassTable {
  kernels::ClassCut cut;
  std::array<ClassRow, kernels::kMaxClasses> rows{};

  std::size_t bytes() const { return 1 + 5 * std::size_t{cut.count}; }
};

constexpr std::size_t kMaxTableBytes = 1 + 5 * kernels::kMaxClasses;

void store(const ClassTable& table, std::byte* out);
// nullptr, or what is wrong with it.
const char* parse(std::span<const std::byte> content, ClassTable& table);

// Of one class in one superblock.
struct ClassCounts {
  std::uint32_t changes = 0;
  std::uint32_t exceptions = 0;  // whose sizes are coded: changes where `all`
  std::uint32_t shift = 0;       // bits of a remainder of the ranks
};
using SuperCounts = std::array<ClassCounts, kernels::kMaxClasses>;

// The counts behind the change count, as bits.
std::uint64_t head_bits(const ClassTable& table, std::uint32_t elements, const SuperCounts& counts);
void write_head(const ClassTable& table, std::uint32_t elements, const SuperCounts& counts, kernels::BitWriter& out);
// `changes`: of all classes together, 1 to `elements`. False if the bits hold no such counts.
bool read_head(const ClassTable& table, std::uint32_t elements, std::uint32_t changes, BitCursor& bits, SuperCounts& counts);

// As rice_shift, but at most what the format has room for.
unsigned rank_shift(std::uint64_t span, std::uint64_t count);

}  // namespace sparcl::codec
