#pragma once
// The feedback behind the handle.

#include <atomic>
#include <utility>

#include "sparcl/sparcl.h"
#include "src/api/handles.hpp"
#include "src/sparse/selection/feedback.hpp"

struct sparclFeedback {
  explicit sparclFeedback(sparcl::sparse::Feedback made) : feedback(std::move(made)) {}
  sparcl::api::OwnHandle<sparclFeedback> handle{this};
  sparcl::sparse::Feedback feedback;
  std::atomic<int> calls_in_flight{
      0};  // at most one: a residual is one rank's, one call after the other
};

namespace sparcl::api {

// Whether a call with arrays of `count` elements may take it now.
Status check_feedback(const sparclFeedback& feedback, std::uint64_t count, DataType datatype);

}  // namespace sparcl::api
