#include "src/sparse/parts/block_sum.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sparcl::sparse {
namespace {

using kernels::EntryList;
using kernels::kEntrySlack;
using kernels::Window;

// The cost of merging depends on entries and lists, that of windows on elements. From this many
// merged entries in a hundred elements on, windows are faster (figures: bench_sparse_sum).
constexpr std::size_t kMergedPerHundred = 4;

// For a tree of several lists and up to this many entries in a hundred elements, windows of the
// union's elements alone are faster: 8 lists of 1 % take 0.55 of the time (bench_sparse_sum).
constexpr std::size_t kRankedPerHundred = 25;
constexpr std::size_t kRankedLists = 4;

constexpr std::size_t kMaxLevels = 66;
std::size_t tree_levels(std::size_t ranks) {
  return static_cast<std::size_t>(std::bit_width(ranks)) + 1;
}

// The list after its first `entries` entries, which lie in its first `elements` elements.
EntryList after(const EntryList& list, std::size_t entries, std::size_t elements,
                std::size_t width) {
  const bool is_marked = list.marks != nullptr;
  return {is_marked ? nullptr : list.positions + entries, list.accumulators + entries * width,
          list.count - entries, is_marked ? list.marks + elements / 8 : nullptr};
}

// Visits the tree over ranks from the left, as a binary counter. Calls leaf(rank, level), then
// fold(level, is_last) for the sums on `level` and on the level above it. The result is on level 0.
template <class Leaf, class Fold>
void for_tree(std::size_t ranks, Leaf&& leaf, Fold&& fold) {
  std::array<std::size_t, kMaxLevels> ranks_of{};
  std::size_t top = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    leaf(rank, top);
    ranks_of[top++] = 1;
    for (; top > 1 && ranks_of[top - 2] == ranks_of[top - 1]; --top) {
      fold(top - 2, top == 2 && 2 * ranks_of[0] == ranks);
      ranks_of[top - 2] *= 2;
    }
  }
  for (; top > 1; --top) fold(top - 2, top == 2);
}

}  // namespace

BlockSum::BlockSum(const kernels::KernelSet& kernels, DataType datatype, kernels::ReduceOp op,
                   Determinism determinism, std::size_t ranks)
    : kernels_(kernels.sparse_sum_of(datatype, op)),
      entry_kernels_(kernels.entries),
      determinism_(determinism),
      width_(kernels.reduce_of(datatype).accumulator_bytes),
      scratch_(tree_levels(ranks) + 1),
      windows_(std::make_unique_for_overwrite<Window[]>(tree_levels(ranks))) {
  for (std::size_t i = 0; i < tree_levels(ranks); ++i) kernels_.clear(windows_[i]);
}

BlockSum::Union BlockSum::sum(std::span<const EntryList> by_rank, const BlockRun& run,
                              std::uint64_t block, std::byte* places, std::byte* accumulators) {
  const std::uint32_t elements = run.block_elements();
  std::size_t entries = 0, lists = 0;
  bool has_marks = false;
  for (const EntryList& list : by_rank) {
    entries += list.count;
    lists += list.count > 0 ? 1 : 0;
    has_marks |= list.marks != nullptr;
  }
  const std::size_t merged = entries * (tree_levels(lists) - 2);
  if (!has_marks && (lists < 2 || 100 * merged < kMergedPerHundred * elements))
    return {merge_all(by_rank, reinterpret_cast<std::uint16_t*>(places), accumulators), false};
  const bool is_marked = has_marks || entries > run.max_positions();
  if (!has_marks && determinism_ == Determinism::kCanonical && lists >= kRankedLists &&
      100 * entries < kRankedPerHundred * elements)
    return sum_ranks(by_rank, run.first_position(block), elements, entries, is_marked, places,
                     accumulators);
  return {
      sum_windows(by_rank, run.first_position(block), elements, is_marked, places, accumulators),
      is_marked};
}

// Along the tree: complete lists are merged as often as windows are folded.
std::size_t BlockSum::merge_all(std::span<const EntryList> by_rank, std::uint16_t* positions,
                                std::byte* accumulators) {
  struct Merged {
    EntryList list;
    Scratch* scratch = nullptr;  // owns its memory; nullptr: the caller does
  };
  std::array<Merged, kMaxLevels> levels;
  std::vector<Scratch*> free;
  for (Scratch& each : scratch_) free.push_back(&each);
  std::size_t size = 0;
  const auto release = [&](const Merged& merged) {
    if (merged.scratch != nullptr) free.push_back(merged.scratch);
  };
  const auto fold = [&](std::size_t level, bool is_last) {
    Merged &a = levels[level], &b = levels[level + 1];
    if (b.list.count == 0) return release(b);
    if (a.list.count == 0) {
      release(a);
      a = b;
      return;
    }
    if (is_last) {
      size = kernels_.merge(a.list, b.list, positions, accumulators);
      return;
    }
    Scratch* const into = free.back();
    free.pop_back();
    into->reserve(a.list.count + b.list.count + kEntrySlack, width_);
    const std::size_t merged =
        kernels_.merge(a.list, b.list, into->positions.data(), into->accumulators.data());
    release(a);
    release(b);
    a = {{into->positions.data(), into->accumulators.data(), merged}, into};
  };
  for_tree(
      by_rank.size(),
      [&](std::size_t rank, std::size_t level) {
        levels[level] = {by_rank[rank], nullptr};
      },
      fold);
  return size > 0 ? size
                  : kernels_.merge(levels[0].list, {}, positions, accumulators);  // a single list
}

