// Broadcast of the changes of a list of arrays (sparclBroadcastDelta, sparclBroadcastUpdate).
#include <fmt/format.h>

#include <cmath>
#include <new>

#include "collectives/broadcast/dense_choice.hpp"
#include "collectives/broadcast/update_ends.hpp"

namespace sparcl::collectives::broadcast {
namespace {

// Work between two looks at the network: about 50 us of encoding, 100 us of checking. Heuristic.
constexpr std::uint64_t kElementsPerStep = 8 * codec::kBlockElements;
constexpr std::uint64_t kBlocksPerStep = 16;

class HostSource final : public UpdateSource {
 public:
  HostSource(UpdateCall& call, const CommContext& comm)
      : call_(call),
        has_state_hash_(options(call, comm).with_state_hash),
        target_(call.held.begin(), call.held.end()),
        encoder_(*call.map, call.sender.base, target_, options(call, comm), *comm.kernels) {}

  Status produce(codec::ByteSink& sink) override { return encoder_.step(kElementsPerStep, sink); }
  bool finished() const override { return encoder_.finished(); }

  void commit() override {
    call_.outcome.version = call_.version;
    if (has_state_hash_) call_.outcome.hash = encoder_.stats().target_hash;
    encoder_.keep_forward();
  }

  std::uint64_t changed() const override { return encoder_.stats().changed; }
  double dropped_l2() const override { return std::sqrt(encoder_.stats().lossy.squares); }

 private:
  static codec::EncodeOptions options(const UpdateCall& call, const CommContext& comm) {
    codec::EncodeOptions options;
    options.base_version = call.sender.base_version;
    options.target_version = call.version;
    options.schema_hash = call.schema_hash;
    options.with_state_hash = call.sender.with_state_hash || comm.verify == codec::Verify::kFull;
    options.base_hash = call.known_hash;
    options.hints = call.sender.hints;
    options.rule = call.sender.rule;
    options.values = call.sender.values;
    options.bring_forward = call.sender.snapshot;
    // A rule that selects changes may keep a budget of bytes, so the link's cost must not change
    // the coding.
    if (call.sender.rule == nullptr)
      options.link = comm::link_time(comm.engine->transport(), comm.link_gbit);
    options.for_devices = (*comm.devices_take_part)[static_cast<std::size_t>(call.kind)] &&
                          call.sender.rule == nullptr && !call.sender.values.is_lossy();
    options.workers = comm.workers;
    return options;
  }

  UpdateCall& call_;
  bool has_state_hash_;
  std::vector<const std::byte*> target_;
  codec::UpdateEncoder encoder_;
};

class HostTarget final : public UpdateTarget {
 public:
  HostTarget(UpdateCall& call, const CommContext& comm)
      : call_(call),
        comm_(comm),
        decoder_(*call.map, call.held, comm.verify, call.schema_hash, *comm.kernels,
                 call.receiver.writing) {
    decoder_.set_array_name(call.array_name);
    if (call.known_hash) decoder_.track(*call.known_hash);
    if (comm.workers != nullptr) decoder_.set_workers(*comm.workers);
  }

  Status check(const Staging& stream, std::uint64_t available, bool& more) override {
    return decoder_.advance(stream, available, kBlocksPerStep, more);
  }

  Status finish(std::uint64_t stream_bytes) override {
    SPARCL_RETURN_IF_ERROR(decoder_.finish(stream_bytes));
    return check_target(call_, comm_, decoder_);
  }

  Status commit(const Staging& stream) override {
    call_.outcome.version = decoder_.target_version();
    call_.outcome.hash = decoder_.target_hash();
    const Status status = decoder_.apply(stream);
    call_.outcome.is_committed = status.ok();
    return status;
  }

  std::uint64_t changed() const override { return decoder_.changed(); }

