#include "src/elastic/contribution_sum.hpp"

#include <utility>

#include "src/aggregate/sum/weigh_part.hpp"

namespace sparcl::elastic {

ContributionSum::ContributionSum(BufferSource& buffers, const kernels::KernelSet& kernels,
                                 const sparse::BlockRun& run, bool has_weights,
                                 aggregate::WaitingParts& waiting)
    : buffers_(buffers),
      kernels_(kernels),
      run_(run),
      sum_(buffers, kernels, run, waiting),
      weights_(buffers, kernels, run, waiting),
      has_weights_(has_weights) {}

Status ContributionSum::add(const Arrival& arrival, float clip) {
  const aggregate::Listed& listed = arrival.listed;
  const aggregate::Subtree slot{listed.slot, 0};
  SPARCL_RETURN_IF_ERROR(sum_.add(listed.rounds_late, slot,
                                  aggregate::weigh_part(buffers_, kernels_, arrival.part.bytes(),
                                                        arrival.type, clip, listed.weight)));
  if (!has_weights_) return {};
  return weights_.add(
      listed.rounds_late, slot,
      aggregate::weights_part(buffers_, arrival.part.bytes(), arrival.type, listed.weight));
}

Status ContributionSum::add(BranchSum sum) {
  aggregate::RoundSum& to = sum.told.is_of_weights ? weights_ : sum_;
  return to.add(sum.told.rounds_late, sum.told.subtree, std::move(sum.part));
}

ContributionSum::Whole ContributionSum::finish() { return {sum_.finish(), weights_.finish()}; }

Result<std::vector<BranchSum>> ContributionSum::take(std::uint64_t round,
                                                     const std::vector<Collect::Span>& spans) {
  std::vector<BranchSum> taken;
  for (const Collect::Span& each : spans) {
    SPARCL_RETURN_IF_ERROR(take_span(round, each, false, taken));
    if (has_weights_) SPARCL_RETURN_IF_ERROR(take_span(round, each, true, taken));
  }
  return taken;
}

Status ContributionSum::take_span(std::uint64_t round, const Collect::Span& span,
                                  bool is_of_weights, std::vector<BranchSum>& taken) {
  aggregate::RoundSum& from = is_of_weights ? weights_ : sum_;
  for (aggregate::SlotTree::Node& node : from.take(span.rounds_late, span.slots)) {
    SPARCL_ASSIGN_OR_RETURN(Packed packed,
                            pack_part(buffers_, kernels_, run_, {}, std::move(node.part)));
    taken.push_back({{round, is_of_weights, span.rounds_late, node.subtree, packed.offered.bytes,
                      packed.offered.digest},
                     std::move(packed.bytes)});
  }
  return {};
}

}  // namespace sparcl::elastic
