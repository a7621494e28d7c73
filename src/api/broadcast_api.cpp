// The sparse broadcasts behind the C interface. Bad arguments do not return early: the rank takes part with its refusal, so that
// nobody waits for it.
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <utility>

#include "src/api/call.hpp"
#include "src/api/call_checks.hpp"
#include "src/api/device_arrays.hpp"
#include "src/api/device_way.hpp"
#include "src/api/error.hpp"
#include "src/api/state.hpp"
#include "src/api/update_selection.hpp"
#include "src/codec/lossy_values.hpp"
#include "src/model/schema.hpp"
#include "src/model/text.hpp"

namespace sparcl::api {
namespace {

Status check_root(const sparclComm& comm, int root) {
  if (root >= 0 && root < comm.transport->size()) return Status();
  return Status(Code::kInvalidArgument, fmt::format("root {} is no rank of a communicator of {}", root, comm.transport->size()));
}

// sparclBroadcastDelta: one array without a name.
class DeltaCall final : public Call {
 public:
  DeltaCall(Status refusal, void* weights, const void* base, std::uint64_t count, DataType datatype, int root,
            const sparclComm& comm, bool is_blocking)
      : held_(static_cast<std::byte*>(weights)),
        base_(static_cast<const std::byte*>(base)),
        array_{datatype, count},
        map_(std::span(&array_, refusal.ok() ? 1u : 0u)) {
    update_.kind = collectives::CallKind::kBroadcastDelta;
    update_.refusal = std::move(refusal);
    update_.root = root;
    update_.writing = comm.writing(is_blocking);
    update_.is_blocking = is_blocking;
    update_.map = &map_;
    update_.schema_hash = model::schema_hash({{"", datatype, {count}}});
    update_.held = std::span(&held_, 1);
    update_.base = std::span(&base_, 1);
  }

  // Both arrays stay where they are, in device memory.
  void stay_on(const collectives::UpdateOnDevice& device) {
    device_ = device;
    update_.device = &device_;
  }

  collectives::Task run(const collectives::CommContext& context, std::uint32_t number, collectives::CallReport& report) override {
    return collectives::broadcast_update(context, number, update_, report);
  }
  flight::CallNote note() const override {
    return {
        .operation = "BroadcastDelta", .count = array_.count, .root = update_.root, .datatype = static_cast<int>(array_.datatype)};
  }
  void complete(const Status&) override {}

 private:
  std::byte* held_;
  const std::byte* base_;
  codec::ArraySpec array_;
  codec::BlockMap map_;
  collectives::UpdateOnDevice device_;
  collectives::UpdateCall update_;
};

Status check_delta(const sparclComm& comm, const void* weights, std::uint64_t count, int datatype, int root) {
  SPARCL_RETURN_IF_ERROR(first_error({check_root(comm, root), check_type(datatype)}));
  SPARCL_RETURN_IF_ERROR(check_array("count", count, element_bytes(static_cast<DataType>(datatype))));
  if (count > 0 && weights == nullptr) return Status(Code::kInvalidArgument, "weights is NULL");
  return Status();
}

sparclResult_t start_delta(void* weights, const void* base, std::uint64_t count, sparclDataType_t datatype, int root,
                           sparclComm_t comm, sparclStream_t stream, sparclRequest_t* request) {
  const char* const name = request != nullptr ? "sparclIBroadcastDelta: " : "sparclBroadcastDelta: ";
  Status refusal = check_delta(*comm, weights, count, datatype, root).with_prefix(name);
  DeviceArrays arrays(comm, stream);
  collectives::DeviceScratch* scratch = nullptr;
  if (refusal.ok()) {
    const codec::ArraySpec array{static_cast<DataType>(datatype), count};
    const std::size_t bytes = count * element_bytes(array.datatype);
    const bool is_root = comm->transport->rank() == root;
    if (request == nullptr) scratch = scratch_for_delta(*comm, weights, base, array, is_root, stream);
    if (scratch == nullptr) {
      if (is_root) base = arrays.read("base", base, bytes);
      weights = is_root ? const_cast<void*>(arrays.read("weights", static_cast<const void*>(weights), bytes))
                        : arrays.update("weights", weights, bytes);
      refusal = arrays.status().with_prefix(name);
    }
  }
  auto call = std::make_unique<DeltaCall>(std::move(refusal), weights, base, count, static_cast<DataType>(datatype), root, *comm,
                                          request == nullptr);
  if (scratch != nullptr) call->stay_on({scratch, stream});
  return launch(comm, std::move(call), request, std::move(arrays));
}

// sparclCommRefuse: a call without an array.
sparclResult_t start_refusal(const char* why, sparclComm_t comm) {
  return launch(
      comm, std::make_unique<DeltaCall>(Status(Code::kInvalidArgument, why), nullptr, nullptr, 0, DataType::kUint8, 0, *comm, true),
      nullptr);
}

// sparclBroadcastUpdate: the tensors of a state; on the root with its snapshot.
class StateCall final : public Call {
 public:
  StateCall(Status refusal, sparclState* state, std::uint64_t version, int root, const sparclComm& comm, bool is_blocking,
            const sparclUpdateOptions_t& options, sparclStream_t stream)
      : comm_id_(comm.id), options_(options), stream_(stream) {
    update_.kind = collectives::CallKind::kBroadcastUpdate;
    update_.root = root;
    update_.version = version;
    update_.writing = comm.writing(is_blocking);
    update_.is_blocking = is_blocking;
    update_.with_state_hash = comm.context.verify != codec::Verify::kOff;
    is_root_ = comm.transport->rank() == root;
    if (refusal.ok()) {
      state->freeze();
      state_ = state;
      refusal = prepare(comm);
      if (refusal.ok()) {
        state_->in_flight = true;
      } else {
        state_ = nullptr;
      }
    }
    update_.refusal = std::move(refusal);
  }

