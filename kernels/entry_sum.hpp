#pragma once
// Contracts of the kernels that sum sparse vectors, block by block. An entry is a position in a
// block of up to 65536 elements, with an accumulator (reduce.hpp) beside it. Positions ascend
// strictly in a list. Any alignment. Memory space: host. Runs under a FloatEnvironment. A list
// without an entry at a position contributes nothing, not even a zero. A single -0 is +0, as
// everywhere.

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/reduce.hpp"

namespace sparcl::kernels {

// Whether indices[i] < indices[i + 1] for all of them.
using AscendKernel = bool(const std::uint64_t* indices, std::size_t count);

// positions[i] = indices[i] modulo 65536
using LowerIndicesKernel = void(const std::uint64_t* indices, std::size_t count,
                                std::uint16_t* positions);

// Writes a bit for each of `elements` (a power of two, at least 64), set at the indices modulo
// `elements`. Indices ascend strictly.
using MarkIndicesKernel = void(const std::uint64_t* indices, std::size_t count,
                               std::size_t elements, std::byte* marks);

// The number of set bits; bytes: a multiple of 8.
using CountMarksKernel = std::size_t(const std::byte* marks, std::size_t bytes);

// The next four have a bit for each of `elements` (a multiple of 64) positions from `first` on.

// Sets the bits of positions, up to the first one that has none, or that is not larger than the one
// before it. Returns how many it has set.
using MarkPositionsKernel = std::size_t(const std::uint16_t* positions, std::size_t count,
                                        std::uint32_t first, std::size_t elements,
                                        std::uint32_t* marks);

// before[w] = the number of marks in the 32-bit words before word w. Returns that of all words.
using CountBeforeKernel = std::uint32_t(const std::uint32_t* marks, std::size_t words,
                                        std::uint32_t* before);

// ranks[i] = the number of marks below positions[i], which is marked. before: see
// CountBeforeKernel.
using RankPositionsKernel = void(const std::uint16_t* positions, std::size_t count,
                                 std::uint32_t first, const std::uint32_t* marks,
                                 const std::uint32_t* before, std::uint16_t* ranks);

// Writes the marked positions, and up to kEntrySlack undefined ones. Returns their number.
using ListMarksKernel = std::size_t(const std::uint32_t* marks, std::size_t elements,
                                    std::uint32_t first, std::uint16_t* positions);

// How outputs are written: kStreamed bypasses the caches, for outputs too large to stay in one.
enum class Output : std::uint8_t { kCached, kStreamed };

// indices[i] = base + positions[i]
using RaisePositionsKernel = void(const std::uint16_t* positions, std::size_t count,
                                  std::uint64_t base, Output output, std::uint64_t* indices);

// Copies bytes that do not overlap.
using CopyBytesKernel = void(const std::byte* from, std::size_t bytes, Output output,
                             std::byte* to);

struct EntryList {
  const std::uint16_t* positions = nullptr;
  const std::byte* accumulators = nullptr;
  std::size_t count = 0;
  const std::byte* marks =
      nullptr;  // without positions: a bit for each element, `count` of them set
};

// Functions that write entries may overwrite this many entries after the last.
constexpr std::size_t kEntrySlack = 64;

// The union of two lists; if both have an entry, a's accumulator is the first operand. Room for
// a.count + b.count + kEntrySlack. Returns its size.
using MergeEntriesKernel = std::size_t(const EntryList& a, const EntryList& b,
                                       std::uint16_t* positions, std::byte* accumulators);

// Sums of a stretch of a block, in memory that stays in the L1 cache. Its layout belongs to the
// body: a window is used with one KernelSet, type and operation.
constexpr std::size_t kWindowBytes = 16384;
struct alignas(kAccumulatorAlignment) Window {
  std::array<std::byte, kWindowBytes> accumulators;
  std::array<std::uint64_t, kWindowBytes / 64> present;
};

// Makes a window empty.
using ClearWindowKernel = void(Window& window);

// Adds entries while their positions are below first + elements. first: the position of the
// window's first element. elements: at most kWindowBytes / accumulator_bytes, and a multiple of 64.
// Returns how many were added.
using AddEntriesKernel = std::size_t(const EntryList& entries, std::uint32_t first,
                                     std::size_t elements, Window& window);

// The same for entries of a list with marks, from the bit of the window's first element on.
// elements: a multiple of 64.
using AddMarkedKernel = std::size_t(const EntryList& entries, std::size_t elements, Window& window);

// into op= other. `other` is empty afterwards.
using FoldWindowKernel = void(Window& into, Window& other, std::size_t elements);

// Appends the window's entries, with room for `elements` + kEntrySlack. The window is empty
// afterwards. Returns their number.
using TakeEntriesKernel = std::size_t(Window& window, std::uint32_t first, std::size_t elements,
                                      std::uint16_t* positions, std::byte* accumulators);

// The same with a bit for each element of the window instead of positions.
using TakeMarkedKernel = std::size_t(Window& window, std::size_t elements, std::byte* marks,
                                     std::byte* accumulators);

struct SparseSumKernels {  // for one data type and operation
  MergeEntriesKernel* merge;
  ClearWindowKernel* clear;
  AddEntriesKernel* add;
  AddMarkedKernel* add_marked;
  FoldWindowKernel* fold;
  TakeEntriesKernel* take;
  TakeMarkedKernel* take_marked;
  bool takes_values;  // accumulators may be values that are not widened
};

struct EntryKernels {
  AscendKernel* ascend;
  LowerIndicesKernel* lower_indices;
  MarkIndicesKernel* mark_indices;
  CountMarksKernel* count_marks;
  RaisePositionsKernel* raise_positions;
  CopyBytesKernel* copy_bytes;
  MarkPositionsKernel* mark_positions;
  CountBeforeKernel* count_before;
  RankPositionsKernel* rank_positions;
  ListMarksKernel* list_marks;
  // By the number of the data type and the ReduceOp; empty if not supported.
  std::array<std::array<SparseSumKernels, kReduceOps>,
             static_cast<std::size_t>(DataType::kBool) + 1>
      sums;
};

}  // namespace sparcl::kernels
