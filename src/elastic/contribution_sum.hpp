#pragma once
// The sum of a round as an aggregator makes it: of contributions whose entries are here, and of
// its branches' sums. With a second sum, of weights at each element, for means over contributors.

#include <optional>
#include <vector>

#include "src/aggregate/sum/round_sum.hpp"
#include "src/elastic/contribution_desk.hpp"

namespace sparcl::elastic {

class ContributionSum {
 public:
  ContributionSum(BufferSource& buffers, const kernels::KernelSet& kernels,
                  const sparse::BlockRun& run, bool has_weights, aggregate::WaitingParts& waiting);

  // The contribution's values are multiplied by both factors.
  Status add(const Arrival& arrival, float clip);
  Status add(BranchSum sum);

  struct Whole {
    Buffer sum, weights;  // parts; weights: without entries if there are none
  };
  Whole finish();
  // The largest sums within the spans, packed for the way to the parent. They are removed.
  Result<std::vector<BranchSum>> take(std::uint64_t round, const std::vector<Collect::Span>& spans);

 private:
  Status take_span(std::uint64_t round, const Collect::Span& span, bool is_of_weights,
                   std::vector<BranchSum>& taken);

  BufferSource& buffers_;
  const kernels::KernelSet& kernels_;
  sparse::BlockRun run_;
  aggregate::RoundSum sum_;
  aggregate::RoundSum weights_;
  bool has_weights_;
};

}  // namespace sparcl::elastic
