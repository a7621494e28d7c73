#pragma once

#include <map>
#include <memory>

#include "src/aggregate/round/contribution.hpp"
#include "src/aggregate/sum/slot_tree.hpp"

namespace sparcl::aggregate {

// The sum of a round: T of the contributions on time, plus T of those one round late, and so on by
// rounds.
class RoundSum {
 public:
  RoundSum(BufferSource& buffers, const kernels::KernelSet& kernels, const sparse::BlockRun& run,
           WaitingParts& waiting)
      : buffers_(buffers), kernels_(kernels), run_(run), waiting_(waiting) {}

  // See SlotTree::add.
  Status add(std::uint64_t rounds_late, const Subtree& subtree, Buffer part);
  Buffer finish();
  // See SlotTree::take. Of contributions that are so many rounds late.
  std::vector<SlotTree::Node> take(std::uint64_t rounds_late, const SlotSpan& span);

 private:
  BufferSource& buffers_;
  const kernels::KernelSet& kernels_;
  sparse::BlockRun run_;
  WaitingParts& waiting_;
  std::map<std::uint64_t, std::unique_ptr<SlotTree>> trees_;  // by rounds late
};

}  // namespace sparcl::aggregate