// Entries at their ranks in the union, which has no gaps.
BlockSum::Union BlockSum::sum_ranks(std::span<const EntryList> by_rank, std::uint32_t first,
                                    std::uint32_t elements, std::size_t entries, bool is_marked,
                                    std::byte* places, std::byte* accumulators) {
  constexpr std::size_t kWordBits = 32, kSlackWords = 16;
  const std::size_t words = elements / kWordBits;
  marks_.assign(words + kSlackWords, 0);
  before_.resize(words + kSlackWords);
  ranks_.resize(entries + kEntrySlack);
  ranked_.assign(by_rank.begin(), by_rank.end());
  for (EntryList& list : ranked_)
    list.count =
        entry_kernels_.mark_positions(list.positions, list.count, first, elements, marks_.data());
  const std::uint32_t size = entry_kernels_.count_before(marks_.data(), words, before_.data());
  std::uint16_t* ranks = ranks_.data();
  for (EntryList& list : ranked_) {
    entry_kernels_.rank_positions(list.positions, list.count, first, marks_.data(), before_.data(),
                                  ranks);
    list.positions = ranks;
    ranks += list.count;
  }
  const std::uint32_t whole = (size + 63) / 64 * 64;
  auto* const positions = reinterpret_cast<std::uint16_t*>(places);
  const std::size_t summed =
      size > 0 ? sum_windows(ranked_, 0, whole, false, places, accumulators) : 0;
  if (is_marked)
    std::memcpy(places, marks_.data(), elements / 8);
  else
    (void)entry_kernels_.list_marks(marks_.data(), elements, first, positions);
  return {summed, is_marked};
}

std::size_t BlockSum::sum_windows(std::span<const EntryList> by_rank, std::uint32_t first,
                                  std::uint32_t elements, bool is_marked, std::byte* places,
                                  std::byte* accumulators) {
  rest_.assign(by_rank.begin(), by_rank.end());
  const std::size_t window_elements = kernels::kWindowBytes / width_;
  std::size_t size = 0;
  for (std::uint32_t at = 0; at < elements; at += static_cast<std::uint32_t>(window_elements)) {
    const std::size_t own = std::min<std::size_t>(window_elements, elements - at);
    determinism_ == Determinism::kCanonical ? add_as_tree(first + at, own)
                                            : add_in_turn(first + at, own);
    std::byte* const values = accumulators + size * width_;
    size += is_marked ? kernels_.take_marked(windows_[0], own, places + at / 8, values)
                      : kernels_.take(windows_[0], first + at, own,
                                      reinterpret_cast<std::uint16_t*>(places) + size, values);
  }
  return size;
}

void BlockSum::add_in_turn(std::uint32_t first, std::size_t elements) {
  for (std::size_t rank = 0; rank < rest_.size(); ++rank) add(rank, first, elements, windows_[0]);
}

// A pair of ranks shares a window: the order of two addends does not matter.
void BlockSum::add_as_tree(std::uint32_t first, std::size_t elements) {
  std::array<std::size_t, kMaxLevels> added{};
  for_tree((rest_.size() + 1) / 2,
           [&](std::size_t pair, std::size_t level) {
             added[level] = add(2 * pair, first, elements, windows_[level]);
             if (2 * pair + 1 < rest_.size())
               added[level] += add(2 * pair + 1, first, elements, windows_[level]);
           },
           [&](std::size_t level, bool) {
             if (added[level + 1] == 0) return;
             kernels_.fold(windows_[level], windows_[level + 1], elements);
             added[level] += added[level + 1];
           });
}

std::size_t BlockSum::add(std::size_t rank, std::uint32_t first, std::size_t elements,
                          Window& window) {
  if (rest_[rank].count == 0) return 0;
  const EntryList& rest = rest_[rank];
  const std::size_t added = rest.marks != nullptr ? kernels_.add_marked(rest, elements, window)
                                                  : kernels_.add(rest, first, elements, window);
  rest_[rank] = after(rest, added, elements, width_);
  return added;
}

}  // namespace sparcl::sparse
