// sparclBroadcastUpdate: the broadcast of a state. Bad arguments do not return early: the rank
// takes part with its refusal, so that no rank waits for it. Tensors in device memory are coded,
// checked and written there, or through their mirror on the host.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "collectives/broadcast/broadcast_descriptor.hpp"
#include "src/api/call.hpp"
#include "src/api/call_checks.hpp"
#include "src/api/call_options.hpp"
#include "src/api/device_path.hpp"
#include "src/api/error.hpp"
#include "src/api/mirror_path.hpp"
#include "src/api/state_handle.hpp"
#include "src/api/update_selection.hpp"
#include "src/codec/lossy_values.hpp"
#include "src/model/schema.hpp"
#include "src/model/text.hpp"

namespace sparcl::api {
namespace {

// The tensors of a state; on the root with what the ranks have confirmed.
class StateCall final : public Call {
 public:
  StateCall(Status refusal, const Held<sparclState>& state, std::uint64_t version, int root,
            sparclComm& comm, bool is_blocking, const sparclUpdateOptions_t& options,
            sparclStream_t stream)
      : comm_id_(comm.id), options_(options), stream_(stream) {
    update_.kind = comm::CallKind::kBroadcastUpdate;
    update_.root = root;
    update_.version = version;
    update_.receiver.writing = comm.writing(is_blocking);
    update_.is_blocking = is_blocking;
    if (options.algorithm != nullptr)
      override_settings(comm).broadcast_algorithm = options.algorithm;
    if (options.verify != sparclVerifyDefault)
      override_settings(comm).verify = verify_of(options.verify);
    update_.sender.with_state_hash = settings(comm).verify != codec::Verify::kOff;
    is_root_ = comm.transport->rank() == root;
    if (refusal.ok()) {
      state->freeze();
      held_ = state;
      state_ = state.get();
      refusal = prepare(comm);
      if (refusal.ok() &&
          state_->in_flight.exchange(true))  // by another thread's call since check_update()
        refusal = Status(Code::kInvalidUsage, "a broadcast of this state is already in flight");
      if (!refusal.ok()) let_go();
    }
    update_.refusal = std::move(refusal);
  }

  ~StateCall() override {
    if (state_ == nullptr || is_over_)
      return;  // else an exception came before its end, or before it began
    note_what_was_written();
    state_->in_flight = false;
  }

  comm::Task run(const comm::CommContext& context, std::uint32_t number,
                 comm::CallReport& report) override {
    return collectives::broadcast::broadcast_update(context, number, update_, report);
  }
  const comm::CollectiveDescriptor& collective() const override {
    return collectives::broadcast::kBroadcastUpdate;
  }
  flight::CallNote note() const override {
    return {.count = update_.held.size(),
            .version = update_.version,
            .root = update_.root,
            .detail = "tensors"};
  }

  CallWork work() const override {
    return {.variant = has_base_ ? "" : "all",
            .elements = state_ != nullptr ? state_->map->byte_count() / 4 : 0,
            .is_root = is_root_};
  }

  void complete(const Status& status) override {
    if (state_ == nullptr) return;
    is_over_ = true;
    end(status);
    state_->in_flight = false;
    let_go();
  }
  Status loss() const override { return loss_; }

 private:
  void let_go() {
    state_ = nullptr;
    held_ = {};
  }

  void end(const Status& status) {
    if (!status.ok()) return note_failure(status);
    state_->version = state_->updated_to = update_.outcome.version;
    state_->tracked_hash = update_.outcome.hash;
    if (is_root_) {
      confirm();
    } else {
      state_->confirmed.clear();  // another rank's changes are in: what this rank's own broadcasts
                                  // confirmed is past
      state_->received_from = comm_id_;
      state_->is_torn = false;
    }
    if (!has_mirror()) {
      state_->mirror = nullptr;  // the copy of the model of a call before
    } else if (!is_root_ || is_adopted_) {
      loss_ = write_mirror(*state_, is_root_, stream_);
    }
  }

