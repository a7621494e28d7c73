#pragma once
// Figures for Prometheus on a publisher or a replica.

#include <string>
#include <utility>
#include <vector>

#include "tools/sparcl/console.hpp"

namespace sparcl::tool {

struct Metric {
  enum class Kind : unsigned char { kGauge, kCounter };
  struct Sample {
    std::vector<std::pair<std::string, std::string>> labels;
    double value = 0;
  };

  std::string name;
  std::string help;
  Kind kind = Kind::kGauge;
  std::vector<Sample> samples;
};

// The figures in Prometheus' text format, version 0.0.4. Label values are those of shown().
std::string exposition(const std::vector<Metric>& metrics);

// From a publisher's report (Publisher::status()).
std::vector<Metric> publisher_metrics(const Json& report);

}  // namespace sparcl::tool
