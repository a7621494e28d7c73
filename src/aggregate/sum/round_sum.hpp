#pragma once

#include <map>
#include <memory>

#include "src/aggregate/round/contribution.hpp"
#include "src/aggregate/sum/slot_tree.hpp"

namespace sparcl::aggregate {

// The sum of a round: T of the contributions that are on time, plus T of those that are one round
// late, plus T of those that are two late, and so on.
class RoundSum {
 public:
  RoundSum(BufferSource& buffers, const kernels::KernelSet& kernels, const sparse::BlockRun& run)
      : buffers_(buffers), kernels_(kernels), run_(run) {}

  // See SlotTree::add.
  Status add(std::uint64_t rounds_late, const Subtree& subtree, Buffer part);
  Buffer finish();
  std::uint64_t bytes() const;

 private:
  BufferSource& buffers_;
  const kernels::KernelSet& kernels_;
  sparse::BlockRun run_;
  std::map<std::uint64_t, std::unique_ptr<SlotTree>> trees_;  // by rounds late
};

// A part with the same positions, and `value` at each: the weights beside the values.
Buffer same_positions(BufferSource& buffers, const kernels::KernelSet& kernels,
                      const sparse::BlockRun& run, const Buffer& part, float value);

}  // namespace sparcl::aggregate