  Status prepare(sparclComm& comm) {
    update_.map = &*state_->map;
    update_.schema_hash = state_->schema_hash;
    update_.parts = &state_->parts;
    has_base_ = is_root_ ? has_base() : state_->received_from == comm_id_;
    update_.array_name = [this](std::uint32_t array) {
      return model::in_quotes(state_->schema[array].name);
    };
    if (is_root_) {
      SPARCL_RETURN_IF_ERROR(state_->check_complete());
      SPARCL_RETURN_IF_ERROR(codec::check_values(value_coding(options_), *state_->map)
                                 .with_prefix("options.values: "));
    }
    if (!stay_on_device(comm)) SPARCL_RETURN_IF_ERROR(reach_from_host(comm));
    update_.held = arrays();
    update_.known_hash = state_->tracked_hash;
    update_.receiver.holds_no_version = state_->is_torn;
    update_.receiver.updated_to = state_->updated_to;
    if (!is_root_ && !state_->is_torn) update_.receiver.held_version = state_->version;
    return is_root_ ? prepare_base(comm) : Status();
  }

  bool has_base() const { return state_->confirmed.is_by(comm_id_); }
  bool has_mirror() const { return state_->has_device_memory() && update_.device == nullptr; }

  // The arrays that the call works on: the tensors, or their mirror.
  std::span<std::byte* const> arrays() const {
    if (has_mirror()) return state_->mirror->mirror();
    return state_->data;
  }

  // All tensors are on one GPU, which codes, or checks and writes: only the update crosses.
  bool stay_on_device(sparclComm& comm) {
    using collectives::broadcast::UpdateRole;
    if (!state_->has_device_memory() || !update_.is_blocking || state_->is_mirror_ahead)
      return false;
    if (is_root_ && (!comm.keeps_device_snapshot || codec::name_changes(state_->hints())))
      return false;
    if (is_root_ && (options_.select != sparclSelectAll || value_coding(options_).is_lossy() ||
                     options_.adopt == sparclOn))
      return false;
    // The base's hash would include the current bytes of the tensors that are not sent.
    if (is_root_ && has_base() && !state_->tracked_hash && !state_->hints().empty()) return false;
    const collectives::broadcast::UpdateRole role =
        !is_root_    ? collectives::broadcast::UpdateRole::kReceives
        : has_base() ? collectives::broadcast::UpdateRole::kSendsChanges
                     : collectives::broadcast::UpdateRole::kSendsAll;
    device::DeviceScratch* const scratch = scratch_for_update(comm, *state_, role, stream_);
    if (scratch == nullptr) return false;
    if (is_root_ && !bring_confirmed(comm, scratch->context()).ok()) return false;
    device_ = {scratch, stream_, state_->confirmed.on_device()};
    update_.device = &device_;
    return true;
  }

  Status bring_confirmed(sparclComm& comm, void* context) {
    if (state_->confirmed.moves_to(context)) SPARCL_RETURN_IF_ERROR(await_tensors(comm));
    return state_->confirmed.move_to_device(comm_id_, *state_->map, context, stream_);
  }

  // Until the stream is done with the tensors.
  Status await_tensors(sparclComm& comm) const {
    const auto on_device = std::ranges::find(state_->spaces, MemorySpace::kDevice);
    if (on_device == state_->spaces.end()) return Status();
    return await_stream(
        comm, state_->data[static_cast<std::size_t>(on_device - state_->spaces.begin())], stream_);
  }

  Status reach_from_host(sparclComm& comm) {
    SPARCL_RETURN_IF_ERROR(await_tensors(comm));
    if (is_root_)
      SPARCL_RETURN_IF_ERROR(state_->confirmed.move_to_host(comm_id_, *state_->map, stream_));
    return state_->has_device_memory() ? read_mirror(*state_, stream_) : Status();
  }

