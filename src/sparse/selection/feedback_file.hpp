#pragma once
// A feedback as a safetensors file: the tensor "residual", and in the metadata what else it needs
// and a hash over all of it.

#include <string>

#include "src/base/status.hpp"
#include "src/sparse/selection/feedback.hpp"

namespace sparcl::sparse {

// The file appears, or replaces what is there, when all of it is on the disk; after an error `path`
// is as it was.
Status save_feedback(const Feedback& feedback, const std::string& path);

// For hostile files. Errors name the path and what is wrong. Statistics begin anew.
Result<Feedback> load_feedback(const std::string& path);

}  // namespace sparcl::sparse
