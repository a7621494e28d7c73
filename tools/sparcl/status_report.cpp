#include "tools/sparcl/status_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>

#include "src/base/data_type.hpp"
#include "src/base/flight/flight_text.hpp"
#include "src/base/status.hpp"

namespace sparcl::tool {
namespace {

using flight::Record;
using flight::RecordState;
using flight::Snapshot;
using flight::TrailSnapshot;

template <std::size_t kBytes>
std::string text_of(const std::array<char, kBytes>& bytes) {
  const std::string_view all(bytes.data(), kBytes);
  return std::string(all.substr(0, all.find('\0')));
}

// The same for a terminal.
template <std::size_t kBytes>
std::string plain(const std::array<char, kBytes>& bytes) {
  return std::string(flight::LineWriter().text(bytes).view());
}

double seconds_between(std::uint64_t from_ns, std::uint64_t to_ns) {
  return to_ns > from_ns ? static_cast<double>(to_ns - from_ns) * 1e-9 : 0;
}

std::string date(double seconds_since_1970) {
  const auto whole = static_cast<std::time_t>(
      std::clamp(seconds_since_1970, 0.0, 4e9));  // the bytes are not trusted
  std::tm parts{};
  ::localtime_r(&whole, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts)};
}

Json wait_json(const Record& record, std::uint64_t now_ns) {
  if (record.wait_since_ns == 0) return nullptr;
  const std::uint64_t until = record.state == RecordState::kRunning ? now_ns : record.end_ns;
  return {{"rank", record.wait_peer},
          {"peer", text_of(record.wait_host)},
          {"purpose", text_of(record.wait_purpose)},
          {"seconds", seconds_between(record.wait_since_ns, until)}};
}

Json record_json(const flight::FileHead& head, const Record& record, std::uint64_t now_ns) {
  const bool is_call = record.call != flight::kNoCall;
  const bool is_running = record.state == RecordState::kRunning;
  const DataTypeInfo* type = record.datatype >= 0 ? find_data_type(record.datatype) : nullptr;
  Json json{{"call", is_call ? Json(record.call) : Json(nullptr)},
            {"operation", text_of(record.operation)},
            {"state", flight::record_state_name(record.state)},
            {"result", record.state == RecordState::kRunning
                           ? Json(nullptr)
                           : Json(code_name(static_cast<Code>(record.result)))},
            {"began", flight::wall_seconds(head, record.begin_ns)},
            {"seconds", seconds_between(record.begin_ns, is_running ? now_ns : record.end_ns)}};
  if (!is_call) return json;
  json.update({{"count", record.count},
               {"datatype", type != nullptr ? Json(type->name) : Json(nullptr)},
               {"root", record.root},
               {"version", record.version},
               {"detail", text_of(record.detail)},
               {"bytes_sent", record.bytes_sent},
               {"bytes_received", record.bytes_received},
               {is_running ? "waits_for" : "waited_for", wait_json(record, now_ns)}});
  return json;
}

Json trail_json(const flight::FileHead& head, const TrailSnapshot& trail, std::uint64_t now_ns) {
  const flight::TrailHead& comm = trail.head;
  Json operations = Json::array();
  for (std::size_t i = 0; i < trail.records.count; ++i)
    operations.push_back(record_json(head, trail.records.records[i], now_ns));
  return {
      {"comm", comm.comm},
      {"rank", comm.rank},
      {"size", comm.size},
      {"transport", text_of(comm.transport)},
      {"state", flight::trail_state_name(comm.state)},
      {"error", comm.error != 0 ? Json(code_name(static_cast<Code>(comm.error))) : Json(nullptr)},
      {"message", text_of(comm.note)},
      {"seconds_since_turn",
       comm.turned_ns != 0 ? Json(seconds_between(comm.turned_ns, now_ns)) : Json(nullptr)},
      {"torn", trail.records.torn},
      {"operations", operations}};
}

// Times of a dead process are counted to its last sign of life, not to now.
std::uint64_t seen_until(const Snapshot& snapshot, std::uint64_t now_ns) {
  if (snapshot.life != flight::Life::kDead) return now_ns;
  std::uint64_t last = snapshot.head.monotonic_ns;
  for (const TrailSnapshot& trail : snapshot.trails) {
    last = std::max({last, trail.head.turned_ns, trail.head.changed_ns});
    for (std::size_t i = 0; i < trail.records.count; ++i)
      last = std::max({last, trail.records.records[i].begin_ns, trail.records.records[i].end_ns});
  }
  return std::min(last, now_ns);
}

Json head_json(const Snapshot& snapshot, std::uint64_t now_ns) {
  return {{"pid", snapshot.head.pid},
          {"program", text_of(snapshot.head.program)},
          {"host", text_of(snapshot.head.host)},
          {"version", text_of(snapshot.head.version)},
          {"process", flight::life_name(snapshot.life)},
          {"system_state", std::string(1, snapshot.system_state)},
          {"recorded_since", flight::wall_seconds(snapshot.head, snapshot.head.monotonic_ns)},
          {"recorded_until", flight::wall_seconds(snapshot.head, now_ns)}};
}

std::string life_text(const Snapshot& snapshot) {
  switch (snapshot.life) {
    case flight::Life::kRunning:
      return "is running";
    case flight::Life::kStopped:
      return "is STOPPED (by a signal or a debugger)";
    case flight::Life::kDead:
      return "is DEAD: this is what it was doing at its last sign of life, " +
             date(flight::wall_seconds(snapshot.head, seen_until(snapshot, UINT64_MAX))) +
             ", to which all times are counted";
    case flight::Life::kUnknown:
      break;
  }
  return "is of another machine or container: whether it runs is not known";
}

// The operation that has run longest.
const Record* longest_running(const Snapshot& snapshot, const TrailSnapshot** of) {
  const Record* longest = nullptr;
  for (const TrailSnapshot& trail : snapshot.trails) {
    for (std::size_t i = 0; i < trail.records.count; ++i) {
      const Record& record = trail.records.records[i];
      if (record.state != RecordState::kRunning ||
          (longest != nullptr && record.begin_ns >= longest->begin_ns))
        continue;
      longest = &record;
      *of = &trail;
    }
  }
  return longest;
}

}  // namespace

