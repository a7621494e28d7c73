// The sparse broadcasts of arrays behind the C interface. Bad arguments do not return early: the
// rank takes part with its refusal, so that no rank waits for it.

#include <string>
#include <utility>

#include "collectives/broadcast/broadcast_descriptor.hpp"
#include "src/api/call.hpp"
#include "src/api/call_checks.hpp"
#include "src/api/call_options.hpp"
#include "src/api/device_arrays.hpp"
#include "src/api/device_path.hpp"
#include "src/api/error.hpp"
#include "src/model/schema.hpp"

namespace sparcl::api {
namespace {

// sparclBroadcastDelta: one array without a name.
class DeltaCall final : public Call {
 public:
  DeltaCall(Status refusal, void* weights, const void* base, std::uint64_t count, DataType datatype,
            int root, codec::Writing writing, const sparclComm& comm, bool is_blocking)
      : is_root_(comm.transport->rank() == root),
        held_(static_cast<std::byte*>(weights)),
        base_(static_cast<const std::byte*>(base)),
        array_{datatype, count},
        map_(std::span(&array_, refusal.ok() ? 1u : 0u)) {
    update_.kind = comm::CallKind::kBroadcastDelta;
    update_.refusal = std::move(refusal);
    update_.root = root;
    update_.receiver.writing = writing;
    update_.is_blocking = is_blocking;
    update_.map = &map_;
    update_.schema_hash = model::schema_hash({{"", datatype, {count}}});
    update_.held = std::span(&held_, 1);
    update_.sender.base = std::span(&base_, 1);
  }

  // Both arrays stay where they are, in device memory.
  void stay_on(const collectives::broadcast::UpdateOnDevice& device) {
    device_ = device;
    update_.device = &device_;
  }

  comm::Task run(const comm::CommContext& context, std::uint32_t number,
                 comm::CallReport& report) override {
    return collectives::broadcast::broadcast_update(context, number, update_, report);
  }
  const comm::CollectiveDescriptor& collective() const override {
    return collectives::broadcast::kBroadcastDelta;
  }
  flight::CallNote note() const override {
    return {
        .count = array_.count, .root = update_.root, .datatype = static_cast<int>(array_.datatype)};
  }
  CallWork work() const override {
    const bool sends_all = is_root_ && base_ == nullptr;
    return {.variant = sends_all ? "all" : "", .elements = array_.bytes() / 4, .is_root = is_root_};
  }
  void complete(const Status&) override {}

