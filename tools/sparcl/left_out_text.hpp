#pragma once
// Describes the changes that a partial delta leaves out.

#include <cstdint>
#include <string>

#include "tools/sparcl/console.hpp"

namespace sparcl::tool {

// {"changes": 3, "l2": 0.5, "largest": 0.25}; a size that is infinite is null.
Json left_out_json(std::uint64_t changes, double l2, double largest);

// One line.
std::string left_out_text(std::uint64_t changes, double l2, double largest);

}  // namespace sparcl::tool