  ~StateCall() override {
    if (state_ == nullptr || is_over_) return;
    state_->in_flight = false;  // it never began, as an exception came before
  }

  collectives::Task run(const collectives::CommContext& context, std::uint32_t number, collectives::CallReport& report) override {
    return collectives::broadcast_update(context, number, update_, report);
  }
  flight::CallNote note() const override {
    return {.operation = "BroadcastUpdate",
            .count = update_.held.size(),
            .version = update_.version,
            .root = update_.root,
            .detail = "tensors"};
  }

  void complete(const Status& status) override {
    if (state_ == nullptr) return;
    is_over_ = true;
    state_->in_flight = false;
    if (!status.ok()) {
      if (state_->mirror != nullptr) state_->mirror->forget();
      if (state_->has_device_memory() && !is_root_) loss_ = status;  // whatever became of it, the tensors are as they were
      return;
    }
    state_->version = update_.new_version;
    state_->tracked_hash = update_.new_hash;
    if (is_root_) {
      confirm();
    } else {
      state_->snapshot.clear();  // another rank's changes are in: what this rank's own broadcasts confirmed is past
      state_->confirmed_comm = 0;
    }
    if (state_->has_device_memory() && (!is_root_ || is_adopted_)) loss_ = write_device();
  }
  Status loss() const override { return loss_; }

 private:
  Status prepare(const sparclComm& comm) {
    update_.map = &*state_->map;
    update_.schema_hash = state_->schema_hash;
    if (state_->has_device_memory()) SPARCL_RETURN_IF_ERROR(read_device());
    update_.held = arrays();
    update_.parts = &state_->parts;
    update_.array_name = [this](std::uint32_t array) { return model::in_quotes(state_->schema[array].name); };
    if (!is_root_) {
      update_.known_hash = state_->tracked_hash;
      return Status();
    }
    update_.base_version = state_->version;
    SPARCL_RETURN_IF_ERROR(codec::check_values(value_coding(options_), *state_->map).with_prefix("options.values: "));
    if (state_->confirmed_comm == comm_id_) {
      update_.known_hash = state_->tracked_hash;  // the snapshot's: both came of the same update
      base_.assign(state_->snapshot.arrays().begin(), state_->snapshot.arrays().end());
      update_.snapshot = state_->snapshot.arrays();
      hints_ = state_->hints();
      update_.hints = hints_;
      SPARCL_RETURN_IF_ERROR(select(comm));
    } else {
      base_.assign(state_->data.size(), nullptr);  // these ranks have confirmed nothing
    }
    update_.base = base_;
    return Status();
  }

