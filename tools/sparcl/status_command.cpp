// Shows from outside the calls of a process, which may be stuck, stopped or dead; or the replicas
// of a publisher.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/flight/flight_reader.hpp"
#include "src/base/process_info.hpp"
#include "src/base/settings.hpp"
#include "src/net/host_port.hpp"
#include "src/replication/query.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/credentials.hpp"
#include "tools/sparcl/publisher_report.hpp"
#include "tools/sparcl/status_report.hpp"

namespace sparcl::tool {
namespace {

constexpr double kAnswerSeconds = 5;  // for a publisher

struct StatusOptions {
  std::string process;
  std::string secret_path;
  std::string certificates_path;
  bool all = false;
  bool remove = false;
};

bool is_address(const std::string& text) { return text.find(':') != std::string::npos; }

// Empty if `text` is a pid or an address; else the error for the parser.
std::string place_fault(const std::string& text) {
  if (is_address(text)) {
    const Result<net::HostPort> where = net::parse_host_port(text);
    return where.ok() ? std::string() : where.status().message();
  }
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error == std::errc() && end == text.data() + text.size() && pid > 0) return {};
  return fmt::format("{} is no process id, and no HOST:PORT of a publisher", text);
}

Status show_publisher(const StatusOptions& options, bool as_json) {
  const std::string& address = options.process;
  SPARCL_ASSIGN_OR_RETURN(
      const replication::ClientSecurity security,
      replication::load_client_security(options.secret_path, trust::Role::kObserve,
                                        options.certificates_path));
  SPARCL_ASSIGN_OR_RETURN(const std::string answer,
                          replication::query_status(address, kAnswerSeconds, security));
  const Result<Json> report = parse_publisher_report(answer);
  if (!report.ok()) return report.status().with_prefix(fmt::format("publisher {}: ", address));
  return print(as_json, *report, publisher_text(*report));
}

std::string why_none(pid_t pid) {
  const bool exists = process_info(pid).exists;
  return fmt::format("process {} {}no flight record that user {} may read in {}", pid,
                     exists ? "has " : "does not exist and left ", ::geteuid(),
                     fmt::join(flight::record_folders(), ", ")) +
         (exists ? ": it has made no communicator yet, has SPARCL_FLIGHT=off, or could not write "
                   "there (SPARCL_DEBUG=debug says why). A publisher is asked at its address: "
                   "sparcl status HOST:PORT"
                 : ": it ended by itself, or its record has been removed");
}

Status remove_records(const std::vector<flight::Snapshot>& snapshots,
                      const std::vector<flight::RecordPath>& records) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (snapshots[i].life != flight::Life::kDead) {
      return Status(
          Code::kInvalidUsage,
          fmt::format("process {} is {}: only the record of a dead process can be removed",
                      records[i].pid, flight::life_name(snapshots[i].life)));
    }
    if (!flight::remove_if_dead(records[i]))
      return Status(Code::kSystemError, fmt::format("{} could not be removed", records[i].path));
  }
  return {};
}

std::string left_empty_text(pid_t pid) {
  return fmt::format(
      "process {} is DEAD and left an empty record: it ended, or got no memory, before it wrote "
      "one\n",
      pid);
}

// Records without contents: says only that.
Status show_left_empty(const std::vector<flight::RecordPath>& records, bool is_removed,
                       bool as_json) {
  const pid_t pid = records.front().pid;
  SPARCL_RETURN_IF_ERROR(
      print(as_json, {{"pid", pid}, {"process", "dead"}, {"empty", true}}, left_empty_text(pid)));
  for (const flight::RecordPath& record : records) {
    if (is_removed && !flight::remove_if_dead(record))
      return Status(Code::kSystemError, fmt::format("{} could not be removed", record.path));
  }
  return {};
}

Status show_process(pid_t pid, const StatusOptions& options, bool as_json) {
  const std::vector<flight::RecordPath> records = flight::find_records_of(pid);
  if (records.empty()) return Status(Code::kInvalidArgument, why_none(pid));
  // There is more than one only if pids were reused in different folders; the newest record is
  // meant. Other programs may have put other files there.
  std::vector<flight::RecordPath> sound, empty;
  std::vector<flight::Snapshot> snapshots;
  Status trouble;
  for (const flight::RecordPath& record : records) {
    Result<flight::Snapshot> snapshot = flight::read_record(record);
    if (!snapshot.ok()) {
      trouble = snapshot.status();
      if (flight::is_left_empty(record)) empty.push_back(record);
      continue;
    }
    sound.push_back(record);
    snapshots.push_back(std::move(*snapshot));
  }
  if (snapshots.empty())
    return empty.empty() ? trouble : show_left_empty(empty, options.remove, as_json);
  const auto newest = std::max_element(snapshots.begin(), snapshots.end(),
                                       [](const flight::Snapshot& a, const flight::Snapshot& b) {
                                         return a.head.wall_ns < b.head.wall_ns;
                                       });
  SPARCL_RETURN_IF_ERROR(
      print(as_json, process_json(*newest, monotonic_ns()), process_text(*newest, monotonic_ns())));
  return options.remove ? remove_records(snapshots, sound) : Status();
}

