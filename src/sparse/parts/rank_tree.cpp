#include "src/sparse/parts/rank_tree.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "src/base/float_environment.hpp"

namespace sparcl::sparse {
namespace {

constexpr std::size_t kChunk =
    1024;  // elements: the accumulators of all levels stay in the nearest cache

}  // namespace

RankTree::RankTree(const kernels::ReduceKernels& kernels, Reduction reduction, int ranks)
    : kernels_(kernels), reduction_(reduction), level_bytes_(kChunk * kernels.accumulator_bytes) {
  const auto levels = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(ranks))) + 1;
  storage_.resize(levels * level_bytes_ + kernels::kAccumulatorAlignment);
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
  scratch_ = storage_.data() +
             (kernels::kAccumulatorAlignment - address % kernels::kAccumulatorAlignment) %
                 kernels::kAccumulatorAlignment;
}

void RankTree::reduce(std::span<const std::byte* const> by_rank, std::size_t value_bytes,
                      std::uint64_t count, std::byte* result) {
  const FloatEnvironment ieee;
  for (std::uint64_t i = 0; i < count; i += kChunk) {
    const auto own = static_cast<std::size_t>(std::min<std::uint64_t>(kChunk, count - i));
    reduce_chunk(by_rank, i * value_bytes, own, result + i * value_bytes);
  }
}

// As a binary counter: equal neighbours on the stack are combined immediately, the rest at the end
// from the last on.
void RankTree::reduce_chunk(std::span<const std::byte* const> by_rank, std::size_t offset_bytes,
                            std::size_t count, std::byte* result) {
  kernels::CombineKernel* const combine = kernels_.combine[static_cast<std::size_t>(reduction_.op)];
  std::array<std::size_t, 64> ranks_of;  // that a level holds
  std::size_t top = 0;
  const auto combine_top = [&] {
    combine(accumulators(top - 2), accumulators(top - 1), count);
    ranks_of[top - 2] += ranks_of[top - 1];
    --top;
  };
  for (const std::byte* values : by_rank) {
    kernels_.widen(values + offset_bytes, count, accumulators(top));
    ranks_of[top++] = 1;
    while (top > 1 && ranks_of[top - 2] == ranks_of[top - 1]) combine_top();
  }
  while (top > 1) combine_top();
  if (reduction_.is_mean)
    kernels_.divide(accumulators(0), count, static_cast<std::uint32_t>(by_rank.size()));
  kernels_.narrow(accumulators(0), count, result);
}

}  // namespace sparcl::sparse
