#pragma once
// The section of a table of classes (kernels/class_counts.hpp), and the head of a class block
// (docs/reference/wire-format.md).

#include <cstdint>
#include <span>

#include "kernels/class_counts.hpp"
#include "kernels/kernel_set.hpp"
#include "src/base/status.hpp"
#include "src/codec/split_rice.hpp"

namespace sparcl::codec {

// The key of a 16-bit float: the top eight bits of its magnitude.
constexpr std::uint8_t class_key(std::uint16_t value) {
  return static_cast<std::uint8_t>(static_cast<std::uint16_t>(value + value) >> 8);
}
inline unsigned class_of(const kernels::ClassCut& cut, std::uint16_t value) {
  unsigned c = 0;
  while (class_key(value) < cut.lowest[c]) ++c;
  return c;
}

using kernels::ClassCounts;
using kernels::ClassRow;
using kernels::ClassTable;
using kernels::rank_shift;
using kernels::RoughCount;
using kernels::SuperCounts;

constexpr std::size_t kMaxTableBytes = 1 + 5 * kernels::kMaxClasses;

void store(const ClassTable& table, std::byte* out);
// Returns nullptr, or a description of the error.
const char* parse(std::span<const std::byte> content, ClassTable& table);

// The bits of the counts after the change count.
std::uint64_t head_bits(const ClassTable& table, std::uint32_t elements, const SuperCounts& counts);
void write_head(const ClassTable& table, std::uint32_t elements, const SuperCounts& counts,
                kernels::BitWriter& out);
// `changes`: the total of all classes, 1 to `elements`. False if the bits hold no such counts.
bool read_head(const ClassTable& table, std::uint32_t elements, std::uint32_t changes,
               BitCursor& bits, SuperCounts& counts);

}  // namespace sparcl::codec