  // What the call works on: the tensors, or their mirror.
  std::span<std::byte* const> arrays() const {
    if (state_->has_device_memory()) return state_->mirror->mirror();
    return state_->data;
  }

  // The mirror becomes what the tensors hold; those that could not be given what the last update brought get it now. (A root's
  // would be sent as they are, and, should that fail, be a base that they are not.)
  Status read_device() {
    if (state_->mirror == nullptr) {
      Result<std::unique_ptr<model::DeviceTensors>> made = state_->make_mirror(kernels::cpu_kernels());
      if (!made.ok()) return made.status();
      state_->mirror = std::move(*made);
    }
    const StageRange range("copy from the device");
    if (!state_->is_mirror_ahead) return state_->mirror->read(stream_);
    if (is_root_) return state_->check_complete();
    state_->mirror->note_all();  // the program may have written anything there since
    SPARCL_RETURN_IF_ERROR(state_->mirror->write(stream_));
    state_->is_mirror_ahead = false;
    state_->mirror->remember(stream_);
    return {};
  }

  Status write_device() {
    const StageRange range("copy to the device");
    state_->mirror->forget();
    Status status;
    try {
      status = state_->mirror->note_differences(stream_);
      if (status.ok()) status = state_->mirror->write(stream_);
      if (status.ok()) state_->mirror->remember(stream_);
    } catch (const std::bad_alloc&) {
      status = Status(Code::kOutOfMemory, "no memory to bring it there");
    }
    if (status.ok()) return status;
    state_->is_mirror_ahead = !is_root_ || state_->mirror->is_torn();
    if (is_root_) return status.with_prefix("the update was made, but not adopted: ");
    return status.with_prefix("the update was made, and this rank's next one gives the tensors what they lack of it: ");
  }

  Status select(const sparclComm& comm) {
    const std::vector<const std::byte*> target(update_.held.begin(), update_.held.end());
    update_.values = value_coding(options_);
    codec::EncodeOptions options;
    options.target_version = update_.version;
    options.values = update_.values;
    options.schema_hash = update_.schema_hash;
    options.with_state_hash = update_.with_state_hash;
    options.base_hash = update_.known_hash;
    options.hints = update_.hints;
    Result<std::unique_ptr<codec::ChangeRule>> rule =
        make_rule(options_, {*state_->map, base_, target, options, *comm.context.kernels});
    if (!rule.ok()) return rule.status();
    rule_ = std::move(*rule);
    update_.rule = rule_.get();
    return Status();
  }

  // All ranks hold the root's state, or as much of it as was selected: it is the base of the next update.
  void confirm() {
    if (rule_ == nullptr && !update_.values.is_lossy()) state_->marks.clear();  // else what they name has not all been sent
    if (state_->confirmed_comm == comm_id_) {                                   // the snapshot was brought forward with the commit
      if (options_.adopt != 0) adopt();
      is_adopted_ = options_.adopt != 0;
      return;
    }
    const bool taken = state_->snapshot.take(*state_->map, arrays()).ok();
    if (!taken) state_->snapshot.clear();
    state_->confirmed_comm = taken ? comm_id_ : 0;  // without memory for a snapshot each update sends all
  }

  void adopt() const {
    for (std::size_t i = 0; i < state_->data.size(); ++i) {
      const codec::ArraySpec& array = state_->map->arrays()[i];
      if (array.count > 0) std::memcpy(arrays()[i], state_->snapshot.arrays()[i], array.count * element_bytes(array.datatype));
    }
  }

