#pragma once
// Names by chance, of writers and readers.

#include <string>

#include "src/base/status.hpp"

namespace sparcl::store {

// 32 hexadecimal digits.
Result<std::string> random_name();

}  // namespace sparcl::store
