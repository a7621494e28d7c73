#include "collectives/broadcast/broadcast.hpp"

#include <bit>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "collectives/broadcast/gpu_stream.hpp"
#include "collectives/broadcast/message_stream.hpp"
#include "collectives/broadcast/part_list.hpp"
#include "src/base/caught_error.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/base/stage_range.hpp"
#include "src/comm/device/device_calls.hpp"

namespace sparcl::collectives::broadcast {
namespace {

// Lanes of a call's channel.
constexpr std::uint8_t kData = 1;
constexpr std::uint8_t kVote = 2;

FanoutPlan plan(const CommContext& comm, std::uint64_t dense_bytes) {
  transport::Transport& transport = comm.engine->transport();
  const std::string& forced =
      comm.broadcast_algorithm == kNcclFanoutName ? "auto" : comm.broadcast_algorithm;
  return plan_fanout(link_cost(transport), transport.size(), comm::guess_update_bytes(dense_bytes),
                     forced, comm.fragment_bytes);
}

// What NCCL asks of the host, a launch each fragment, is worth it from here on. Heuristic, not
// measured on GPUs.
constexpr std::uint64_t kMinForNccl = std::uint64_t{16} << 20;

// The same on all ranks: the arrays may lie where they like.
bool rides_on_nccl(const CommContext& comm, const BroadcastCall& call) {
  if (comm.device == nullptr || !call.is_blocking || comm.engine->transport().size() == 1)
    return false;
  if (comm.broadcast_algorithm != "auto") return comm.broadcast_algorithm == kNcclFanoutName;
  return call.dense_bytes == 0 || call.dense_bytes >= kMinForNccl;
}

// Over messages, in the cheapest of the fan-outs.
std::unique_ptr<Stream> open_messages(const CommContext& comm, std::uint32_t number,
                                      BroadcastCall& call, CallReport& report) {
  const transport::Transport& transport = comm.engine->transport();
  const FanoutPlan fanout = plan(comm, call.dense_bytes);
  call.fingerprint.algorithm = static_cast<std::uint8_t>(fanout.row_index);
  call.fingerprint.fragment_log2 =
      static_cast<std::uint8_t>(std::countr_zero(fanout.fragment_bytes));
  report.algorithm = fanout.row->name;
  report.seconds_predicted = fanout.seconds;
  const bool is_valid = call.root >= 0 && call.root < transport.size();
  Links links =
      is_valid ? fanout.row->links(transport.rank(), call.root, transport.size()) : Links();
  return std::make_unique<MessageStream>(*comm.engine, transport::Channel{number, kData},
                                         std::move(links), fanout.fragment_bytes);
}

// This rank's end of the call's stream. Where its memory cannot be had the call is refused, and the
// stream left alone.
std::unique_ptr<Stream> open_stream(const CommContext& comm, std::uint32_t number,
                                    BroadcastCall& call, CallReport& report) {
  if (!rides_on_nccl(comm, call)) return open_messages(comm, number, call, report);
  Result<std::shared_ptr<comm::FragmentMemory>> memory = comm.device->fragment_memory();
  if (!memory.ok() && call.refusal.ok()) call.refusal = memory.status();
  call.fingerprint.algorithm = kNcclFanout;
  report.algorithm = kNcclFanoutName;
  return std::make_unique<GpuStream>(*comm.engine, transport::Channel{number, kData}, *comm.device,
                                     memory.ok() ? std::move(*memory) : nullptr, call.root);
}

void close_channels(transport::Transport& transport, std::uint32_t number) {
  for (const std::uint8_t lane : {kAgreementLane, kData, kVote}) transport.close({number, lane});
}

// What is wrong with a stream or with what a rank holds was found far below the call: whose it was,
// and the way out.
Status with_way_out(const Status& verdict, const CommContext& comm, std::uint32_t operation) {
  const char* way_out = "";
  if (verdict.code() == Code::kWrongBase &&
      operation == static_cast<std::uint32_t>(CallKind::kBroadcastDelta))
    way_out =
        "; ranks hold the same again after a call in which the root's base is NULL: it sends all";
  if (verdict.code() == Code::kWrongBase &&
      operation == static_cast<std::uint32_t>(CallKind::kBroadcastUpdate))
    way_out =
        "; ranks hold the same again after an update that sends all: the first of another root or "
        "communicator";
  const CollectiveDescriptor* const collective =
      comm::find_collective(comm.engine->collectives(), operation);
  const std::string name(collective != nullptr ? collective->name : "a broadcast");
  return Status(verdict.code(), name + ": " + verdict.message() + way_out, verdict.scope());
}

}  // namespace

Task run_broadcast(const CommContext& comm, std::uint32_t number, BroadcastCall& call,
                   CallReport& report) {
  Engine& engine = *comm.engine;
  if (!engine.health().ok()) co_return engine.health();
  transport::Transport& transport = engine.transport();
  SPARCL_FAILPOINT("broadcast.begin");
  const double begin = transport.now();
  call.fingerprint.root = call.root;
  call.fingerprint.verify = static_cast<std::uint8_t>(comm.verify);
  report.dense_bytes = call.dense_bytes;
  const std::unique_ptr<Stream> opened = open_stream(comm, number, call, report);
  Stream& stream = *opened;

  // Agree on the call; meanwhile the root encodes, and sends nothing.
  Status verdict, outcome;
  const Subject subject = PartList::subject(call.parts);
  Extents extents{.has_device_arrays = call.is_on_device ? 1U : 0U};
  Task agreement = agree(engine, {number, kAgreementLane}, call.fingerprint, call.refusal, verdict,
                         subject, 0, &extents);
  engine.start(agreement);
  const bool sends = call.refusal.ok() && call.source != nullptr;
  try {
    while (sends && call.encodes_ahead && outcome.ok() && !agreement.done() &&
           stream.wants_more_ahead(*call.source)) {
      const bool is_idle = call.source->is_waiting();
      if (!is_idle) outcome = stream.produce(*call.source);
      co_await engine.yield(is_idle);
    }
  } catch (const std::exception&) {  // the agreement goes on
    outcome = caught_error("an update could not be encoded");
  }
  Status alive = co_await agreement;
  if (!alive.ok()) co_return alive;
  if (verdict.ok() && call.is_blocking &&
      call.fingerprint.operation < comm.devices_take_part->size())
    (*comm.devices_take_part)[call.fingerprint.operation] = extents.has_device_arrays != 0;
  if (!verdict.ok()) {
    close_channels(transport, number);
    co_return verdict;
  }

  SPARCL_FAILPOINT("broadcast.agreed");

  // Stream, then vote: the commit point.
  std::optional<StageRange> range("exchange");
  const double exchange_begin = transport.now();
  Task streaming =
      sends ? stream.send_all(*call.source, outcome) : stream.receive_all(*call.target, outcome);
  alive = co_await streaming;
  report.traffic = stream.traffic();
  if (!alive.ok()) co_return alive;
  SPARCL_FAILPOINT("broadcast.before_vote");
  // The root speaks first: what the others find wrong in a stream that it broke off comes of that.
  Task vote =
      agree(engine, {number, kVote}, CallFingerprint{}, outcome, verdict, Subject{}, call.root);
  alive = co_await vote;
  if (!alive.ok()) co_return alive;
  report.seconds_exchange = transport.now() - exchange_begin;
  if (!verdict.ok()) {
    stream.abandon();
    close_channels(transport, number);
    co_return with_way_out(verdict, comm, call.fingerprint.operation);
  }

  range.emplace("commit");
  SPARCL_FAILPOINT("broadcast.before_commit");
  Task drained = stream.drain();
  if (sends) {
    call.source->commit();
  } else {
    Status committed = call.target->commit(stream.bytes());
    while (committed.ok() && call.target->is_committing()) {
      SPARCL_FAILPOINT("broadcast.committing");
      co_await engine.yield(true);
      committed = call.target->commit(stream.bytes());
    }
    if (!committed.ok()) {
      // The others are committed: this comm's ranks no longer hold one state.
      engine.fail(
          Status(Code::kRemoteError, "the commit failed on this rank: " + committed.message()),
          transport.rank());
      co_return engine.health();
    }
  }
  report.applied = true;
  SPARCL_FAILPOINT("broadcast.committed");
  report.seconds = transport.now() - begin;
  // What every rank has voted for it has received: the sends are over, or about to be.
  alive = co_await drained;
  close_channels(transport, number);
  if (!alive.ok())
    log_warn("the update is applied, but the comm failed right after it: {}", alive.message());
  co_return Status();
}

}  // namespace sparcl::collectives::broadcast
