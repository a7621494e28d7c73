#pragma once
// A wait of the replication service that may last: it is made in pieces, and between two of them a
// warning says what is missing.

#include <algorithm>
#include <chrono>
#include <type_traits>

#include "src/base/log.hpp"
#include "src/base/status.hpp"
#include "src/base/wait_warning.hpp"

namespace sparcl::api {

// attempt(seconds) returns a Status or a Result: Timeout with the reason, if nothing came within so
// many seconds.
template <class Attempt>
auto wait_long(const char* name, double seconds, Attempt&& attempt) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  WaitWarning warning;
  double lasted = 0;
  while (true) {
    auto outcome = attempt(std::max(0.0, std::min(seconds, warning.next_s()) - lasted));
    Status why;
    if constexpr (std::is_same_v<decltype(outcome), Status>) {
      why = outcome;
    } else {
      why = outcome.status();
    }
    lasted = std::chrono::duration<double>(Clock::now() - begin).count();
    if (why.code() != Code::kTimeout || lasted >= seconds) return outcome;
    if (warning.is_due(lasted)) log_warn("{} has waited {:.3g} s: {}", name, lasted, why.message());
  }
}

}  // namespace sparcl::api