  std::uint64_t comm_id_;
  sparclUpdateOptions_t options_;
  sparclStream_t stream_;
  bool is_root_ = false;
  bool is_adopted_ = false;
  Status loss_;
  bool is_over_ = false;  // then the state may be gone before this
  sparclState* state_ = nullptr;
  std::unique_ptr<codec::ChangeRule> rule_;
  std::vector<const std::byte*> base_;
  std::vector<const codec::ChangedHint*> hints_;
  collectives::UpdateCall update_;
};

Status check_update(const sparclComm& comm, const sparclState* state, int root, sparclStream_t stream) {
  SPARCL_RETURN_IF_ERROR(check_root(comm, root));
  if (state == nullptr || !state->has_device_memory()) SPARCL_RETURN_IF_ERROR(check_stream(stream));
  if (state == nullptr) return Status(Code::kInvalidArgument, "state is NULL");
  if (state->in_flight) return Status(Code::kInvalidUsage, "a broadcast of this state is already in flight");
  // On the host its next look at the tensors would find it out.
  if (state->is_subscribed && state->has_device_memory() && comm.transport->rank() != root) {
    return Status(Code::kInvalidUsage,
                  "a subscriber writes these tensors in device memory: receive updates in another state, or destroy it first");
  }
  return state->check_in_memory();
}

sparclResult_t start_update(sparclState_t state, std::uint64_t version, int root, sparclComm_t comm, sparclStream_t stream,
                            const sparclUpdateOptions_t* given, sparclRequest_t* request) {
  const Result<sparclUpdateOptions_t> options = read_options(given);
  Status refusal = first_error({check_update(*comm, state, root, stream), options.status()})
                       .with_prefix(request != nullptr ? "sparclIBroadcastUpdate: " : "sparclBroadcastUpdate: ");
  const sparclUpdateOptions_t none = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  return launch(comm,
                std::make_unique<StateCall>(std::move(refusal), state, version, root, *comm, request == nullptr,
                                            options.ok() ? *options : none, stream),
                request);
}

class SparseCall final : public Call {
 public:
  SparseCall(collectives::SparseCall call, size_t* nnz, bool is_root) : call_(std::move(call)), nnz_(nnz), is_root_(is_root) {}

  collectives::Task run(const collectives::CommContext& context, std::uint32_t number, collectives::CallReport& report) override {
    return collectives::broadcast_sparse(context, number, call_, report);
  }
  flight::CallNote note() const override {
    return {.operation = "BroadcastSparse",
            .count = is_root_ ? call_.nnz : call_.capacity,
            .root = call_.root,
            .datatype = static_cast<int>(call_.datatype),
            .detail = is_root_ ? "entries" : "capacity"};
  }
  void complete(const Status& status) override {
    if (!is_root_ && nnz_ != nullptr && (status.ok() || status.code() == Code::kTruncated)) *nnz_ = call_.nnz;
  }
  void note_written(DeviceArrays& arrays) const override {
    if (is_root_) return;
    arrays.written(call_.values, call_.nnz * element_bytes(call_.datatype));
    arrays.written(call_.indices, call_.nnz * sizeof(uint64_t));
  }

 private:
  collectives::SparseCall call_;
  size_t* nnz_;
  bool is_root_;
};

Status check_sparse(const sparclComm& comm, const void* values, const uint64_t* indices, const size_t* nnz, size_t capacity,
                    int datatype, int root) {
  SPARCL_RETURN_IF_ERROR(first_error({check_root(comm, root), check_type(datatype)}));
  if (nnz == nullptr) return Status(Code::kInvalidArgument, "nnz is NULL");
  const size_t entries = comm.transport->rank() == root ? *nnz : capacity;
  if (entries > 0 && values == nullptr) return Status(Code::kInvalidArgument, "values is NULL");
  if (entries > 0 && indices == nullptr) return Status(Code::kInvalidArgument, "indices is NULL");
  return Status();
}

sparclResult_t start_sparse(void* values, uint64_t* indices, size_t* nnz, size_t capacity, sparclDataType_t datatype, int root,
                            sparclComm_t comm, sparclStream_t stream, sparclRequest_t* request) {
  collectives::SparseCall call;
  const char* const name = request != nullptr ? "sparclIBroadcastSparse: " : "sparclBroadcastSparse: ";
  const bool is_root = comm->transport->rank() == root;
  DeviceArrays arrays(comm, stream);
  nnz = is_root ? const_cast<size_t*>(arrays.read("nnz", static_cast<const size_t*>(nnz), sizeof(size_t)))
                : arrays.write("nnz", nnz, sizeof(size_t));
  call.refusal = arrays.status_so_far().with_prefix(name);
  if (call.refusal.ok()) call.refusal = check_sparse(*comm, values, indices, nnz, capacity, datatype, root).with_prefix(name);
  if (call.refusal.ok()) {
    const std::size_t entries = is_root ? *nnz : capacity, width = element_bytes(static_cast<DataType>(datatype));
    const std::size_t room = std::min(entries, static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(uint64_t));
    values = is_root ? const_cast<void*>(arrays.read("values", static_cast<const void*>(values), room * width))
                     : arrays.write("values", values, room * width);
    indices = is_root
                  ? const_cast<uint64_t*>(arrays.read("indices", static_cast<const uint64_t*>(indices), room * sizeof(uint64_t)))
                  : arrays.write("indices", indices, room * sizeof(uint64_t));
    call.refusal = arrays.status().with_prefix(name);
  }
  call.is_blocking = request == nullptr;
  call.root = root;
  call.datatype = static_cast<DataType>(datatype);
  call.values = static_cast<std::byte*>(values);
  call.indices = indices;
  if (is_root && call.refusal.ok()) call.nnz = *nnz;
  call.capacity = capacity;
  return launch(comm, std::make_unique<SparseCall>(std::move(call), nnz, is_root), request, std::move(arrays));
}

}  // namespace
}  // namespace sparcl::api

