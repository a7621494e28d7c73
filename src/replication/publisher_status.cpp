// The counts and the report of a publisher: replicas that hold a version, and the status as JSON.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "src/replication/publisher.hpp"
#include "src/replication/report_text.hpp"

namespace sparcl::replication {
namespace {

constexpr double kReportPause =
    20;  // times what a report took, until another one is made; heuristic
constexpr std::size_t kMaxDepartures = 4096;
constexpr std::size_t kMaxReported =
    1000;  // replicas, so that an answer takes a bounded time; of long names fewer have room

}  // namespace

// The same replica: by its receipt, or another one of its process. A name alone is anybody's word.
bool Publisher::is_again(const Departure& departure, const SessionMachine& session) {
  if (departure.receipt == session.last_receipt()) return true;
  const auto same_host = [](const std::optional<net::NetAddress>& a,
                            const std::optional<net::NetAddress>& b) {
    return a && b && a->family == b->family && a->ip == b->ip;
  };
  return departure.process == session.process() && same_host(departure.from, session.from());
}

// The version that a departed replica held counts for wait(). That of a lost replica does not.
void Publisher::note_departure(const SessionMachine& session) {
  if (session.acknowledged_version() == 0) return;
  departures_.push_back(
      {session.receipt(), session.process(), session.from(), session.acknowledged_version()});
  if (departures_.size() > kMaxDepartures) departures_.pop_front();
}

Publisher::Count Publisher::count_locked(std::uint64_t version) const {
  Count count;
  count.left = static_cast<int>(std::ranges::count_if(
      departures_, [&](const Departure& each) { return each.version >= version; }));
  for (const auto& each : server_->sessions()) {
    const SessionMachine& session = each->machine();
    if (!session.is_replica()) continue;
    ++count.connected;
    // A number alone says nothing: the bytes must be of this life's versions, and it must have been
    // given them.
    const bool is_held = session.acknowledged_version() >= std::max<std::uint64_t>(version, 1);
    if (is_held) ++count.holding;
    if (is_held || session.received_version() >= std::max<std::uint64_t>(version, 1))
      ++count.staged;
  }
  return count;
}

Publisher::Count Publisher::count(std::uint64_t version) const {
  const std::lock_guard lock(mutex_);
  return count_locked(version);
}

Status Publisher::wait(std::uint64_t version, int replicas, double seconds) {
  return wait_for(version, replicas, seconds, &Count::holding, "hold");
}

Status Publisher::wait_staged(std::uint64_t version, int replicas, double seconds) {
  return wait_for(version, replicas, seconds, &Count::staged, "have received");
}

Status Publisher::wait_for(std::uint64_t version, int replicas, double seconds, int Count::*which,
                           const char* do_what) {
  std::unique_lock lock(mutex_);
  const auto reached = [&](const Count& count) { return count.*which + count.left; };
  const auto enough = [&] { return reached(count_locked(version)) >= replicas; };
  const auto limit = std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8));
  if (changed_.wait_for(lock, limit, enough)) return {};
  const Count now = count_locked(version);
  return Status(Code::kTimeout,
                fmt::format("{} of {} replicas {} version {} after {:g} s; {} are connected",
                            reached(now), replicas, do_what, version, seconds, now.connected));
}

std::string Publisher::status() const {
  const std::lock_guard lock(mutex_);
  return status_locked();
}

// A report of a thousand replicas takes milliseconds: those who ask again and again take a small
// part of the thread's time.
const std::string& Publisher::cached_report() {
  const double begin = net::monotonic_seconds();
  if (begin - report_.made_at < kReportPause * report_.took_s) return report_.text;
  report_.text = status_locked();
  report_.made_at = net::monotonic_seconds();
  report_.took_s = report_.made_at - begin;
  return report_.text;
}

std::string Publisher::status_locked() const {
  ReportFields report;
  report["publisher"] = context_.name;
  report["model_id"] = options_.model_id;
  report["address"] = address_;
  const std::uint64_t newest = whole_->store().newest() ? whole_->store().newest()->version : 0;
  report["version"] = newest;
  report["hash"] = whole_->store().newest() ? to_hex(whole_->store().newest()->hash) : "";
  report["signed"] = issuer_.keys.load() != nullptr;
  report["acknowledgements"] =
      "advisory";  // replicas prove neither their identity nor their version
  report["tensor_bytes"] = whole_->tensor_bytes();
  report["kept_updates"] = whole_->store().updates();
  std::uint64_t kept_bytes = 0;
  for (const FeedRef& feed : feeds()) kept_bytes += feed->store().bytes();
  report["kept_bytes"] = kept_bytes;
  report["peer_bytes"] = context_.budget->used();
  report["peer_bytes_limit"] = context_.budget->limit();
  report["peer_bytes_unproven"] = context_.budget->unproven();
  report["peer_bytes_unproven_limit"] = context_.budget->unproven_limit();
  const int connected = count_locked(0).connected;
  report["replicas_connected"] = connected;
  report["replicas_lost"] = context_.counts->lost;
  report["parents_blamed"] = context_.counts->blamed;
  report["connections_refused"] = context_.counts->refused;
  report["connections_evicted"] = context_.counts->evicted;
  ReportFields refused;
  for (std::size_t i = 0; i < kRefusalNames.size(); ++i)
    refused[kRefusalNames[i]] = context_.counts->by_reason[i];
  report["refused"] = refused;
  ReportText text(report, "replicas");
  std::size_t reported = 0;
  for (const auto& each : server_->sessions()) {
    if (!each->machine().is_replica()) continue;
    if (reported == kMaxReported || !text.add(report_of(*each, newest))) break;
    ++reported;
  }
  return text.text(static_cast<std::size_t>(connected) - reported);
}

ReportFields Publisher::report_of(const Session& each, std::uint64_t newest) const {
  const SessionMachine& session = each.machine();
  const FanOut& fan_out = *session.feed()->fan_out;
  const SessionMachine* from = server_->find_machine(fan_out.parent(session.id()));
  // A version that was not published here is unknown: its number may be anything that the peer
  // says.
  const std::uint64_t held = session.held_version();
  ReportFields::Value version, lag;
  if (session.is_held_known()) {
    version = held;
    lag = newest > held ? newest - held : 0;
  }
  return {{"name", shown_name(session.replica())},
          {"replica", shown_name(session.label().name)},
          {"host", shown_name(session.label().host)},
          {"slot", session.label().slot},
          {"version", version},
          {"vouched", session.is_vouched()},
          {"lag", lag},
          {"staged", session.staged_version()},
          {"tensor_bytes", session.feed()->tensor_bytes},
          {"bytes_sent", each.bytes_sent()},
          {"bytes_shared", session.bytes_shared()},
          {"refused", session.refused()},
          {"expelled", fan_out.is_expelled(session.id())},
          {"from", from != nullptr          ? shown_name(from->replica())
                   : session.is_only_told() ? "elsewhere"
                                            : "publisher"},
          {"state", session.state()}};
}

}  // namespace sparcl::replication
