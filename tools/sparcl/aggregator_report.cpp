#include "tools/sparcl/aggregator_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "src/base/shown_text.hpp"

namespace sparcl::tool {
namespace {

std::string field_text(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || !found->is_string()) return "?";
  return shown(found->get_ref<const std::string&>());
}

double field_number(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::uint64_t field_count(const Json& object, const char* key) {
  return static_cast<std::uint64_t>(std::clamp(field_number(object, key), 0.0, 9e15));
}

using WorkerRow = std::array<std::string, 5>;

std::string worker_table(const std::vector<WorkerRow>& rows) {
  std::array<std::size_t, std::tuple_size_v<WorkerRow>> widths{};
  for (const WorkerRow& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const WorkerRow& row : rows)
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}\n", row[0], widths[0], row[1],
                        widths[1], row[2], widths[2], row[3], widths[3], row[4], widths[4]);
  return text;
}

// Of an aggregator that has one above it.
std::string parent_text(const Json& report) {
  if (!report.contains("parent")) return "";
  const std::string parent = field_text(report, "parent");
  if (!parent.empty()) return fmt::format("sums go to {}\n", parent);
  return fmt::format("no connection to the parent: {}\n", field_text(report, "trouble"));
}

std::string refusal_text(const Json& report) {
  const std::uint64_t count = field_count(report, "refused_connections");
  if (count == 0) return "";
  return fmt::format("connections refused: {}, the last one {:.0f} s ago: {}\n", count,
                     field_number(report, "last_refusal_age_s"),
                     field_text(report, "last_refusal"));
}

std::string worker_name(const Json& worker) {
  const std::string name = field_text(worker, "name"), branch = field_text(worker, "branch");
  return branch.empty() || branch == "?" ? name : fmt::format("{}, by {}", name, branch);
}

}  // namespace

bool is_aggregator_report(const Json& report) {
  return report.is_object() && report.contains("aggregator") && report.contains("workers") &&
         report["workers"].is_array();
}

std::string aggregator_text(const Json& report) {
  const std::string model_id = field_text(report, "model_id");
  const std::string model = model_id.empty() ? "" : fmt::format("model {}, ", model_id);
  const std::string results = field_text(report, "results");
  std::string text = fmt::format(
      "aggregator {} on {}: {}round {} is open, {} contributions have come{}\n"
      "since it started: contributions committed: {}, late: {}, refused: {}{}\n",
      field_text(report, "aggregator"), field_text(report, "address"), model,
      field_count(report, "round"), field_count(report, "listed"),
      results.empty() ? "" : "; results at " + results, field_count(report, "committed"),
      field_count(report, "late"), field_count(report, "refused"),
      report.contains("expelled")
          ? fmt::format("; workers that missed a deadline: {}", field_count(report, "expelled"))
          : "");
  text += parent_text(report) + refusal_text(report);
  if (report["workers"].empty()) return text + "no worker is connected\n";
  std::vector<WorkerRow> rows{{"worker", "name", "state", "sent here", "silent"}};
  for (const Json& worker : report["workers"])
    rows.push_back({field_text(worker, "worker"), worker_name(worker), field_text(worker, "state"),
                    human_bytes(field_count(worker, "bytes_received")),
                    fmt::format("{:.1f} s", field_number(worker, "silent_s"))});
  text += worker_table(rows);
  if (const std::uint64_t left_out = field_count(report, "workers_left_out"); left_out > 0)
    text += fmt::format("{} more workers are connected; a report has no room for them\n", left_out);
  return text;
}

std::vector<Metric> aggregator_metrics(const Json& report) {
  const auto of = [&](const char* name, const char* help, const char* key, Metric::Kind kind) {
    return Metric{name, help, kind, {{{}, field_number(report, key)}}};
  };
  using Kind = Metric::Kind;
  std::vector<Metric> metrics{
      of("sparcl_aggregator_round", "The round that is open.", "round", Kind::kGauge),
      of("sparcl_aggregator_listed", "Contributions to the open round.", "listed", Kind::kGauge),
      of("sparcl_aggregator_committed_total", "Contributions in committed rounds.", "committed",
         Kind::kCounter),
      of("sparcl_aggregator_late_total", "Of these, made for earlier rounds.", "late",
         Kind::kCounter),
      of("sparcl_aggregator_refused_total", "Contributions that were refused.", "refused",
         Kind::kCounter),
      of("sparcl_aggregator_refused_connections_total", "Connections that were refused.",
         "refused_connections", Kind::kCounter),
      of("sparcl_aggregator_held_bytes", "Of contributions that have come and are not summed.",
         "held_bytes", Kind::kGauge),
      of("sparcl_aggregator_waiting_bytes", "Of parts in memory that wait for others.",
         "waiting_bytes", Kind::kGauge),
      of("sparcl_aggregator_spilled_bytes", "Of parts in files that wait for others.",
         "spilled_bytes", Kind::kGauge)};
  if (report.is_object() && report.contains("expelled"))
    metrics.push_back(of("sparcl_aggregator_missing_total",
                         "Times that a worker missed a deadline.", "expelled", Kind::kCounter));
  const bool has_workers = is_aggregator_report(report);
  metrics.push_back({"sparcl_aggregator_workers",
                     "Workers that are connected.",
                     Kind::kGauge,
                     {{{}, has_workers ? static_cast<double>(report["workers"].size()) : 0.0}}});
  return metrics;
}

}  // namespace sparcl::tool