 private:
  UpdateCall& call_;
  const CommContext& comm_;
  codec::UpdateDecoder decoder_;
};

std::uint32_t common_datatype(const codec::BlockMap& map) {
  const auto arrays = map.arrays();
  for (const codec::ArraySpec& array : arrays) {
    if (array.datatype != arrays[0].datatype) return UINT32_MAX;
  }
  return arrays.empty() ? UINT32_MAX : static_cast<std::uint32_t>(arrays[0].datatype);
}

}  // namespace

std::unique_ptr<UpdateSource> host_source(UpdateCall& call, const CommContext& comm) {
  return std::make_unique<HostSource>(call, comm);
}

std::unique_ptr<UpdateTarget> host_target(UpdateCall& call, const CommContext& comm) {
  return std::make_unique<HostTarget>(call, comm);
}

Status check_version(const UpdateCall& call, const CommContext& comm, std::uint64_t target) {
  const int rank = comm.engine->transport().rank();
  if (call.version != 0 && call.version != target) {
    return Status(
        Code::kMismatch,
        fmt::format(
            "rank {} called for version {}, the root, rank {}, for version {}: pass the same, or 0",
            rank, call.version, call.root, target));
  }
  if (target < call.receiver.updated_to) {
    return Status(
        Code::kInvalidArgument,
        fmt::format(
            "version {} of the root, rank {}, does not come after version {} of the state of "
            "rank {}. Give a larger version; to go back, make another state of the tensors",
            target, call.root, call.receiver.updated_to, rank));
  }
  return Status();
}

Status check_target(const UpdateCall& call, const CommContext& comm,
                    const codec::UpdateDecoder& decoder) {
  SPARCL_RETURN_IF_ERROR(check_version(call, comm, decoder.target_version()));
  if (decoder.writes_all()) return Status();
  const int rank = comm.engine->transport().rank();
  // The program itself may have updated an older state, as in double buffering.
  if (call.receiver.held_version > decoder.base_version() &&
      call.receiver.held_version != decoder.target_version()) {
    return Status(
        Code::kWrongBase,
        fmt::format("rank {} holds version {}, the update of the root, rank {}, is from version "
                    "{}: another communicator, whose first update sends all, brings them together",
                    rank, call.receiver.held_version, call.root, decoder.base_version()));
  }
  if (!call.receiver.holds_no_version) return Status();
  return Status(
      Code::kWrongBase,
      fmt::format("rank {} holds no version, because an update failed while it was written to "
                  "its tensors in device memory. Only an update that sends all can follow, such "
                  "as the first of another communicator",
                  rank));
}

Task broadcast_update(const CommContext& comm, std::uint32_t number, UpdateCall& call,
                      CallReport& report) {
  BroadcastCall pattern;
  pattern.refusal = call.refusal;
  pattern.is_blocking = call.is_blocking;
  pattern.root = call.root;
  pattern.fingerprint.operation = static_cast<std::uint32_t>(call.kind);
  if (!call.refusal.ok()) {
    Task refusing = run_broadcast(comm, number, pattern, report);
    Status status = co_await refusing;
    co_return status;
  }

  pattern.is_on_device = call.device != nullptr;
  pattern.parts = call.parts;
  pattern.fingerprint.count = call.map->element_count();
  pattern.fingerprint.datatype = common_datatype(*call.map);
  pattern.fingerprint.detail = call.schema_hash.low ^ call.schema_hash.high;
  pattern.dense_bytes = call.map->byte_count();
  pattern.update = &call;
  if (comm.engine->transport().rank() == call.root) {
    pattern.sends_dense = sends_dense(call, comm);
    const std::unique_ptr<UpdateSource> source =
        call.device != nullptr ? device_source(call, comm) : host_source(call, comm);
    pattern.source = source.get();
    Task sending = run_broadcast(comm, number, pattern, report);
    Status status = co_await sending;
    for (bool is_settling = true; is_settling;) {
      try {
        is_settling = source->is_settling();
        if (is_settling) co_await comm.engine->yield(true);
      } catch (const std::bad_alloc&) {  // asked again: the end of the GPU's writes must be known
      }
    }
    report.nnz_in = report.nnz_out =
        pattern.was_dense ? (status.ok() ? call.map->element_count() : 0) : source->changed();
    report.dropped_l2 = source->dropped_l2();
    co_return status;
  }
  const std::unique_ptr<UpdateTarget> receiver =
      call.device != nullptr ? device_target(call, comm) : host_target(call, comm);
  pattern.target = receiver.get();
  Task receiving = run_broadcast(comm, number, pattern, report);
  Status status = co_await receiving;
  for (bool is_settling = true; is_settling;) {
    try {
      is_settling = receiver->is_settling();
      if (is_settling) co_await comm.engine->yield(true);
    } catch (const std::bad_alloc&) {  // asked again: the end of the GPU's writes must be known
    }
  }
  report.nnz_in = report.nnz_out =
      pattern.was_dense ? (status.ok() ? call.map->element_count() : 0) : receiver->changed();
  co_return status;
}

}  // namespace sparcl::collectives::broadcast
