#pragma once
// Contracts of the kernels for exponent classes (docs/reference/wire-format.md). Elements of 16-bit
// floats are sorted into classes by the top eight bits of their magnitude, key(x) = (x + x) >> 8.
// An element's rank is its number within its class. Memory space: host.

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/bit_stream.hpp"

namespace sparcl::kernels {

constexpr unsigned kMaxClasses = 12;
constexpr std::uint32_t kMaxRanks = std::uint32_t{1} << 18;  // elements that are numbered together

// The class of a key is the first c with key >= lowest[c]. lowest descends strictly and ends with
// 0.
struct ClassCut {
  unsigned count = 0;
  std::array<std::uint8_t, kMaxClasses> lowest{};
};

// The next rank of each class. Starts as zeros. One numbering covers at most kMaxRanks elements.
using ClassRanks = std::array<std::uint32_t, kMaxClasses>;

// One byte for each rank. The bytes of class c begin at steps + c * kClassStride. The stride is no
// multiple of a page, so that classes do not share the sets of a cache. A kernel may touch 64 bytes
// after the last rank, but leaves them zero.
constexpr std::size_t kClassStride = std::size_t{kMaxRanks} + 64 * 7;
constexpr std::size_t kClassStepBytes = kMaxClasses * kClassStride;

// Magnitude of the byte if a step does not fit into it: |d| >= kFarStep.
constexpr int kFarStep = 127;

// As DiffValuesKernel for 16-bit elements. Also writes the steps (step.hpp) of all elements to
// their classes' bytes: d, or a byte of magnitude >= kFarStep if |d| >= kFarStep. The bytes from
// `ranks` on are zero before the call.
using DiffClassesKernel = std::size_t(const std::byte* base, const std::byte* target,
                                      std::size_t count, std::uint32_t first, const ClassCut& cut,
                                      ClassRanks& ranks, std::int8_t* steps,
                                      std::uint16_t* positions, std::byte* old_values,
                                      std::byte* new_values);

// The inverse. Finds the held elements, of `count`, whose byte at their rank is not zero. Writes
// first + i of each, ascending, and the byte. Room for count + kPositionSlack entries each. first +
// count <= 65536.
using FindStepsKernel = std::size_t(const std::byte* held, std::size_t count, std::uint32_t first,
                                    const ClassCut& cut, ClassRanks& ranks,
                                    const std::int8_t* steps, std::uint16_t* positions,
                                    std::int8_t* found_steps);

// The same, but adds the steps to the held elements directly. Steps of magnitude >= kFarStep are
// left to the caller: their first + i are written, ascending, to `far_places` (room for count +
// kPositionSlack). Unchanged elements may be rewritten with the same value.
struct AddedSteps {
  std::size_t found = 0;  // elements with a step
  std::size_t far = 0;    // those of them that are in far_places
  bool operator==(const AddedSteps&) const = default;
};
using AddClassStepsKernel = AddedSteps(std::byte* held, std::size_t count, std::uint32_t first,
                                       const ClassCut& cut, ClassRanks& ranks,
                                       const std::int8_t* steps, std::uint16_t* far_places);

// Lists as in bit_list.hpp, with ranks instead of positions: count <= kMaxRanks, 32 bits an entry,
// shift <= 15.
constexpr std::size_t kRankSlack =
    64;  // entries that a kernel may overwrite after the last that it returns

// Writes the indices of the nonzero bytes among the first `count`, ascending, and the bytes
// themselves. Then clears the bytes. Returns their number. `bytes` may be touched up to the next
// multiple of 64.
using TakeNonzeroKernel = std::size_t(std::int8_t* bytes, std::size_t count, std::uint32_t* places,
                                      std::int8_t* values);

// beyond[i] = |steps[i]| - 1, for steps that are not zero. Bit i of `negative` is the sign (room
// for count / 64 + 1 words; the remaining bits are zero).
using SplitByteStepsKernel = void(const std::int8_t* steps, std::size_t count, std::int8_t* beyond,
                                  std::uint64_t* negative);

// Marks count from mark_base on: one bitmap may hold several lists. Returns the start of the next
// list: the last mark + 1.
using SplitRanksKernel = std::uint32_t(const std::uint32_t* ranks, std::size_t count,
                                       unsigned shift, std::uint32_t mark_base,
                                       std::uint16_t* remainders, std::uint32_t* marks);

// Writes ranks modulo 2^32. Returns the last rank without the modulus.
using JoinRanksKernel = std::uint64_t(const std::uint16_t* remainders, const std::uint32_t* marks,
                                      std::size_t count, unsigned shift, std::uint32_t mark_base,
                                      std::uint32_t* ranks);

using WriteLongMarksKernel = void(const std::uint32_t* marks, std::size_t count, BitWriter& out);

// limit < 2^32.
using FindLongMarksKernel = std::size_t(const std::byte* bits, std::uint64_t bit,
                                        std::uint64_t limit, std::size_t count,
                                        std::uint32_t* marks);

// Reads numbers in the code of step magnitudes (docs/reference/wire-format.md: Steps). Their unary
// parts are known: `marks` are the indices of their ones, from mark_base on. Their suffixes follow
// each other from `bit` on. Returns false if a number has more than kMaxSizeZeros zeros; `sizes`
// (room for count + kRankSlack) is then undefined. exponent <= 7. All suffixes must be present,
// followed by kBitSlackBytes.
constexpr unsigned kMaxSizeZeros = 15;
using ReadSizesKernel = bool(const std::byte* bits, std::uint64_t bit, const std::uint32_t* marks,
                             std::size_t count, std::uint32_t mark_base, unsigned exponent,
                             std::uint32_t* sizes);

struct ClassKernels {
  DiffClassesKernel* diff;
  FindStepsKernel* find_steps;
  AddClassStepsKernel* add_steps;
  TakeNonzeroKernel* take_nonzero;
  SplitByteStepsKernel* split_steps;
  SplitRanksKernel* split_ranks;
  JoinRanksKernel* join_ranks;
  WriteLongMarksKernel* write_marks;
  FindLongMarksKernel* find_marks;
  ReadSizesKernel* read_sizes;
};

}  // namespace sparcl::kernels
