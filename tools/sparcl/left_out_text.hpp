#pragma once
// What a partial delta says of the changes that it lacks.

#include <string>

#include "src/codec/update.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {

// {"changes": 3, "l2": 0.5, "largest": 0.25}; a size that is infinite is null.
Json left_out_json(const codec::LeftOut& left_out);

// One line.
std::string left_out_text(const codec::LeftOut& left_out);

}  // namespace sparcl::tool
