#pragma once
// Calls of the C interface, in benches.

#include <chrono>
#include <stdexcept>

#include "sparcl/sparcl.h"

namespace sparcl::bench {

inline void must_succeed(sparclResult_t result) {
  if (result != sparclSuccess) throw std::runtime_error(sparclGetLastError(nullptr));
}

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace sparcl::bench
