#include "tools/sparcl/publisher_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "src/base/shown_text.hpp"
#include "src/replication/peer_counts.hpp"
#include "tools/sparcl/aggregator_report.hpp"

namespace sparcl::tool {
namespace {

constexpr int kMaxNested = 16;  // a report has 3

// Names come from the network: they must not drive a terminal.
std::string text_at(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || !found->is_string()) return "?";
  return shown(found->get_ref<const std::string&>());
}

std::uint64_t number_at(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

// null: the publisher does not know it.
std::string known_number_at(const Json& object, const char* key) {
  const bool is_known = !object.is_object() || !object.value(key, Json(0)).is_null();
  return is_known ? std::to_string(number_at(object, key)) : "unknown";
}

using Row = std::array<std::string, 8>;

std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    // Numbers to the right, texts to the left.
    constexpr std::size_t kFirstNumber = 1, kLastNumber = 5;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      const bool is_number = i >= kFirstNumber && i <= kLastNumber;
      text += is_number ? fmt::format("{:>{}}  ", row[i], widths[i])
                        : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    text += row.back() + "\n";
  }
  return text;
}

// Refusals since the publisher began, by their reasons; empty if there are none.
std::string refused_text(const Json& report) {
  const Json reasons = report.value("refused", Json::object());
  std::string text;
  if (!reasons.is_object()) return text;  // the answer is not trusted
  for (const char* const reason : replication::kRefusalNames) {
    if (const std::uint64_t count = number_at(reasons, reason); count > 0)
      text += fmt::format("{}{} {}", text.empty() ? "refused: " : ", ", reason, count);
  }
  return text.empty() ? text : text + "\n";
}

// Troubles since the publisher began; empty if there are none.
std::string troubles_text(const Json& report) {
  std::string text;
  const auto add = [&](const char* key, const char* what) {
    if (const std::uint64_t count = number_at(report, key); count > 0)
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", what, count);
  };
  add("replicas_lost", "replicas lost");
  add("parents_blamed", "parents blamed");
  add("connections_refused", "connections refused");
  add("connections_evicted", "connections evicted");
  return (text.empty() ? text : text + "\n") + refused_text(report);
}

// A replica's state with remarks: it holds bytes of its own, or gave nothing to its children in the
// fan-out.
std::string state_of(const Json& replica) {
  std::string state = text_at(replica, "state");
  if (!replica.is_object()) return state;  // the answer is not trusted
  if (replica.value("vouched", Json()) == Json(false)) state += ", not vouched for";
  if (replica.value("expelled", Json()) == Json(true)) state += ", expelled as a parent";
  return state;
}

}  // namespace

Result<Json> parse_publisher_report(const std::string& text) {
  bool is_too_deep = false;
  const auto look = [&](int depth, Json::parse_event_t, Json&) {
    is_too_deep = is_too_deep || depth > kMaxNested;
    return !is_too_deep;
  };
  Json report = Json::parse(text, look, false);
  const bool is_publishers = !is_too_deep && report.is_object() && report.contains("publisher") &&
                             report.contains("replicas") && report["replicas"].is_array();
  if (is_publishers || (!is_too_deep && is_aggregator_report(report))) {
    report.erase("ok");  // this program sets it
    return report;
  }
  return Status(Code::kCorrupt,
                "the answer is no publisher's report: a replica answers there, which takes updates "
                "on; ask the publisher");
}

std::string publisher_text(const Json& report) {
  if (is_aggregator_report(report)) return aggregator_text(report);
  const bool is_signed = report.value("signed", Json()) == Json(true);
  const std::string model_id = text_at(report, "model_id");
  const std::string model = model_id.empty() ? "" : fmt::format("model {}, ", model_id);
  const std::uint64_t version = number_at(report, "version");
  const std::string newest =
      version == 0 ? "nothing is published yet"
                   : fmt::format("version {}{}, hash {}; updates kept: {}, {}", version,
                                 is_signed ? ", signed" : "", text_at(report, "hash"),
                                 number_at(report, "kept_updates"),
                                 human_bytes(number_at(report, "kept_bytes")));
  const std::string peers =
      report.contains("peer_bytes_limit")
          ? fmt::format("; peers cause {} of {}", human_bytes(number_at(report, "peer_bytes")),
                        human_bytes(number_at(report, "peer_bytes_limit")))
          : "";
  const std::string text = fmt::format("publisher {} on {}: {}{}{}\n", text_at(report, "publisher"),
                                       text_at(report, "address"), model, newest, peers);
  const std::string troubles = troubles_text(report);
  if (report["replicas"].empty()) return text + troubles + "no replica is connected\n";
  std::vector<Row> rows{
      {"replica", "version", "lag", "sent", "shared", "refused", "state", "from"}};
  for (const Json& replica : report["replicas"]) {
    rows.push_back({text_at(replica, "name"), known_number_at(replica, "version"),
                    known_number_at(replica, "lag"), human_bytes(number_at(replica, "bytes_sent")),
                    human_bytes(number_at(replica, "bytes_shared")),
                    std::to_string(number_at(replica, "refused")), state_of(replica),
                    text_at(replica, "from")});
  }
  const std::uint64_t left_out = number_at(report, "replicas_left_out");
  const std::string more =
      left_out > 0
          ? fmt::format("{} more replicas are connected; a report has no room for them\n", left_out)
          : "";
  return text + troubles + table(rows) + more +
         "versions are the replicas' own word (advisory: nothing proves them)\n";
}

}  // namespace sparcl::tool