flight::Life life_of(const flight::SeenRecord& seen) {
  if (seen.snapshot.ok()) return seen.snapshot->life;
  return flight::is_left_empty(seen.path) ? flight::Life::kDead : flight::Life::kUnknown;
}

// The running first, the dead last.
std::vector<flight::SeenRecord> look_at_all() {
  std::vector<flight::SeenRecord> all = flight::read_records(flight::find_records());
  const auto order = [](flight::Life life) {
    return life == flight::Life::kRunning ? 0 : life == flight::Life::kDead ? 2 : 1;
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const flight::SeenRecord& a, const flight::SeenRecord& b) {
                     return order(life_of(a)) < order(life_of(b));
                   });
  return all;
}

Status list_processes(bool with_dead, bool as_json) {
  Json list = Json::array();
  std::string text;
  std::size_t hidden = 0;
  for (const flight::SeenRecord& each : look_at_all()) {
    if (life_of(each) == flight::Life::kDead && !with_dead) {
      ++hidden;
    } else if (each.snapshot.ok()) {
      list.push_back(process_summary(*each.snapshot, monotonic_ns()));
      text += process_line(*each.snapshot, monotonic_ns());
    } else if (life_of(each) == flight::Life::kDead) {
      list.push_back({{"pid", each.path.pid}, {"process", "dead"}, {"empty", true}});
      text += fmt::format("{:>8}  {:<8} {}\n", each.path.pid,
                          flight::life_name(flight::Life::kDead), "empty record");
    } else {
      list.push_back({{"pid", each.path.pid}, {"error", each.snapshot.status().message()}});
      text += fmt::format("{:>8}  {}\n", each.path.pid, each.snapshot.status().message());
    }
  }
  if (text.empty())
    text = fmt::format("no {}process of user {} has a flight record\n", hidden > 0 ? "living " : "",
                       ::geteuid());
  if (hidden > 0)
    text += fmt::format(
        "records of dead processes that are not shown: {} (--all shows, --remove removes them)\n",
        hidden);
  return print(as_json, {{"processes", list}, {"dead_hidden", hidden}}, text);
}

Status remove_all_dead(bool as_json) {
  const std::vector<pid_t> removed = flight::remove_dead_records();
  return print(as_json, {{"removed", removed}},
               fmt::format("removed the records of {} dead processes\n", removed.size()));
}

}  // namespace

void add_status(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<StatusOptions>();
  CLI::Option* process =
      app.add_option("PID", options->process,
                     "the process, a publisher or an aggregator; without it the processes "
                     "that live and have a record are listed")
          ->type_name("PID|HOST:PORT")
          ->check(place_fault, "", "");
  app.add_option("--secret", options->secret_path,
                 "of sparcl secret, role observe or more: of a publisher that has a secret "
                 "(default: SPARCL_SECRET)")
      ->check(empty_name_fault)
      ->type_name("FILE");
  add_certificates(app, options->certificates_path, "observe, or a stronger one");
  app.add_flag("--all", options->all, "list dead processes, too")->excludes(process);
  const CLI::Option* remove =
      app.add_flag("--remove", options->remove,
                   "afterwards remove the record of this process, which is dead; without PID, "
                   "instead of a list, remove the records of all dead processes");
  app.parse_complete_callback([options, remove] {
    if (remove->count() > 0 && is_address(options->process))
      throw CLI::ExcludesError("--remove", "HOST:PORT");
    if (is_address(options->process))
      take_credentials(options->secret_path, options->certificates_path);
  });
  invocation.run = [options, &invocation] {
    if (is_address(options->process)) return show_publisher(*options, invocation.json);
    pid_t pid = 0;
    const std::string& place = options->process;
    (void)std::from_chars(place.data(), place.data() + place.size(),
                          pid);  // place_fault has looked at it
    if (!place.empty()) return show_process(pid, *options, invocation.json);
    return options->remove ? remove_all_dead(invocation.json)
                           : list_processes(options->all, invocation.json);
  };
}

}  // namespace sparcl::tool
