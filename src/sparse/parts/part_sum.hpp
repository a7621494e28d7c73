#pragma once
// Sums the parts of all ranks for one run of blocks.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/sparse/parts/block_sum.hpp"
#include "src/sparse/parts/entry_part.hpp"
#include "src/sparse/parts/rank_tree.hpp"

namespace sparcl::sparse {

// The values of a part: the caller's elements, or their accumulators, so that sums of sums are
// rounded once.
enum class PartValues : std::uint8_t { kElements, kAccumulators };

struct SumKind {
  DataType datatype = DataType::kFloat32;
  Reduction reduction;
  Determinism determinism = Determinism::kCanonical;
};

inline std::size_t part_value_bytes(const kernels::KernelSet& kernels, DataType datatype,
                                    PartValues values) {
  return values == PartValues::kElements ? element_bytes(datatype)
                                         : kernels.reduce_of(datatype).accumulator_bytes;
}

class PartSum {
 public:
  // lists: the number of parts summed at once. divisor: of a mean, for results that are elements;
  // 1: none.
  PartSum(BufferSource& buffers, const kernels::KernelSet& kernels, const SumKind& kind,
          std::size_t lists, PartValues in, PartValues out, std::uint32_t divisor);

  // parts: of one run, in the order of the ranks. nullopt if one is no part of the run.
  std::optional<Buffer> sum(std::span<const std::span<const std::byte>> parts, const BlockRun& run);
  // The same as several parts: consecutive pieces that make up the run.
  std::optional<std::vector<Buffer>> sum_pieces(std::span<const std::span<const std::byte>> parts,
                                                const BlockRun& run,
                                                std::span<const BlockRun> pieces);
  std::size_t refused() const { return views_.size(); }  // the index of the refused part

 private:
  bool view(std::span<const std::span<const std::byte>> parts, const BlockRun& run);
  Buffer sum_piece(const BlockRun& run, const BlockRun& piece);
  std::uint64_t next_block() const;
  void take_block(std::uint64_t block);
  const std::byte* widened(std::size_t list, const std::byte* values, std::size_t count);

  BufferSource& buffers_;
  const kernels::KernelSet& kernels_;
  const kernels::ReduceKernels& reduce_;
  PartValues out_;
  std::size_t in_bytes_, out_bytes_;
  std::uint32_t divisor_;
  bool widens_;
  BlockSum block_sum_;
  std::vector<PartView> views_;
  std::vector<kernels::EntryList> entries_;           // by list, of the block
  std::vector<std::vector<std::byte>> accumulators_;  // by list, if they are widened
  Buffer sums_;                                       // of a block, aligned from sums_begin_ on
  std::byte* sums_begin_ = nullptr;
};

}  // namespace sparcl::sparse
