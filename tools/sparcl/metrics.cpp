#include "tools/sparcl/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include "src/base/shown_text.hpp"
#include "src/replication/peer_counts.hpp"

namespace sparcl::tool {
namespace {

double figure_at(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

// NaN for null: the publisher does not know it.
double known_figure_at(const Json& object, const char* key) {
  const bool is_known = !object.is_object() || !object.value(key, Json(0)).is_null();
  return is_known ? figure_at(object, key) : std::numeric_limits<double>::quiet_NaN();
}

std::string report_text_at(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Metric one(std::string name, std::string help, double value,
           Metric::Kind kind = Metric::Kind::kGauge) {
  return {std::move(name), std::move(help), kind, {{{}, value}}};
}

// The same for a replica that is restarted: neither pid nor port is in them.
using Labels = std::vector<std::pair<std::string, std::string>>;
Labels labels_of(const Json& replica) {
  return {{"replica", report_text_at(replica, "replica")},
          {"host", report_text_at(replica, "host")},
          {"slot", std::to_string(static_cast<std::uint64_t>(figure_at(replica, "slot")))}};
}

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char each : text) {
    if (each == '\\' || (each == '"' && quotes)) out += '\\';
    out += each == '\n' ? std::string("\\n") : std::string(1, each);
  }
  return out;
}

std::string labels_text(const Metric::Sample& sample) {
  std::string text;
  for (const auto& [name, value] : sample.labels)
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "{" : ",", name, escaped(shown(value), true));
  return text.empty() ? text : text + "}";
}

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

std::vector<Metric> publisher_metrics(const Json& report) {
  if (!report.is_object()) return {};
  const Json replicas = report.value("replicas", Json::array());
  std::vector<Metric> metrics{
      one("sparcl_publisher_version", "Newest published version.", figure_at(report, "version")),
      one("sparcl_publisher_kept_updates", "Updates kept for replicas that are behind.",
          figure_at(report, "kept_updates")),
      one("sparcl_publisher_kept_bytes", "Bytes of these updates.",
          figure_at(report, "kept_bytes")),
      one("sparcl_publisher_replicas", "Replicas that are connected.",
          std::max(figure_at(report, "replicas_connected"), static_cast<double>(replicas.size()))),
      one("sparcl_publisher_unlisted_replicas",
          "Replicas that are connected and have no figures here: a report has no room for them.",
          figure_at(report, "replicas_left_out")),
      one("sparcl_publisher_peer_bytes",
          "Bytes of memory that peers cause, beside what is kept for all of them.",
          figure_at(report, "peer_bytes")),
      one("sparcl_publisher_peer_bytes_limit", "Limit of sparcl_publisher_peer_bytes.",
          figure_at(report, "peer_bytes_limit")),
      one("sparcl_publisher_peer_bytes_unproven",
          "Bytes of memory that unproven peers cause: those that have held no version yet.",
          figure_at(report, "peer_bytes_unproven")),
      one("sparcl_publisher_peer_bytes_unproven_limit",
          "Limit of sparcl_publisher_peer_bytes_unproven.",
          figure_at(report, "peer_bytes_unproven_limit")),
      one("sparcl_publisher_lost_replicas_total",
          "Connections of replicas that ended without a goodbye.",
          figure_at(report, "replicas_lost"), Metric::Kind::kCounter),
      one("sparcl_publisher_blamed_parents_total",
          "Times that a replica left a parent that failed it.", figure_at(report, "parents_blamed"),
          Metric::Kind::kCounter),
      one("sparcl_publisher_refused_connections_total", "Connections that were refused.",
          figure_at(report, "connections_refused"), Metric::Kind::kCounter),
      one("sparcl_publisher_evicted_connections_total",
          "Connections that ended to make room for others.",
          figure_at(report, "connections_evicted"), Metric::Kind::kCounter)};
  Metric refused{"sparcl_refused_total",
                 "Connections that were ended, by the reason.",
                 Metric::Kind::kCounter,
                 {}};
  const Json reasons = report.value("refused", Json::object());
  for (const char* const reason : replication::kRefusalNames)
    refused.samples.push_back({{{"reason", reason}}, figure_at(reasons, reason)});
  metrics.push_back(std::move(refused));
  const auto add_each = [&](const char* name, const char* help, Metric::Kind kind,
                            const char* key) {
    Metric metric{name, help, kind, {}};
    for (const Json& each : replicas)
      metric.samples.push_back({labels_of(each), known_figure_at(each, key)});
    metrics.push_back(std::move(metric));
  };
  constexpr Metric::Kind kGauge = Metric::Kind::kGauge, kCounter = Metric::Kind::kCounter;
  add_each("sparcl_replica_version",
           "Version that the replica holds, by its own word. NaN: none that was published here.",
           kGauge, "version");
  add_each("sparcl_replica_lag_versions", "Versions from there to the newest. NaN: unknown.",
           kGauge, "lag");
  add_each("sparcl_replica_sent_bytes_total", "Bytes sent to it over its connection.", kCounter,
           "bytes_sent");
  add_each("sparcl_replica_shared_bytes_total", "Bytes of updates given to it as shared memory.",
           kCounter, "bytes_shared");
  add_each("sparcl_replica_refused_updates_total", "Updates that it has refused.", kCounter,
           "refused");
  Metric state{"sparcl_replica_state", "1 for the state that the replica is in.", kGauge, {}};
  for (const Json& each : replicas) {
    Labels labels = labels_of(each);
    labels.emplace_back("state", report_text_at(each, "state"));
    state.samples.push_back({std::move(labels), 1});
  }
  metrics.push_back(std::move(state));
  return metrics;
}

std::string exposition(const std::vector<Metric>& metrics) {
  std::string text;
  for (const Metric& metric : metrics) {
    const bool is_counter = metric.kind == Metric::Kind::kCounter;
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", metric.name,
                        escaped(metric.help, false), is_counter ? "counter" : "gauge");
    for (const Metric::Sample& sample : metric.samples)
      text += fmt::format("{}{} {}\n", metric.name, labels_text(sample), value_text(sample.value));
  }
  return text;
}

}  // namespace sparcl::tool
