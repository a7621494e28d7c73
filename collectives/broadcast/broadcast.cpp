#include "collectives/broadcast/broadcast.hpp"

#include <bit>
#include <optional>
#include <string>

#include "collectives/call_names.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/base/stage_range.hpp"

namespace sparcl::collectives {
namespace {

// Lanes of a call's channel.
constexpr std::uint8_t kAgreement = 0;
constexpr std::uint8_t kData = 1;
constexpr std::uint8_t kVote = 2;

FanoutPlan plan(const CommContext& comm, std::uint64_t dense_bytes) {
  Transport& transport = comm.engine->transport();
  return plan_fanout(link_cost(transport), transport.size(), guess_update_bytes(dense_bytes), comm.broadcast_algorithm,
                     comm.fragment_bytes);
}

void close_channels(Transport& transport, std::uint32_t number) {
  for (const std::uint8_t lane : {kAgreement, kData, kVote}) transport.close({number, lane});
}

// What is wrong with a stream or with what a rank holds was found far below the call: whose it was, and the way out.
Status with_way_out(const Status& verdict, std::uint32_t operation) {
  const char* way_out = "";
  if (verdict.code() == Code::kWrongBase && operation == static_cast<std::uint32_t>(CallKind::kBroadcastDelta))
    way_out = "; ranks hold the same again after a call in which the root's base is NULL: it sends all";
  if (verdict.code() == Code::kWrongBase && operation == static_cast<std::uint32_t>(CallKind::kBroadcastUpdate))
    way_out = "; ranks hold the same again after an update that sends all: the first of another root or communicator";
  return Status(verdict.code(), std::string(operation_name(operation)) + ": " + verdict.message() + way_out, verdict.scope());
}

}  // namespace

Task run_broadcast(const CommContext& comm, std::uint32_t number, BroadcastCall& call, CallReport& report) {
  Engine& engine = *comm.engine;
  if (!engine.health().ok()) co_return engine.health();
  Transport& transport = engine.transport();
  SPARCL_FAILPOINT("broadcast.begin");
  const double begin = transport.now();
  const FanoutPlan fanout = plan(comm, call.dense_bytes);
  call.fingerprint.root = call.root;
  call.fingerprint.algorithm = static_cast<std::uint8_t>(fanout.row_index);
  call.fingerprint.verify = static_cast<std::uint8_t>(comm.verify);
  call.fingerprint.fragment_log2 = static_cast<std::uint8_t>(std::countr_zero(fanout.fragment_bytes));
  report.algorithm = fanout.row->name;
  report.dense_bytes = call.dense_bytes;
  report.seconds_predicted = fanout.seconds;

  // Agree on the call; meanwhile the root encodes, and sends nothing.
  const bool valid_root = call.root >= 0 && call.root < transport.size();
  Stream stream(engine, {number, kData}, valid_root ? fanout.row->links(transport.rank(), call.root, transport.size()) : Links(),
                fanout.fragment_bytes);
  Status verdict, outcome;
  const Subject subject{.parts = call.parts};
  Task agreement = agree(engine, {number, kAgreement}, call.fingerprint, call.refusal, verdict, subject);
  engine.start(agreement);
  const bool sends = call.refusal.ok() && call.source != nullptr;
  while (sends && call.encodes_ahead && outcome.ok() && !agreement.done() && stream.wants_more_ahead(*call.source)) {
    const bool is_idle = call.source->is_waiting();
    if (!is_idle) outcome = stream.produce(*call.source);
    co_await engine.yield(is_idle);
  }
  Status alive = co_await agreement;
  if (!alive.ok()) co_return alive;
  if (!verdict.ok()) {
    close_channels(transport, number);
    co_return verdict;
  }

  SPARCL_FAILPOINT("broadcast.agreed");

  // Stream, then vote: the commit point.
  std::optional<StageRange> range("exchange");
  const double exchange_begin = transport.now();
  Task streaming = sends ? stream.send_all(*call.source, outcome) : stream.receive_all(*call.target, outcome);
  alive = co_await streaming;
  report.traffic = stream.traffic();
  if (!alive.ok()) co_return alive;
  SPARCL_FAILPOINT("broadcast.before_vote");
  // The root speaks first: what the others find wrong in a stream that it broke off comes of that.
  Task vote = agree(engine, {number, kVote}, CallFingerprint{}, outcome, verdict, Subject{}, call.root);
  alive = co_await vote;
  if (!alive.ok()) co_return alive;
  report.seconds_exchange = transport.now() - exchange_begin;
  if (!verdict.ok()) {
    stream.abandon();
    close_channels(transport, number);
    co_return with_way_out(verdict, call.fingerprint.operation);
  }

  range.emplace("commit");
  SPARCL_FAILPOINT("broadcast.before_commit");
  Task drained = stream.drain();
  if (sends) {
    call.source->commit();
  } else {
    Status committed = call.target->commit(stream.bytes());
    while (committed.ok() && call.target->is_committing()) {
      co_await engine.yield(true);
      committed = call.target->commit(stream.bytes());
    }
    if (!committed.ok()) {
      // The others are committed: this comm's ranks no longer hold one state.
      engine.fail(Status(Code::kRemoteError, "the commit failed on this rank: " + committed.message()), transport.rank());
      co_return engine.health();
    }
  }
  report.applied = true;
  SPARCL_FAILPOINT("broadcast.committed");
  report.seconds = transport.now() - begin;
  // What every rank has voted for it has received: the sends are over, or about to be.
  alive = co_await drained;
  close_channels(transport, number);
  if (!alive.ok()) log_warn("the update is applied, but the comm failed right after it: {}", alive.message());
  co_return Status();
}

}  // namespace sparcl::collectives
