// A communicator of the survivors, after a failure.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "src/api/call.hpp"
#include "src/api/comm.hpp"
#include "src/api/error.hpp"
#include "src/base/caught_error.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/transport/survivors/survivor_agreement.hpp"
#include "src/transport/survivors/survivor_gather.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::transport::Transport;
using sparcl::transport::Verdict;

namespace {

// No call gets these numbers (kCallNumbers).
constexpr std::uint32_t kAgreementCall = UINT32_MAX;
constexpr std::uint32_t kFirstGatherCall = UINT32_MAX - 1;  // and down, one an attempt

Status check_shrink(const sparclComm& comm) {
  if (!comm.shrunk.ok()) return comm.shrunk;
  if (!comm.transport->capabilities().has_successors) {
    const bool is_ucx = comm.transport->name() == "ucx";
    return Status(
        Code::kUnsupported,
        is_ucx ? "without heartbeats the survivors are unknown: set SPARCL_HEARTBEAT=on (or "
                 "config.heartbeat) on all ranks"
               : fmt::format("transport {} cannot go on with the survivors. Use ucx, with "
                             "SPARCL_HEARTBEAT=on (sparclCommInitMpi with SPARCL_TRANSPORT=ucx, or "
                             "sparclCommInitRank, also from threads)",
                             comm.transport->name()));
  }
  if (comm.engine.health().ok() && !comm.pending.empty()) {
    return Status(Code::kInvalidUsage,
                  "requests are in flight: wait for them, or give them up with sparclCommAbort");
  }
  return {};
}

std::vector<int> living(const Verdict& verdict) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < verdict.dead.size(); ++i) {
    if (!verdict.dead[i]) ranks.push_back(static_cast<int>(i));
  }
  return ranks;
}

// An exception of a stage becomes its error: the rank refuses in the agreement that follows.
template <class Stage>
Status without_exceptions(Stage&& stage) {
  try {
    return stage();
  } catch (const std::exception&) {
    return sparcl::caught_error("the survivors could not meet");
  }
}

// Each stage ends with an agreement, so that no survivor goes on with a communicator that another
// survivor does not have. If a rank dies in between, the live ranks begin a new attempt.
class Shrink {
 public:
  explicit Shrink(sparclComm& comm)
      : old_(*comm.transport),
        timeout_s_(comm.engine.timeout_s()),
        agreement_(old_, {kAgreementCall, 0}) {}

  Result<std::unique_ptr<Transport>> run() {
    Result<Verdict> verdict = agree(true);
    for (std::uint32_t attempt = 0; verdict.ok(); ++attempt) {
      const Verdict begun = *verdict;
      Status own = without_exceptions([&] { return meet(begun, attempt); });
      verdict = agree(own.ok());
      if (verdict.ok() && verdict->all_said_yes && verdict->dead == begun.dead) {
        own = without_exceptions([&] {
          Status connected = successor_->connect(timeout_s_);
          SPARCL_FAILPOINT("shrink.connected");
          return connected;
        });
        verdict = agree(own.ok());
        if (verdict.ok() && verdict->all_said_yes && verdict->dead == begun.dead)
          return std::move(successor_);
      }
      successor_.reset();
      if (verdict.ok() && verdict->dead == begun.dead) {  // trying again would not help
        return own.ok() ? Status(Code::kRemoteError,
                                 "another survivor could not connect: its own error says why")
                        : own;
      }
    }
    return verdict.status();
  }

 private:
  // Each rank tells the ranks that are left out. A live rank among them must never take this rank's
  // end for the end of all ranks that go on.
  Result<Verdict> agree(bool yes) {
    Result<Verdict> verdict = agreement_.agree(yes, timeout_s_);
    for (int rank = 0; verdict.ok() && rank < old_.size(); ++rank) {
      if (verdict->dead[static_cast<std::size_t>(rank)]) old_.go_on_without(rank);
    }
    return verdict;
  }

