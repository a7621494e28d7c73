#include "collectives/broadcast/broadcast.hpp"

#include <bit>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "collectives/broadcast/dense_choice.hpp"
#include "collectives/broadcast/dense_stream.hpp"
#include "collectives/broadcast/message_stream.hpp"
#include "collectives/broadcast/part_list.hpp"
#include "collectives/broadcast/stream_nccl.hpp"
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
constexpr std::uint8_t kDenseLane = 3;  // and the next
constexpr std::uint8_t kLanes = 5;

FanoutPlan plan(const CommContext& comm, std::uint64_t bytes) {
  transport::Transport& transport = comm.engine->transport();
  const bool is_fanout =
      comm.broadcast_algorithm != kNcclFanoutName && comm.broadcast_algorithm != kDenseName;
  return plan_fanout(link_cost(transport), transport.size(), bytes,
                     is_fanout ? comm.broadcast_algorithm : "auto", comm.fragment_bytes);
}

// On one machine all ranks read the root's window. By nothing that only this rank knows: settings
// of ranks may differ as long as their sparse plans are alike.
Links dense_links(const CommContext& comm, int root, std::uint64_t bytes) {
  const transport::Transport& transport = comm.engine->transport();
  if (!transport.capabilities().single_node) {
    const FanoutPlan fanout = plan_fanout(link_cost(transport), transport.size(), bytes, "auto", 0);
    return fanout.row->links(transport.rank(), root, transport.size());
  }
  Links links;
  if (transport.rank() != root) links.parent = root;
  for (int i = 1; transport.rank() == root && i < transport.size(); ++i)
    links.children.push_back((root + i) % transport.size());
  return links;
}

// From this size on NCCL is worth its launches on the host, one for each fragment. Heuristic, not
// measured on GPUs.
constexpr std::uint64_t kMinForNccl = std::uint64_t{16} << 20;

// The same on all ranks, wherever their arrays are.
bool rides_on_nccl(const CommContext& comm, const BroadcastCall& call) {
  if (comm.device == nullptr || !call.is_blocking || comm.engine->transport().size() == 1)
    return false;
  if (comm.broadcast_algorithm != "auto") return comm.broadcast_algorithm == kNcclFanoutName;
  return call.dense_bytes == 0 || call.dense_bytes >= kMinForNccl;
}

