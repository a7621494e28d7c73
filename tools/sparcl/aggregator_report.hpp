#pragma once
// An aggregator's report on its rounds and workers (docs/reference/protocol.md).

#include <string>
#include <vector>

#include "tools/sparcl/console.hpp"
#include "tools/sparcl/metrics.hpp"

namespace sparcl::tool {

// The answers are not trusted.
bool is_aggregator_report(const Json& report);
std::string aggregator_text(const Json& report);
std::vector<Metric> aggregator_metrics(const Json& report);

}  // namespace sparcl::tool
