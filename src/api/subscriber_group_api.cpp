// A group of subscribers, one a rank: prepare, a vote on the communicator, commit.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/group/version_round.hpp"
#include "src/api/call.hpp"
#include "src/api/call_checks.hpp"
#include "src/api/replication_handles.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/base/wait_warning.hpp"
#include "src/replication/group_choice.hpp"

namespace sparcl::api {
namespace {

using collectives::group::VersionRound;
using replication::choose;
using replication::GroupChoice;
using replication::GroupMember;
using replication::PreparedVersion;
using replication::Subscriber;

constexpr const char* kName = "sparclSubscriberNextGroup";
// A rank waits so long for an update; then all ranks hear of each other again. Heuristic.
constexpr double kRoundSeconds = 0.25;

class RoundCall final : public Call {
 public:
  // all: written after a success.
  RoundCall(Status refusal, const GroupMember& own, std::vector<std::byte>& all)
      : own_(serialise(own)), all_(all) {
    round_.refusal = std::move(refusal);
    round_.own = own_;
  }

  comm::Task run(const comm::CommContext& context, std::uint32_t number,
                 comm::CallReport& report) override {
    return collectives::group::version_round(context, number, round_, report);
  }
  const comm::CollectiveDescriptor& collective() const override {
    return collectives::group::kSubscriberNextGroup;
  }
  flight::CallNote note() const override { return {}; }
  CallWork work() const override { return {}; }
  void complete(const Status& status) override {
    if (status.ok()) all_ = std::move(round_.all);
  }

