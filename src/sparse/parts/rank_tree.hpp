#pragma once
// Combines the same elements of all ranks, in an order that depends only on the number of ranks.
// T(a, b) = T(a, m) op T(m, b), where m - a is the largest power of two below b - a. The sums are
// therefore the same for every algorithm, transport and order of arrival.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/reduce.hpp"

namespace sparcl::sparse {

struct Reduction {
  kernels::ReduceOp op = kernels::ReduceOp::kSum;
  bool is_mean = false;  // of a sum, over all ranks
};

class RankTree {
 public:
  RankTree(const kernels::ReduceKernels& kernels, Reduction reduction, int ranks);

  // by_rank[r]: `count` values of rank r, all of the kernels' type. result: the same number of
  // values; it may be one of the inputs.
  void reduce(std::span<const std::byte* const> by_rank, std::size_t value_bytes,
              std::uint64_t count, std::byte* result);

 private:
  std::byte* accumulators(std::size_t level) { return scratch_ + level * level_bytes_; }
  void reduce_chunk(std::span<const std::byte* const> by_rank, std::size_t offset_bytes,
                    std::size_t count, std::byte* result);

  const kernels::ReduceKernels& kernels_;
  Reduction reduction_;
  std::size_t level_bytes_;
  std::vector<std::byte> storage_;
  std::byte* scratch_;  // in storage_, aligned
};

}  // namespace sparcl::sparse
