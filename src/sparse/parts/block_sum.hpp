#pragma once
// Sums the entries that the ranks have in one block.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/determinism.hpp"
#include "src/sparse/parts/entry_part.hpp"

namespace sparcl::sparse {

class BlockSum {
 public:
  BlockSum(const kernels::KernelSet& kernels, DataType datatype, kernels::ReduceOp op,
           Determinism determinism, std::size_t ranks);

  struct Union {
    std::size_t entries = 0;
    bool is_marked = false;  // its places are a bit for each element, not positions
  };
  // by_rank: the block's entries, with accumulators, or values if the kernels take them. The union
  // is written to places and accumulators, with room for the positions of all entries (but no more
  // than a block has elements) and kEntrySlack.
  Union sum(std::span<const kernels::EntryList> by_rank, const BlockRun& run, std::uint64_t block,
            std::byte* places, std::byte* accumulators);

 private:
  struct Scratch {
    std::vector<std::uint16_t> positions;
    std::vector<std::byte> accumulators;

    void reserve(std::size_t entries, std::size_t width) {
      if (positions.size() >= entries) return;
      positions.resize(2 * entries);
      accumulators.resize(2 * entries * width);
    }
  };

  std::size_t merge_all(std::span<const kernels::EntryList> by_rank, std::uint16_t* positions,
                        std::byte* accumulators);
  std::size_t sum_windows(std::span<const kernels::EntryList> by_rank, std::uint32_t first,
                          std::uint32_t elements, bool is_marked, std::byte* places,
                          std::byte* accumulators);
  Union sum_ranks(std::span<const kernels::EntryList> by_rank, std::uint32_t first,
                  std::uint32_t elements, std::size_t entries, bool is_marked, std::byte* places,
                  std::byte* accumulators);
  void add_in_turn(std::uint32_t first, std::size_t elements);
  void add_as_tree(std::uint32_t first, std::size_t elements);
  std::size_t add(std::size_t rank, std::uint32_t first, std::size_t elements,
                  kernels::Window& window);

  const kernels::SparseSumKernels& kernels_;
  const kernels::EntryKernels& entry_kernels_;
  Determinism determinism_;
  std::size_t width_;             // of an accumulator
  std::vector<Scratch> scratch_;  // one more than lists that wait for their other half
  std::unique_ptr<kernels::Window[]> windows_;
  std::vector<kernels::EntryList> rest_;  // by rank, while a block's windows are summed
  // Of sum_ranks(): a bit for each element of the union, the bits before each word, and each
  // entry's rank in the union.
  std::vector<std::uint32_t> marks_, before_;
  std::vector<std::uint16_t> ranks_;
  std::vector<kernels::EntryList> ranked_;
};

}  // namespace sparcl::sparse
