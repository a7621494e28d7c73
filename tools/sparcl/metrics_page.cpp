// The page itself, by prometheus-cpp where it is there.
#include <fmt/format.h>

#include "src/transport/host_port.hpp"
#include "tools/sparcl/metrics.hpp"

#if SPARCL_WITH_PROMETHEUS
#include <prometheus/client_metric.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <exception>
#endif

namespace sparcl::tool {

#if SPARCL_WITH_PROMETHEUS
namespace {

constexpr std::size_t kThreads = 2;

class Collector final : public prometheus::Collectable {
 public:
  explicit Collector(std::function<std::vector<Metric>()> collect) : collect_(std::move(collect)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    for (Metric& each : collect_()) {
      prometheus::MetricFamily family;
      const bool is_counter = each.kind == Metric::Kind::kCounter;
      family.name = std::move(each.name);
      family.help = std::move(each.help);
      family.type = is_counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
      for (const Metric::Sample& sample : each.samples) {
        prometheus::ClientMetric metric;
        for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
        (is_counter ? metric.counter.value : metric.gauge.value) = sample.value;
        family.metric.push_back(std::move(metric));
      }
      families.push_back(std::move(family));
    }
    return families;
  }

 private:
  std::function<std::vector<Metric>()> collect_;
};

class ServedPage final : public MetricsPage {
 public:
  ServedPage(const HostPort& where, std::function<std::vector<Metric>()> collect)
      : collector_(std::make_shared<Collector>(std::move(collect))),
        exposer_(where.host.empty() ? fmt::format("{}", where.port) : fmt::format("{}:{}", where.host, where.port), kThreads) {
    exposer_.RegisterCollectable(collector_);
    const std::vector<int> ports = exposer_.GetListeningPorts();
    const int port = ports.empty() ? where.port : ports.front();
    address_ = fmt::format("http://{}:{}/metrics", where.host.empty() ? "localhost" : where.host, port);
  }
  const std::string& address() const override { return address_; }

 private:
  std::shared_ptr<Collector> collector_;
  prometheus::Exposer exposer_;  // it asks the collector: it ends first
  std::string address_;
};

}  // namespace

Result<std::unique_ptr<MetricsPage>> MetricsPage::open(const std::string& where, std::function<std::vector<Metric>()> collect) {
  const Result<HostPort> parsed = parse_host_port(where);
  if (!parsed.ok()) return parsed.status();
  try {
    return std::unique_ptr<MetricsPage>(std::make_unique<ServedPage>(*parsed, std::move(collect)));
  } catch (const std::exception&) {
    return Status(Code::kSystemError,
                  fmt::format("--metrics {}: the port cannot be had: another program may have it, or the host is not "
                              "this one",
                              where));
  }
}
#else
Result<std::unique_ptr<MetricsPage>> MetricsPage::open(const std::string&, std::function<std::vector<Metric>()>) {
  return Status(Code::kUnsupported, "--metrics: this sparcl was built without prometheus-cpp (Debian: prometheus-cpp-dev)");
}
#endif

}  // namespace sparcl::tool
