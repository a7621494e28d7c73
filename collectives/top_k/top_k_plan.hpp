#pragma once
// Shared by the modes of a top-k all-reduce, once the ranks have agreed; each mode is the file of
// its name.

#include "collectives/collective.hpp"
#include "collectives/top_k/top_k_all_reduce.hpp"
#include "collectives/top_k/top_k_arrays.hpp"
#include "src/sparse/selection/residual.hpp"
#include "src/sparse/selection/selection.hpp"
#include "src/sparse/selection/support.hpp"

namespace sparcl::collectives::top_k {

constexpr std::uint8_t kSupportLane =
    5;  // of selected entries: after the lanes of dense and sparse sums

struct TopKPlan {
  const kernels::KernelSet& kernels;
  const TopKCall& call;
  TopKArrays& arrays;
  sparse::WireType wire;
  int ranks;
  Extents extents;  // of all ranks

  std::size_t accumulator_bytes() const { return element_bytes(wire.accumulator); }
};

sparse::WireType wire_of(const TopKCall& call);
CallFingerprint fingerprint_of(const CommContext& comm, const TopKCall& call);

inline bool keeps_sent(const TopKCall& call) {
  return call.feedback != nullptr && call.kept == TopKResidual::kSent;
}

// The residual becomes acc minus the mean, if the call wants that. elements: the result's values at
// the support. The residual must hold acc before.
Status keep_from_mean(const TopKPlan& plan, const sparse::Support& support,
                      const std::byte* elements);

// An error on this rank after the ranks have agreed poisons the communicator.
Status end_comm(const CommContext& comm, const Status& failed);

// Mode union: a dense sum of all ranks' values at the elements that any rank has selected.
Task sum_at_union(const CommContext& comm, std::uint32_t number, const TopKPlan& plan,
                  const sparse::Selected& selected, CallReport& report);
// Modes selected and global: a sparse sum of the ranks' selected entries.
Task sum_selected(const CommContext& comm, std::uint32_t number, const TopKPlan& plan,
                  const sparse::Selected& selected, CallReport& report);

}  // namespace sparcl::collectives::top_k