  Status prepare_base(const sparclComm& comm) {
    update_.sender.base_version = state_->version;
    if (update_.device != nullptr)
      update_.sender.snapshot = state_->confirmed.arrays();  // it is filled with the first update
    if (!has_base()) {
      base_.assign(state_->data.size(), nullptr);  // these ranks have confirmed nothing
      update_.known_hash.reset();
      update_.sender.base = base_;
      return Status();
    }
    update_.sender.snapshot =
        state_->confirmed.arrays();  // known_hash is its: both came of the same update
    base_.assign(update_.sender.snapshot.begin(), update_.sender.snapshot.end());
    update_.sender.base = base_;
    hints_ = state_->hints();
    if (update_.device != nullptr) {
      for (std::size_t i = 0; i < hints_.size(); ++i)
        base_[i] = hints_[i] != nullptr ? state_->data[i] : base_[i];  // says: nothing
      return Status();
    }
    update_.sender.hints = hints_;
    return select(comm);
  }

  Status select(const sparclComm& comm) {
    const std::vector<const std::byte*> target(update_.held.begin(), update_.held.end());
    update_.sender.values = value_coding(options_);
    codec::EncodeOptions options;
    options.target_version = update_.version;
    options.values = update_.sender.values;
    options.schema_hash = update_.schema_hash;
    options.with_state_hash = update_.sender.with_state_hash;
    options.base_hash = update_.known_hash;
    options.hints = update_.sender.hints;
    SPARCL_ASSIGN_OR_RETURN(
        std::unique_ptr<codec::ChangeRule> rule,
        make_rule(options_, {*state_->map, base_, target, options, *comm.context.kernels}));
    rule_ = std::move(rule);
    update_.sender.rule = rule_.get();
    return Status();
  }

  // The tensors are as they were, unless a GPU failed while it wrote to them.
  void note_failure(const Status& status) {
    note_what_was_written();
    if (has_mirror() && !is_root_) loss_ = status;
  }

  // After a call that has failed, or ends in an exception.
  void note_what_was_written() noexcept {
    if (state_->mirror != nullptr) state_->mirror->forget();
    state_->is_torn = state_->is_torn || update_.outcome.is_partially_written;
    if (update_.outcome.written_until != nullptr)
      state_->written_until = update_.outcome.written_until;
    if (update_.outcome.has_written_snapshot) state_->confirmed.clear();
    if (is_root_ || !update_.outcome.is_committed || has_mirror())
      return;  // of a mirror the tensors are as they were
    state_->version = state_->updated_to = update_.outcome.version;
    state_->tracked_hash = update_.outcome.hash;
    state_->is_torn = false;
    state_->confirmed.clear();
  }

  // All ranks hold the root's state, or the selected part of its changes: it is the base of the
  // next update.
  void confirm() {
    if (rule_ == nullptr && !update_.sender.values.is_lossy())
      state_->marks.clear();  // else some of the marked changes are not sent
    if (update_.outcome.is_snapshot_lost) return state_->confirmed.clear();
    if (!update_.sender.snapshot.empty()) {  // it was brought forward with the commit
      state_->confirmed.confirm(comm_id_);
      is_adopted_ = options_.adopt == sparclOn;
      if (is_adopted_) adopt();
      return;
    }
    state_->confirmed.take(comm_id_, *state_->map,
                           arrays());  // without memory for it each update sends all
  }

  void adopt() const {
    for (std::size_t i = 0; i < state_->data.size(); ++i) {
      const codec::ArraySpec& array = state_->map->arrays()[i];
      if (array.count > 0) std::memcpy(arrays()[i], state_->confirmed.arrays()[i], array.bytes());
    }
  }

