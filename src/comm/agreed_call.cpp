#include "src/comm/agreed_call.hpp"

#include <string>
#include <utility>

#include "src/base/failpoint.hpp"
#include "src/comm/device/device_calls.hpp"
#include "src/comm/engine/collective_descriptor.hpp"

namespace sparcl::comm {
namespace {

// "broadcast.begin", "allreduce.begin".
[[maybe_unused]] std::string failpoint(const Engine& engine, const CallTerms& terms,
                                       const char* stage) {
  const CollectiveDescriptor* const collective =
      find_collective(engine.collectives(), terms.fingerprint.operation);
  return std::string(collective != nullptr && collective->has_root ? "broadcast." : "allreduce.") +
         stage;
}

void join_health(DeviceCalls* gpus, Engine& engine) {
  if (gpus != nullptr) gpus->exchange_health(engine);
}

}  // namespace

Task agreed_call(const CommContext& comm, std::uint32_t number, std::unique_ptr<CallBody> given,
                 CallReport& report) {
  // Destroyed at the end of the call, and not when its caller releases the task.
  const std::unique_ptr<CallBody> body = std::move(given);
  Engine& engine = *comm.engine;
  join_health(body->gpus(), engine);
  if (!engine.health().ok()) co_return engine.health();
  transport::Transport& transport = engine.transport();
  const double begin = transport.now();
  CallTerms terms = body->terms();
  SPARCL_FAILPOINT(failpoint(engine, terms, "begin"));

  Status verdict;
  Task agreement = agree(engine, {number, kAgreementLane}, terms.fingerprint, terms.refusal,
                         verdict, terms.subject, 0, &terms.extents);
  engine.start(agreement);
  while (!agreement.done()) {
    const Ahead ahead = body->work_ahead();
    if (ahead == Ahead::kDone) break;
    co_await engine.yield(ahead == Ahead::kWaits);
  }
  const Status alive = co_await agreement;
  if (!alive.ok()) {
    join_health(body->gpus(), engine);  // earlier calls' work in streams ends, too
    co_return alive;
  }
  if (!verdict.ok()) {
    transport.close({number, kAgreementLane});
    co_return verdict;
  }
  SPARCL_FAILPOINT(failpoint(engine, terms, "agreed"));

  Task running = body->run(terms.extents);
  const Status status = co_await running;
  report.seconds = transport.now() - begin;
  if (!engine.health().ok()) {
    join_health(body->gpus(), engine);
    co_return status;
  }
  for (std::uint8_t lane = kAgreementLane; lane < body->lanes(); ++lane)
    transport.close({number, lane});
  co_return status;
}

}  // namespace sparcl::comm
