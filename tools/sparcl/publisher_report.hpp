#pragma once
// A publisher's report on itself and its replicas (docs/reference/protocol.md), as text for people.

#include <string>

#include "src/base/status.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {

// The answer is not trusted. Corrupt: it is no report.
Result<Json> parse_publisher_report(const std::string& text);

std::string publisher_text(const Json& report);

}  // namespace sparcl::tool