 private:
  bool is_root_;
  std::byte* held_;
  const std::byte* base_;
  codec::ArraySpec array_;
  codec::BlockMap map_;
  collectives::broadcast::UpdateOnDevice device_;
  collectives::broadcast::UpdateCall update_;
};

Status check_delta(const sparclComm& comm, const void* weights, std::uint64_t count, int datatype,
                   int root) {
  SPARCL_RETURN_IF_ERROR(first_error({check_root(comm, root), check_type(datatype)}));
  SPARCL_RETURN_IF_ERROR(
      check_array("count", count, element_bytes(static_cast<DataType>(datatype))));
  if (count > 0 && weights == nullptr) return Status(Code::kInvalidArgument, "weights is NULL");
  return Status();
}

Result<sparclBroadcastOptions_t> read_broadcast_options(const sparclBroadcastOptions_t* given) {
  sparclBroadcastOptions_t options = SPARCL_BROADCAST_OPTIONS_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(read_sized(given, "options", options));
  SPARCL_RETURN_IF_ERROR(
      check_algorithm(options.algorithm, collectives::broadcast::kFanoutAlgorithms));
  SPARCL_RETURN_IF_ERROR(check_verify("options.verify", options.verify));
  SPARCL_RETURN_IF_ERROR(check_commit("options.commit", options.commit));
  return options;
}

void apply(const sparclBroadcastOptions_t& options, const sparclComm& comm, Call& call) {
  if (options.algorithm != nullptr)
    call.override_settings(comm).broadcast_algorithm = options.algorithm;
  if (options.verify != sparclVerifyDefault)
    call.override_settings(comm).verify = verify_of(options.verify);
}

codec::Writing writing_of(const sparclBroadcastOptions_t& options, const sparclComm& comm,
                          bool is_blocking) {
  if (options.commit == sparclCommitDefault) return comm.writing(is_blocking);
  return options.commit == sparclCommitEarly ? codec::Writing::kEarly : codec::Writing::kStaged;
}

constexpr sparclBroadcastOptions_t kNoOptions = SPARCL_BROADCAST_OPTIONS_INITIALIZER;

sparclResult_t start_delta(void* weights, const void* base, std::uint64_t count,
                           sparclDataType_t datatype, int root,
                           const sparclBroadcastOptions_t* given, sparclComm* comm,
                           sparclStream_t stream, sparclRequest_t* request) {
  const char* const name =
      request != nullptr ? "sparclIBroadcastDelta: " : "sparclBroadcastDelta: ";
  const Result<sparclBroadcastOptions_t> read = read_broadcast_options(given);
  const sparclBroadcastOptions_t& options = read.ok() ? *read : kNoOptions;
  Status refusal = first_error({check_delta(*comm, weights, count, datatype, root), read.status()})
                       .with_prefix(name);
  DeviceArrays arrays(comm, stream);
  device::DeviceScratch* scratch = nullptr;
  if (refusal.ok()) {
    const codec::ArraySpec array{static_cast<DataType>(datatype), count};
    const std::size_t bytes = count * element_bytes(array.datatype);
    const bool is_root = comm->transport->rank() == root;
    if (request == nullptr)
      scratch = scratch_for_delta(*comm, weights, base, array, is_root, stream);
    if (scratch == nullptr) {
      if (is_root) base = arrays.read("base", base, bytes);
      weights =
          is_root
              ? const_cast<void*>(arrays.read("weights", static_cast<const void*>(weights), bytes))
              : arrays.update("weights", weights, bytes);
      refusal = arrays.status().with_prefix(name);
    }
  }
  auto call = std::make_unique<DeltaCall>(
      std::move(refusal), weights, base, count, static_cast<DataType>(datatype), root,
      writing_of(options, *comm, request == nullptr), *comm, request == nullptr);
  apply(options, *comm, *call);
  if (scratch != nullptr) call->stay_on({scratch, stream});
  return launch(comm, std::move(call), request, std::move(arrays));
}

// sparclCommRefuse: a call without an array.
sparclResult_t start_refusal(const char* why, sparclComm* comm) {
  return launch(
      comm,
      std::make_unique<DeltaCall>(Status(Code::kInvalidArgument, why), nullptr, nullptr, 0,
                                  DataType::kUint8, 0, comm->writing(true), *comm, true),
      nullptr);
}

class SparseCall final : public Call {
 public:
  SparseCall(collectives::broadcast::SparseCall call, size_t* nnz, bool is_root)
      : call_(std::move(call)), nnz_(nnz), is_root_(is_root) {}

  comm::Task run(const comm::CommContext& context, std::uint32_t number,
                 comm::CallReport& report) override {
    return collectives::broadcast::broadcast_sparse(context, number, call_, report);
  }
  const comm::CollectiveDescriptor& collective() const override {
    return collectives::broadcast::kBroadcastSparse;
  }
  flight::CallNote note() const override {
    return {.count = is_root_ ? call_.nnz : call_.capacity,
            .root = call_.root,
            .datatype = static_cast<int>(call_.datatype),
            .detail = is_root_ ? "entries" : "capacity"};
  }
  CallWork work() const override { return {.entries = call_.nnz, .is_root = is_root_}; }
  void complete(const Status& status) override {
    if (!is_root_ && nnz_ != nullptr && (status.ok() || status.code() == Code::kTruncated))
      *nnz_ = call_.nnz;
  }
  void note_written(DeviceArrays& arrays) const override {
    if (is_root_) return;
    arrays.written(call_.values, call_.nnz * element_bytes(call_.datatype));
    arrays.written(call_.indices, call_.nnz * sizeof(uint64_t));
  }

