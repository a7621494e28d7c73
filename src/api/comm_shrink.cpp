// A communicator of the survivors, after a failure.

#include <fmt/format.h>

#include <exception>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "src/api/call.hpp"
#include "src/api/comm.hpp"
#include "src/api/error.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/transport/survivors/survivor_agreement.hpp"
#include "src/transport/survivors/survivor_gather.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::Transport;
using sparcl::Verdict;
using sparcl::api::guarded;

namespace {

// No call gets these numbers.
constexpr std::uint32_t kAgreementCall = UINT32_MAX;
constexpr std::uint32_t kFirstGatherCall = UINT32_MAX - 1;  // and down, one an attempt

Status check_shrink(const sparclComm& comm) {
  if (!comm.shrunk.ok()) return comm.shrunk;
  if (!comm.transport->capabilities().has_successors) {
    return Status(Code::kUnsupported,
                  fmt::format("transport {} cannot go on with the survivors: SPARCL_TRANSPORT=ucx can, with SPARCL_HEARTBEAT=on",
                              comm.transport->name()));
  }
  if (comm.engine.health().ok() && !comm.pending.empty()) {
    return Status(Code::kInvalidUsage, "requests are in flight: wait for them, or give them up with sparclCommAbort");
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

// A stage whose exception is its error: the rank takes part in the agreement that follows, by its refusal.
template <class Stage>
Status without_exceptions(Stage&& stage) {
  try {
    return stage();
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "out of memory while the survivors meet");
  } catch (const std::exception& error) {
    return Status(Code::kInternalError, fmt::format("unexpected exception while the survivors meet: {}", error.what()));
  }
}

// Each stage ends with an agreement, so that no survivor goes on with a communicator that another one does not have. A death in
// between begins a new attempt with those that are left.
class Shrink {
 public:
  explicit Shrink(sparclComm& comm)
      : old_(*comm.transport), timeout_s_(comm.engine.timeout_s()), agreement_(old_, {kAgreementCall, 0}) {}

  Result<std::unique_ptr<Transport>> run() {
    Result<Verdict> verdict = agreement_.agree(true, timeout_s_);
    for (std::uint32_t attempt = 0; verdict.ok(); ++attempt) {
      const Verdict begun = *verdict;
      Status own = without_exceptions([&] { return meet(begun, attempt); });
      verdict = agreement_.agree(own.ok(), timeout_s_);
      if (verdict.ok() && verdict->all_said_yes && verdict->dead == begun.dead) {
        own = without_exceptions([&] {
          Status connected = successor_->connect(timeout_s_);
          SPARCL_FAILPOINT("shrink.connected");
          return connected;
        });
        verdict = agreement_.agree(own.ok(), timeout_s_);
        if (verdict.ok() && verdict->all_said_yes && verdict->dead == begun.dead) return std::move(successor_);
      }
      successor_.reset();
      if (verdict.ok() && verdict->dead == begun.dead) {  // trying again would not help
        return own.ok() ? Status(Code::kRemoteError, "another survivor could not connect: its own error says why") : own;
      }
    }
    return verdict.status();
  }

 private:
  Status meet(const Verdict& verdict, std::uint32_t attempt) {
    const std::vector<int> ranks = living(verdict);
    bool has_told = false;
    const sparcl::OutOfBandGather gather = [&](std::span<const std::byte> own) {
      has_told = true;
      return sparcl::survivor_gather(old_, {kFirstGatherCall - attempt, 0}, ranks, own, timeout_s_);
    };
    const auto rank = std::find(ranks.begin(), ranks.end(), old_.rank()) - ranks.begin();
    const Status own = without_exceptions([&] {
      SPARCL_FAILPOINT("shrink.meeting");
      Result<std::unique_ptr<Transport>> made = old_.make_successor(static_cast<int>(rank), gather);
      SPARCL_FAILPOINT("shrink.met");
      if (made.ok()) successor_ = std::move(*made);
      return made.status();
    });
    if (!own.ok() && !has_told) (void)gather({});  // nothing where the others expect a card is a refusal
    return own;
  }

  Transport& old_;
  double timeout_s_;
  sparcl::SurvivorAgreement agreement_;
  std::unique_ptr<Transport> successor_;
};

Result<std::unique_ptr<sparclComm>> shrink(sparclComm& comm) {
  SPARCL_RETURN_IF_ERROR(check_shrink(comm));
  if (comm.engine.health().ok()) {
    comm.engine.fail(Status(Code::kRemoteError, fmt::format("rank {} called sparclCommShrink", comm.transport->rank())), -1);
  }
  comm.finish_pending();
  comm.shrunk = Status(Code::kInvalidUsage, "sparclCommShrink was called on this communicator before");
  Result<std::unique_ptr<Transport>> transport = Shrink(comm).run();
  comm.trail.event("CommShrink", transport.status().code());
  if (!transport.ok()) return transport.status();
  sparcl::log_info("rank {} of {} is rank {} of {} survivors", comm.transport->rank(), comm.transport->size(), (*transport)->rank(),
                   (*transport)->size());
  Result<std::unique_ptr<sparclComm>> survivors = sparcl::api::make_comm(std::move(*transport), &comm.config);
  if (survivors.ok()) SPARCL_RETURN_IF_ERROR(sparcl::api::start_comm(**survivors));
  return survivors;
}

}  // namespace

extern "C" sparclResult_t sparclCommShrink(sparclComm_t comm, sparclComm_t* survivors) {
  return guarded(comm, [&]() -> Status {
    if (comm == nullptr) return Status(Code::kInvalidArgument, "sparclCommShrink: comm is NULL");
    if (survivors == nullptr) return Status(Code::kInvalidArgument, "sparclCommShrink: survivors is NULL");
    Result<std::unique_ptr<sparclComm>> made = shrink(*comm);
    if (!made.ok()) return made.status().with_prefix("sparclCommShrink: ");
    *survivors = made->release();
    return Status();
  });
}