std::string process_text(const Snapshot& snapshot, std::uint64_t now_ns) {
  now_ns = seen_until(snapshot, now_ns);
  const flight::FileHead& head = snapshot.head;
  std::string text =
      fmt::format("process {} ({}) on host {} {}; sparcl {}, recorded since {}\n", head.pid,
                  plain(head.program), plain(head.host), life_text(snapshot), plain(head.version),
                  date(flight::wall_seconds(head, head.monotonic_ns)));
  for (const TrailSnapshot& trail : snapshot.trails) {
    flight::LineWriter line;
    flight::describe_trail(trail.head, now_ns, line);
    text += fmt::format("\n{}\n", line.view());
    trail.records.show(flight::kRecords, now_ns, [&](const flight::LineWriter& each) {
      text += fmt::format("  {}\n", each.view());
    });
    if (trail.records.torn > 0)
      text += fmt::format("  {} more were being written\n", trail.records.torn);
  }
  if (snapshot.torn_heads > 0)
    text += fmt::format("\n{} communicators were being changed\n", snapshot.torn_heads);
  return text;
}

Json process_json(const Snapshot& snapshot, std::uint64_t now_ns) {
  now_ns = seen_until(snapshot, now_ns);
  Json json = head_json(snapshot, now_ns);
  Json comms = Json::array();
  for (const TrailSnapshot& trail : snapshot.trails)
    comms.push_back(trail_json(snapshot.head, trail, now_ns));
  json["comms"] = comms;
  return json;
}

std::string process_line(const Snapshot& snapshot, std::uint64_t now_ns) {
  now_ns = seen_until(snapshot, now_ns);
  flight::LineWriter line;
  const TrailSnapshot* trail = nullptr;
  if (const Record* record = longest_running(snapshot, &trail); record != nullptr) {
    line.text("rank ").number(trail->head.rank).text(" of ").number(trail->head.size).text(", ");
    flight::describe_record(*record, now_ns, line);
    if (trail->head.state == flight::TrailState::kMeeting) line.text(", ").text(trail->head.note);
  } else {
    line.text("in no call");
    for (const TrailSnapshot& each :
         snapshot.trails) {  // other ranks may wait for it: its last call shows its progress
      if (each.head.error != 0)
        line.text("; comm ").number(each.head.comm).text(" ended: ").text(each.head.note);
      if (each.head.state == flight::TrailState::kDestroyed || each.records.count == 0) continue;
      line.text("; rank ")
          .number(each.head.rank)
          .text(" of ")
          .number(each.head.size)
          .text(", last: ");
      flight::describe_record(each.records.records[each.records.count - 1], now_ns, line);
    }
  }
  return fmt::format("{:>8}  {:<8} {:<16} {}\n", snapshot.head.pid,
                     flight::life_name(snapshot.life), plain(snapshot.head.program), line.view());
}

Json process_summary(const Snapshot& snapshot, std::uint64_t now_ns) {
  now_ns = seen_until(snapshot, now_ns);
  Json json = head_json(snapshot, now_ns);
  json["comms"] = snapshot.trails.size();
  const TrailSnapshot* trail = nullptr;
  const Record* record = longest_running(snapshot, &trail);
  json["rank"] = record != nullptr ? Json(trail->head.rank) : Json(nullptr);
  json["running"] = record != nullptr ? record_json(snapshot.head, *record, now_ns) : Json(nullptr);
  Json last = Json::array();
  for (const TrailSnapshot& each : snapshot.trails) {
    if (each.head.state == flight::TrailState::kDestroyed || each.records.count == 0) continue;
    last.push_back({{"comm", each.head.comm},
                    {"rank", each.head.rank},
                    {"size", each.head.size},
                    {"record", record_json(snapshot.head,
                                           each.records.records[each.records.count - 1], now_ns)}});
  }
  json["last"] = last;
  return json;
}

}  // namespace sparcl::tool
