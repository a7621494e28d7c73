#pragma once
// The sparse all-reduces: check, plan, agree, run.

#include "collectives/all_reduce/dense.hpp"
#include "collectives/mask/mask.hpp"
#include "collectives/selection/feedback.hpp"
#include "src/base/status.hpp"

namespace sparcl::collectives {

// sparclAllReduceMasked. The mask may be drawn anew once the call is over.
struct MaskedCall {
  Status refusal;  // of the caller's arguments on this rank
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;  // may be `send`
  DataType datatype = DataType::kFloat32;
  Reduction reduction;
  const Mask* mask = nullptr;
  Feedback* feedback = nullptr;  // of sums and means: what is summed is acc, and what is not sent stays
};
Task all_reduce_masked(const CommContext& comm, std::uint32_t number, const MaskedCall& call, CallReport& report);

}  // namespace sparcl::collectives