  Status meet(const Verdict& verdict, std::uint32_t attempt) {
    const std::vector<int> ranks = living(verdict);
    bool has_told = false;
    const sparcl::transport::OutOfBandGather gather = [&](std::span<const std::byte> own) {
      has_told = true;
      return sparcl::transport::survivor_gather(old_, {kFirstGatherCall - attempt, 0}, ranks, own,
                                                timeout_s_);
    };
    const auto rank = std::find(ranks.begin(), ranks.end(), old_.rank()) - ranks.begin();
    const Status own = without_exceptions([&]() -> Status {
      SPARCL_RETURN_IF_ERROR(check_others(verdict, ranks));
      SPARCL_FAILPOINT("shrink.meeting");
      Result<std::unique_ptr<Transport>> made =
          old_.make_successor(static_cast<int>(rank), static_cast<int>(ranks.size()), gather);
      SPARCL_FAILPOINT("shrink.met");
      if (made.ok()) successor_ = std::move(*made);
      return made.status();
    });
    if (!own.ok() && !has_told) (void)gather({});  // no bytes instead of a card: a refusal
    return own;
  }

  // A silent rank may still be alive, and go on with other ranks. Only the majority therefore goes
  // on. On a tie, the half that contains the lowest rank goes on.
  Status check_others(const Verdict& verdict, std::span<const int> ranks) const {
    constexpr double kSeconds = 5;  // in which the end of a process becomes known
    // A rank that knows already waits for the other ranks in the gather.
    const double until = old_.now() + std::min(kSeconds, timeout_s_ / 4);
    std::vector<sparcl::transport::OperationRef> completed;
    for (std::uint64_t turns = 0;; ++turns) {
      std::vector<int> may_go_on;
      bool is_known = true;
      for (int rank = 0; rank < old_.size(); ++rank) {
        if (!verdict.dead[static_cast<std::size_t>(rank)]) continue;
        const Transport::PeerEnd end = old_.end_of(rank);
        if (end != Transport::PeerEnd::kSure) may_go_on.push_back(rank);
        is_known &= end != Transport::PeerEnd::kUnknown;
      }
      if (ranks.size() > may_go_on.size() ||
          (ranks.size() == may_go_on.size() && ranks.front() < may_go_on.front()))
        return {};
      if (is_known || old_.now() >= until) {
        return Status(Code::kRemoteError,
                      fmt::format("rank {} cannot be reached, but may live and go on without this "
                                  "one: of two parts only the larger goes on, of two alike that "
                                  "with the lowest rank. End here, or start anew",
                                  fmt::join(may_go_on, ", rank ")));
      }
      (void)old_.progress(completed);
      old_.idle(turns, until);
    }
  }

  Transport& old_;
  double timeout_s_;
  sparcl::transport::SurvivorAgreement agreement_;
  std::unique_ptr<Transport> successor_;
};

Result<std::unique_ptr<sparclComm>> shrink(sparclComm& comm) {
  SPARCL_RETURN_IF_ERROR(check_shrink(comm));
  if (comm.engine.health().ok()) {
    comm.engine.fail(Status(Code::kRemoteError,
                            fmt::format("rank {} called sparclCommShrink", comm.transport->rank())),
                     -1);
  }
  comm.finish_pending();
  if (comm.context.window != nullptr) comm.context.window->give_memory_up();
  comm.shrunk =
      Status(Code::kInvalidUsage, "sparclCommShrink was called on this communicator before");
  Result<std::unique_ptr<Transport>> transport = Shrink(comm).run();
  comm.trail.event("CommShrink", transport.status().code());
  if (!transport.ok()) return transport.status();
  sparcl::log_info("rank {} of {} is rank {} of {} survivors", comm.transport->rank(),
                   comm.transport->size(), (*transport)->rank(), (*transport)->size());
  Result<std::unique_ptr<sparclComm>> survivors =
      sparcl::api::make_comm(std::move(*transport), &comm.config);
  if (survivors.ok()) SPARCL_RETURN_IF_ERROR(sparcl::api::start_comm(**survivors));
  return survivors;
}

}  // namespace

extern "C" sparclResult_t sparclCommShrink(sparclComm_t comm, sparclComm_t* survivors) {
  return sparcl::api::guarded_in(__func__, comm, [&](sparclComm& own) -> Status {
    if (survivors == nullptr) return Status(Code::kInvalidArgument, "survivors is NULL");
    SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<sparclComm> made, shrink(own));
    *survivors = made.release()->handle.get();
    return Status();
  });
}
