#pragma once

#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::model {

// InvalidArgument if writing `output` would overwrite an input, or a file in an input folder.
Status check_output(const std::string& output, const std::vector<std::string>& inputs);

}  // namespace sparcl::model