// Over messages, with the cheapest fan-out.
std::unique_ptr<Stream> open_messages(const CommContext& comm, std::uint32_t number,
                                      BroadcastCall& call, CallReport& report) {
  const transport::Transport& transport = comm.engine->transport();
  const FanoutPlan fanout = plan(comm, comm::guess_update_bytes(call.dense_bytes));
  call.fingerprint.algorithm =
      comm.broadcast_algorithm == kDenseName ? kDense : static_cast<std::uint8_t>(fanout.row_index);
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

// This rank's end of the call's stream. If its memory cannot be allocated, the call is refused and
// the stream is not used.
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

// Errors in a stream or in a rank's base are found far below the call: adds the call's name, and
// what to do.
Status with_cure(const Status& verdict, const CommContext& comm, std::uint32_t operation) {
  const char* cure = "";
  if (verdict.code() == Code::kWrongBase &&
      operation == static_cast<std::uint32_t>(CallKind::kBroadcastDelta))
    cure =
        "; ranks hold the same again after a call in which the root's base is NULL: it sends all";
  if (verdict.code() == Code::kWrongBase &&
      operation == static_cast<std::uint32_t>(CallKind::kBroadcastUpdate))
    cure =
        "; ranks hold the same again after an update that sends all: the first of another root or "
        "communicator";
  const CollectiveDescriptor* const collective =
      comm::find_collective(comm.engine->collectives(), operation);
  const std::string name(collective != nullptr ? collective->name : "a broadcast");
  return Status(verdict.code(), name + ": " + verdict.message() + cure, verdict.scope());
}

class StreamedCall final : public CallBody {
 public:
  StreamedCall(const CommContext& comm, std::uint32_t number, BroadcastCall& call,
               CallReport& report)
      : comm_(comm), engine_(*comm.engine), number_(number), call_(call), report_(report) {}

  CallTerms terms() override {
    call_.fingerprint.root = call_.root;
    call_.fingerprint.verify = static_cast<std::uint8_t>(comm_.verify);
    report_.dense_bytes = call_.dense_bytes;
    stream_ = open_stream(comm_, number_, call_, report_);
    is_sender_ = call_.refusal.ok() && call_.source != nullptr;
    Extents extents;
    extents.has_device_arrays = call_.is_on_device ? 1 : 0;
    extents.sends_dense = is_dense() ? 1 : 0;
    return {call_.fingerprint, call_.refusal, PartList::subject(call_.parts), extents};
  }

  // The root encodes, and sends nothing.
  Ahead work_ahead() noexcept override try {
    if (!is_sender_ || !call_.encodes_ahead || is_dense() || !outcome_.ok() ||
        !stream_->wants_more_ahead(*call_.source))
      return Ahead::kDone;
    if (call_.source->is_waiting()) return Ahead::kWaits;
    outcome_ = stream_->produce(*call_.source);
    return Ahead::kWorked;
  } catch (const std::exception&) {  // the agreement continues
    outcome_ = caught_error("an update could not be encoded");
    return Ahead::kDone;
  }

  // Stream, then vote, which is the commit point.
  Task run(const Extents& extents) override {
    note_devices(extents);
    if (extents.sends_dense != 0 && extents.has_device_arrays == 0) open_dense();
    const double begin = engine_.transport().now();
    std::optional<StageRange> range("exchange");
    Task streaming = is_sender_ ? stream_->send_all(*call_.source, outcome_)
                                : stream_->receive_all(*call_.target, outcome_);
    Status alive = co_await streaming;
    report_.traffic = stream_->traffic();
    if (!alive.ok()) co_return alive;
    SPARCL_FAILPOINT("broadcast.before_vote");
    // The root's error has priority: errors that other ranks find in a stream that it broke off
    // follow from it.
    Status verdict;
    Task vote = agree(engine_, {number_, kVote}, CallFingerprint{}, outcome_, verdict, Subject{},
                      call_.root);
    alive = co_await vote;
    if (!alive.ok()) co_return alive;
    report_.seconds_exchange = engine_.transport().now() - begin;
    if (!verdict.ok()) {
      stream_->abandon();
      co_return with_cure(verdict, comm_, call_.fingerprint.operation);
    }
    range.emplace("commit");
    Task committing = commit();
    const Status committed = co_await committing;
    co_return committed;
  }

  std::uint8_t lanes() const override { return kLanes; }

 private:
  bool is_dense() const { return is_sender_ && call_.sends_dense && !rides_on_nccl(comm_, call_); }

  void open_dense() {
    auto dense = std::make_unique<DenseStream>(comm_, number_, kDenseLane,
                                               dense_links(comm_, call_.root, call_.dense_bytes),
                                               *call_.update);
    dense_ = dense.get();
    stream_ = std::move(dense);
    call_.was_dense = true;
    report_.algorithm = kDenseName;
  }

  void note_devices(const Extents& extents) const {
    if (call_.is_blocking && call_.fingerprint.operation < comm_.devices_take_part->size())
      (*comm_.devices_take_part)[call_.fingerprint.operation] = extents.has_device_arrays != 0;
  }

  Task commit() {
    SPARCL_FAILPOINT("broadcast.before_commit");
    Task drained = stream_->drain();
    if (dense_ != nullptr) {
      dense_->commit();
    } else if (is_sender_) {
      call_.source->commit();
    } else {
      Status committed = call_.target->commit(stream_->bytes());
      while (committed.ok() && call_.target->is_committing()) {
        SPARCL_FAILPOINT("broadcast.committing");
        co_await engine_.yield(true);
        committed = call_.target->commit(stream_->bytes());
      }
      if (!committed.ok()) {
        // The other ranks have committed: the ranks of this communicator no longer hold one state.
        engine_.fail(
            Status(Code::kRemoteError, "the commit failed on this rank: " + committed.message()),
            engine_.transport().rank());
        co_return engine_.health();
      }
    }
    report_.applied = true;
    SPARCL_FAILPOINT("broadcast.committed");
    // Every rank has voted for the stream that it has received: the sends have ended, or are about
    // to.
    const Status alive = co_await drained;
    if (!alive.ok())
      log_warn("the update is applied, but the comm failed right after it: {}", alive.message());
    co_return Status();
  }

  const CommContext& comm_;
  Engine& engine_;
  std::uint32_t number_;
  BroadcastCall& call_;
  CallReport& report_;
  std::unique_ptr<Stream> stream_;
  DenseStream* dense_ = nullptr;  // stream_, if it is one
  bool is_sender_ = false;
  Status outcome_;  // of this rank's end of the stream
};

}  // namespace

Task run_broadcast(const CommContext& comm, std::uint32_t number, BroadcastCall& call,
                   CallReport& report) {
  return agreed_call(comm, number, std::make_unique<StreamedCall>(comm, number, call, report),
                     report);
}

}  // namespace sparcl::collectives::broadcast
