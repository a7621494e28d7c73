#pragma once
// The result of a check of this machine. `sparcl info` shows a list of findings, and a start that
// is refused gives them as its reason.

#include <fmt/format.h>

#include <span>
#include <string>

#include "src/base/status.hpp"

namespace sparcl {

struct Finding {
  std::string name;  // "shared_memory"
  bool ok = true;
  std::string found;  // "/dev/shm has 1.2 MB free of 64.0 MB"
  std::string need;   // "transport ucx needs 4.7 MB there for each rank"
  std::string cure;   // what to do: a command, a setting
};

// "found, but need: cure".
inline std::string text_of(const Finding& finding) {
  return finding.ok ? finding.found
                    : fmt::format("{}, but {}: {}", finding.found, finding.need, finding.cure);
}

// All that is not ok, in one error.
inline Status status_of(std::span<const Finding> findings) {
  std::string wrong;
  for (const Finding& each : findings) {
    if (!each.ok) wrong += (wrong.empty() ? "" : "; ") + text_of(each);
  }
  return wrong.empty() ? Status() : Status(Code::kSystemError, wrong);
}

}  // namespace sparcl
