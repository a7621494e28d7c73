#pragma once
// Figures for Prometheus: what a publisher or a replica is doing, in its exposition format at http://HOST:PORT/metrics.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.hpp"
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

class MetricsPage {
 public:
  // where: HOST:PORT; without a host on all interfaces. collect: called by threads of the page's own, until it is gone.
  // SystemError: the port cannot be had. Unsupported: this program was built without prometheus-cpp.
  static Result<std::unique_ptr<MetricsPage>> open(const std::string& where, std::function<std::vector<Metric>()> collect);
  virtual ~MetricsPage() = default;

  virtual const std::string& address() const = 0;  // "http://HOST:PORT/metrics"
};

// Of a publisher's report (Publisher::status()).
std::vector<Metric> publisher_metrics(const Json& report);

}  // namespace sparcl::tool