using namespace sparcl::api;

extern "C" {

sparclResult_t sparclCommRefuse(sparclComm_t comm, const char* why) {
  return start_call(__func__, comm, true, [&] { return start_refusal(why != nullptr ? why : "it gave no reason", comm); });
}

sparclResult_t sparclBroadcastDelta(void* weights, const void* base, size_t count, sparclDataType_t datatype, int root,
                                    sparclComm_t comm, sparclStream_t stream) {
  return start_call(__func__, comm, true, [&] { return start_delta(weights, base, count, datatype, root, comm, stream, nullptr); });
}

sparclResult_t sparclIBroadcastDelta(void* weights, const void* base, size_t count, sparclDataType_t datatype, int root,
                                     sparclComm_t comm, sparclRequest_t* request) {
  return start_call(__func__, comm, request != nullptr,
                    [&] { return start_delta(weights, base, count, datatype, root, comm, nullptr, request); });
}

sparclResult_t sparclBroadcastUpdate(sparclState_t state, uint64_t version, int root, sparclComm_t comm, sparclStream_t stream) {
  return start_call(__func__, comm, true, [&] { return start_update(state, version, root, comm, stream, nullptr, nullptr); });
}

sparclResult_t sparclBroadcastUpdateEx(sparclState_t state, uint64_t version, int root, sparclComm_t comm, sparclStream_t stream,
                                       const sparclUpdateOptions_t* options) {
  return start_call(__func__, comm, true, [&] { return start_update(state, version, root, comm, stream, options, nullptr); });
}

sparclResult_t sparclIBroadcastUpdate(sparclState_t state, uint64_t version, int root, sparclComm_t comm,
                                      sparclRequest_t* request) {
  return start_call(__func__, comm, request != nullptr,
                    [&] { return start_update(state, version, root, comm, nullptr, nullptr, request); });
}

sparclResult_t sparclIBroadcastUpdateEx(sparclState_t state, uint64_t version, int root, const sparclUpdateOptions_t* options,
                                        sparclComm_t comm, sparclRequest_t* request) {
  return start_call(__func__, comm, request != nullptr,
                    [&] { return start_update(state, version, root, comm, nullptr, options, request); });
}

sparclResult_t sparclBroadcastSparse(void* values, uint64_t* indices, size_t* nnz, size_t capacity, sparclDataType_t datatype,
                                     int root, sparclComm_t comm, sparclStream_t stream) {
  return start_call(__func__, comm, true,
                    [&] { return start_sparse(values, indices, nnz, capacity, datatype, root, comm, stream, nullptr); });
}

sparclResult_t sparclIBroadcastSparse(void* values, uint64_t* indices, size_t* nnz, size_t capacity, sparclDataType_t datatype,
                                      int root, sparclComm_t comm, sparclRequest_t* request) {
  return start_call(__func__, comm, request != nullptr,
                    [&] { return start_sparse(values, indices, nnz, capacity, datatype, root, comm, nullptr, request); });
}

}  // extern "C"