  std::uint64_t comm_id_;
  sparclUpdateOptions_t options_;
  sparclStream_t stream_;
  bool is_root_ = false;
  bool has_base_ = false;  // of a receiver: it has an update of the same communicator
  bool is_adopted_ = false;
  Status loss_;
  bool is_over_ = false;
  Held<sparclState> held_;
  sparclState* state_ = nullptr;  // until the call is over
  std::unique_ptr<codec::ChangeRule> rule_;
  std::vector<const std::byte*> base_;
  std::vector<const codec::ChangedHint*> hints_;
  collectives::broadcast::UpdateOnDevice device_;
  collectives::broadcast::UpdateCall update_;
};

// The stream must be on the GPU of the tensors in device memory: it orders nothing else.
Status check_gpu_of(sparclStream_t stream, const sparclState& state) {
  for (std::size_t i = 0; stream != nullptr && i < state.data.size(); ++i) {
    if (state.spaces[i] != MemorySpace::kDevice) continue;
    const Result<void*> own = gpu::context_of(state.data[i]),
                        streams = gpu::context_for(state.data[i], stream);
    if (!own.ok() || !streams.ok()) return own.ok() ? streams.status() : own.status();
    if (*own == *streams) continue;
    return Status(Code::kInvalidArgument,
                  fmt::format("stream is another GPU's than {} is on: pass one of that, or, where "
                              "the state has tensors on several, NULL",
                              model::in_quotes(state.schema[i].name)));
  }
  return {};
}

// Versions ascend. The last version may be sent again until this communicator has confirmed it:
// ranks come together so after a failure. On ranks other than the root, 0 is any version.
Status check_version(const sparclComm& comm, const sparclState& state, std::uint64_t version,
                     bool is_root) {
  if (version == 0) {
    return is_root ? Status(Code::kInvalidArgument, "version is 0, which is none: begin with 1")
                   : Status();
  }
  const bool is_repeat =
      version == state.updated_to && !(is_root && state.confirmed.is_by(comm.id));
  if (version > state.updated_to || is_repeat) return Status();
  return Status(
      Code::kInvalidArgument,
      fmt::format("version {} does not come after version {}, which this rank's state holds: give "
                  "a larger one (to go back, make another state of the tensors)",
                  version, state.updated_to));
}

Status check_update(const sparclComm& comm, const Held<sparclState>& state, std::uint64_t version,
                    int root, sparclStream_t stream) {
  SPARCL_RETURN_IF_ERROR(check_root(comm, root));
  if (state.get() == nullptr || !state->has_device_memory())
    SPARCL_RETURN_IF_ERROR(check_stream(stream));
  SPARCL_RETURN_IF_ERROR(state.status());
  if (state->in_flight)
    return Status(Code::kInvalidUsage, "a broadcast of this state is already in flight");
  SPARCL_RETURN_IF_ERROR(check_version(comm, *state, version, comm.transport->rank() == root));
  SPARCL_RETURN_IF_ERROR(state->check_still());
  // For tensors on the host, the subscriber's next check would find the change.
  if (state->is_subscribed && state->has_device_memory() && comm.transport->rank() != root) {
    return Status(Code::kInvalidUsage,
                  "a subscriber writes these tensors in device memory: receive updates in another "
                  "state, or destroy it first");
  }
  SPARCL_RETURN_IF_ERROR(state->check_in_memory());
  return check_gpu_of(stream, *state);
}

sparclResult_t start_update(sparclState_t given_state, std::uint64_t version, int root,
                            const sparclUpdateOptions_t* given, sparclComm* comm,
                            sparclStream_t stream, sparclRequest_t* request) {
  const Held<sparclState> state(given_state, "state");
  const Result<sparclUpdateOptions_t> options = read_options(given);
  Status refusal =
      first_error({check_update(*comm, state, version, root, stream), options.status()})
          .with_prefix(request != nullptr ? "sparclIBroadcastUpdate: " : "sparclBroadcastUpdate: ");
  const sparclUpdateOptions_t none = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  return launch(
      comm,
      std::make_unique<StateCall>(std::move(refusal), state, version, root, *comm,
                                  request == nullptr, options.ok() ? *options : none, stream),
      request);
}

}  // namespace
}  // namespace sparcl::api

using namespace sparcl::api;

extern "C" {

sparclResult_t sparclBroadcastUpdate(sparclState_t state, uint64_t version, int root,
                                     const sparclUpdateOptions_t* options, sparclComm_t comm,
                                     sparclStream_t stream) {
  return start_call(__func__, comm, true, [&](sparclComm* own) {
    return start_update(state, version, root, options, own, stream, nullptr);
  });
}

sparclResult_t sparclIBroadcastUpdate(sparclState_t state, uint64_t version, int root,
                                      const sparclUpdateOptions_t* options, sparclComm_t comm,
                                      sparclStream_t stream, sparclRequest_t* request) {
  return start_call(__func__, comm, request != nullptr, [&](sparclComm* own) {
    return start_update(state, version, root, options, own, stream, request);
  });
}

}  // extern "C"