 private:
  std::array<std::byte, GroupMember::kBytes> own_;
  std::vector<std::byte>& all_;
  VersionRound round_;
};

// One call of one rank. Every rank makes the same rounds, because each decides by the same words.
class GroupCommit {
 public:
  // subscriber: nullptr with a refusal.
  GroupCommit(sparclComm& comm, sparclSubscriber* subscriber, Status refusal, double seconds)
      : comm_(comm),
        subscriber_(subscriber),
        refusal_(std::move(refusal)),
        seconds_(seconds),
        begin_(Clock::now()) {}
  ~GroupCommit() {
    if (subscriber_ != nullptr) subscriber_->subscriber->want_no_more();
  }
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  sparclResult_t run(std::uint64_t* version) {
    prepare({}, 0);  // a wrong argument of another rank is known at once
    for (;;) {
      std::vector<std::byte> all;
      if (const sparclResult_t result = round(all); result != sparclSuccess) return result;
      const Result<std::vector<GroupMember>> members = replication::parse_group(all);
      if (!members.ok()) return poison(members.status());
      const GroupChoice choice = choose(*members);
      if (choice.next == GroupChoice::Next::kCommit) return commit(choice.version.version, version);
      if (choice.next == GroupChoice::Next::kGiveUp) return give_up(*members, choice.version);
      wait(*members, choice.version);
      warn_of_wait(choice.version);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  double lasted_s() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  static bool is_any_behind(std::span<const GroupMember> members, const PreparedVersion& newest) {
    return std::ranges::any_of(members,
                               [&](const GroupMember& each) { return each.can.newest() < newest; });
  }

  // A rank that is behind waits for what it lacks. The others wait for it in the next round.
  void wait(std::span<const GroupMember> members, const PreparedVersion& newest) {
    if (own_.can.newest() < newest) return prepare(newest, kRoundSeconds);
    if (is_any_behind(members, newest)) return prepare({}, 0);
    // Ranks that go back, each to another version.
    if (!own_.can.ready.empty())
      std::this_thread::sleep_for(std::chrono::duration<double>(kRoundSeconds));
    prepare({}, kRoundSeconds);
  }

  void prepare(const PreparedVersion& wanted, double patience) {
    if (!refusal_.ok()) return;
    const double left = std::max(seconds_ - lasted_s(), 0.0);
    const Result<Subscriber::Prepared> prepared =
        subscriber_->subscriber->prepare(std::min(patience, left), wanted);
    refusal_ = in_call(kName, prepared.status());
    if (prepared.ok()) own_.can = *prepared;
    own_.is_out_of_time = lasted_s() >= seconds_;
  }

  sparclResult_t round(std::vector<std::byte>& all) {
    return launch(&comm_, std::make_unique<RoundCall>(refusal_, own_, all), nullptr);
  }

  sparclResult_t poison(const Status& why) {
    comm_.engine.fail(why, comm_.transport->rank());
    return report_error(&comm_, comm_.engine.health());
  }

  // Every rank has said that it can show the version. The last round tells whether all do.
  sparclResult_t commit(std::uint64_t chosen, std::uint64_t* version) {
    SPARCL_FAILPOINT("group.voted");
    const Status status = note_swap(*subscriber_, subscriber_->subscriber->commit(chosen));
    SPARCL_FAILPOINT("group.committed");
    refusal_ = status.with_prefix(
        fmt::format("{}: the commit of version {} failed on this rank, and other ranks may show "
                    "it (sparclSubscriberVersion). Call again: ",
                    kName, chosen));
    std::vector<std::byte> all;
    const sparclResult_t result = round(all);
    if (result == sparclSuccess && version != nullptr) *version = chosen;
    return result;
  }

  // Time is over on some rank. The ranks that are behind say why; if none is, all do.
  sparclResult_t give_up(std::span<const GroupMember> members, const PreparedVersion& newest) {
    const bool is_behind = own_.can.newest() < newest;
    if (is_behind || !is_any_behind(members, newest))
      refusal_ = why_nothing_comes(is_behind ? newest : PreparedVersion());
    std::vector<std::byte> all;
    const sparclResult_t result = round(all);
    return result != sparclSuccess ? result : report_error(&comm_, no_common(newest));
  }

  // missing: what another rank has; version 0: none has more.
  Status why_nothing_comes(const PreparedVersion& missing) const {
    const Status why = subscriber_->subscriber->nothing_newer(seconds_);
    if (missing.version == 0) return in_call(kName, why);
    const PreparedVersion own = own_.can.newest();
    const bool is_of_another = own.version != 0 && own.epoch != missing.epoch;
    return why.with_prefix(fmt::format(
        "{}: version {}{}, which another rank has, has not come to this rank{}: ", kName,
        missing.version, is_of_another ? " of another publisher" : "",
        is_of_another ? " (all ranks must subscribe to one publisher)" : ""));
  }

  Status no_common(const PreparedVersion& newest) const {
    return Status(Code::kTimeout,
                  fmt::format("{}: the ranks have prepared no version that all of them can show "
                              "within {:g} s; the newest one is {}. Allow more time, and pin no "
                              "rank to another version",
                              kName, seconds_, newest.version));
  }

  void warn_of_wait(const PreparedVersion& newest) {
    const double lasted = lasted_s();
    if (!warning_.is_due(lasted)) return;
    log_warn("{} has waited {:.3g} s: this rank has version {}, the newest that any rank has is {}",
             kName, lasted, own_.can.newest().version, newest.version);
  }

  sparclComm& comm_;
  sparclSubscriber* subscriber_;
  Status refusal_;
  double seconds_;
  Clock::time_point begin_;
  GroupMember own_;
  WaitWarning warning_;
};

// A rank that cannot take part says so: the others wait for it.
sparclResult_t next_group(sparclComm& comm, sparclSubscriber_t subscriber, double seconds,
                          std::uint64_t* version) {
  const Held<sparclSubscriber> held(subscriber, "subscriber");
  Status refusal = held.status();
  if (refusal.ok() && !held->subscriber->is_own_process())
    refusal = Status(Code::kInvalidUsage,
                     "this subscriber belongs to the parent process: make "
                     "another one in the child of fork()");
  if (refusal.ok() && std::isnan(seconds))
    refusal = Status(Code::kInvalidArgument, "seconds is NaN");
  if (refusal.ok()) refusal = check_takes_updates(*held, kName);
  sparclSubscriber* const own = refusal.ok() ? held.get() : nullptr;
  return GroupCommit(comm, own, in_call(kName, std::move(refusal)), seconds).run(version);
}

}  // namespace
}  // namespace sparcl::api

extern "C" sparclResult_t sparclSubscriberNextGroup(sparclSubscriber_t subscriber, double seconds,
                                                    uint64_t* version, sparclComm_t comm) {
  return sparcl::api::start_call(__func__, comm, true, [&](sparclComm* own) {
    return sparcl::api::next_group(*own, subscriber, seconds, version);
  });
}
