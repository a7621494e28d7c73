#pragma once
// Names by chance, of writers, readers, unfinished files and single puts.

#include <string>

#include "src/base/status.hpp"

namespace sparcl::store {

// 32 hexadecimal digits.
Result<std::string> random_name();

}  // namespace sparcl::store