 private:
  collectives::broadcast::SparseCall call_;
  size_t* nnz_;
  bool is_root_;
};

Status check_sparse(const sparclComm& comm, const void* values, const uint64_t* indices,
                    const size_t* nnz, size_t capacity, int datatype, int root) {
  SPARCL_RETURN_IF_ERROR(first_error({check_root(comm, root), check_type(datatype)}));
  if (nnz == nullptr) return Status(Code::kInvalidArgument, "nnz is NULL");
  const size_t entries = comm.transport->rank() == root ? *nnz : capacity;
  if (entries > 0 && values == nullptr) return Status(Code::kInvalidArgument, "values is NULL");
  if (entries > 0 && indices == nullptr) return Status(Code::kInvalidArgument, "indices is NULL");
  return Status();
}

sparclResult_t start_sparse(void* values, uint64_t* indices, size_t* nnz, size_t capacity,
                            sparclDataType_t datatype, int root,
                            const sparclBroadcastOptions_t* given, sparclComm* comm,
                            sparclStream_t stream, sparclRequest_t* request) {
  const Result<sparclBroadcastOptions_t> options = read_broadcast_options(given);
  collectives::broadcast::SparseCall call;
  const char* const name =
      request != nullptr ? "sparclIBroadcastSparse: " : "sparclBroadcastSparse: ";
  const bool is_root = comm->transport->rank() == root;
  DeviceArrays arrays(comm, stream);
  nnz =
      is_root
          ? const_cast<size_t*>(arrays.read("nnz", static_cast<const size_t*>(nnz), sizeof(size_t)))
          : arrays.write("nnz", nnz, sizeof(size_t));
  call.refusal = arrays.status_so_far().with_prefix(name);
  if (call.refusal.ok())
    call.refusal = first_error({check_sparse(*comm, values, indices, nnz, capacity, datatype, root),
                                options.status()})
                       .with_prefix(name);
  if (call.refusal.ok()) {
    const std::size_t entries = is_root ? *nnz : capacity,
                      width = element_bytes(static_cast<DataType>(datatype));
    const std::size_t room =
        std::min(entries, static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(uint64_t));
    values = is_root ? const_cast<void*>(
                           arrays.read("values", static_cast<const void*>(values), room * width))
                     : arrays.write("values", values, room * width);
    indices = is_root
                  ? const_cast<uint64_t*>(arrays.read(
                        "indices", static_cast<const uint64_t*>(indices), room * sizeof(uint64_t)))
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
  auto made = std::make_unique<SparseCall>(std::move(call), nnz, is_root);
  if (options.ok()) apply(*options, *comm, *made);
  return launch(comm, std::move(made), request, std::move(arrays));
}

}  // namespace
}  // namespace sparcl::api

using namespace sparcl::api;

extern "C" {

sparclResult_t sparclCommRefuse(sparclComm_t comm, const char* why) {
  return start_call(__func__, comm, true, [&](sparclComm* own) {
    return start_refusal(why != nullptr ? why : "it gave no reason", own);
  });
}

sparclResult_t sparclBroadcastDelta(void* weights, const void* base, size_t count,
                                    sparclDataType_t datatype, int root,
                                    const sparclBroadcastOptions_t* options, sparclComm_t comm,
                                    sparclStream_t stream) {
  return start_call(__func__, comm, true, [&](sparclComm* own) {
    return start_delta(weights, base, count, datatype, root, options, own, stream, nullptr);
  });
}

sparclResult_t sparclIBroadcastDelta(void* weights, const void* base, size_t count,
                                     sparclDataType_t datatype, int root,
                                     const sparclBroadcastOptions_t* options, sparclComm_t comm,
                                     sparclStream_t stream, sparclRequest_t* request) {
  return start_call(__func__, comm, request != nullptr, [&](sparclComm* own) {
    return start_delta(weights, base, count, datatype, root, options, own, stream, request);
  });
}

sparclResult_t sparclBroadcastSparse(void* values, uint64_t* indices, size_t* nnz, size_t capacity,
                                     sparclDataType_t datatype, int root,
                                     const sparclBroadcastOptions_t* options, sparclComm_t comm,
                                     sparclStream_t stream) {
  return start_call(__func__, comm, true, [&](sparclComm* own) {
    return start_sparse(values, indices, nnz, capacity, datatype, root, options, own, stream,
                        nullptr);
  });
}

sparclResult_t sparclIBroadcastSparse(void* values, uint64_t* indices, size_t* nnz, size_t capacity,
                                      sparclDataType_t datatype, int root,
                                      const sparclBroadcastOptions_t* options, sparclComm_t comm,
                                      sparclStream_t stream, sparclRequest_t* request) {
  return start_call(__func__, comm, request != nullptr, [&](sparclComm* own) {
    return start_sparse(values, indices, nnz, capacity, datatype, root, options, own, stream,
                        request);
  });
}

}  // extern "C"
