#pragma once
// A feedback as a safetensors file: the tensor "residual", and in the metadata its other members
// and a hash over everything.

#include <string>

#include "src/base/status.hpp"
#include "src/sparse/selection/feedback.hpp"

namespace sparcl::sparse {

// The file appears, or replaces the old one, when everything is on the disk. After an error `path`
// is unchanged.
Status save_feedback(const Feedback& feedback, const std::string& path);

// For untrusted files. Errors name the path and the reason. Statistics start at zero.
Result<Feedback> load_feedback(const std::string& path);

}  // namespace sparcl::sparse
