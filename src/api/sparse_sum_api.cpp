// The sums of sparse vectors behind the C interface. Bad arguments do not return early: the rank
// takes part with its refusal.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "collectives/sparse_sum/sparse_all_reduce.hpp"
#include "src/api/call.hpp"
#include "src/api/call_checks.hpp"
#include "src/api/device_arrays.hpp"

namespace sparcl::api {
namespace {

class SparseSumCall final : public Call {
 public:
  SparseSumCall(collectives::sparse_sum::SparseAllReduceCall call, size_t* out_nnz)
      : call_(std::move(call)), out_nnz_(out_nnz) {}

  comm::Task run(const comm::CommContext& context, std::uint32_t number,
                 comm::CallReport& report) override {
    return collectives::sparse_sum::all_reduce_sparse(context, number, call_, report);
  }
  const comm::CollectiveDescriptor& collective() const override {
    return collectives::sparse_sum::kAllReduceSparse;
  }
  flight::CallNote note() const override {
    return {.count = call_.indices.size(),
            .datatype = static_cast<int>(call_.kind.datatype),
            .detail = "entries"};
  }
  CallWork work() const override { return {.entries = call_.indices.size()}; }
  void complete(const Status& status) override {
    if (out_nnz_ != nullptr && (status.ok() || status.code() == Code::kTruncated))
      *out_nnz_ = call_.out_nnz;
  }
  void note_written(DeviceArrays& arrays) const override {
    arrays.written(call_.out_indices, call_.out_nnz * sizeof(uint64_t));
    arrays.written(call_.out_values, call_.out_nnz * element_bytes(call_.kind.datatype));
  }

 private:
  collectives::sparse_sum::SparseAllReduceCall call_;
  size_t* out_nnz_;
};

struct SparseSumArguments {
  const void* values;
  const uint64_t* indices;
  size_t nnz, count;
  void* out_values;
  uint64_t* out_indices;
  size_t* out_nnz;
  size_t out_capacity;
  int datatype, op;
};

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a),
             second = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && first < second + b_bytes && second < first + a_bytes;
}

// Room beyond all memory is no slip but "enough": entries are what is written.
std::size_t room_of(const SparseSumArguments& given) {
  return std::min(
      {given.out_capacity, given.count, static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(uint64_t)});
}

Status check_outputs_apart(const SparseSumArguments& given) {
  const std::size_t width = element_bytes(static_cast<DataType>(given.datatype));
  constexpr std::size_t kIndex = sizeof(uint64_t);
  const bool is_nominal = given.out_capacity > static_cast<std::size_t>(PTRDIFF_MAX) / kIndex;
  const std::size_t room = is_nominal ? std::min(given.nnz, given.count) : room_of(given);
  struct Array {
    const char* name;
    const void* begin;
    std::size_t bytes;
  };
  const Array inputs[] = {{"values", given.values, given.nnz * width},
                          {"indices", given.indices, given.nnz * kIndex}};
  const Array values{"out_values", given.out_values, room * width},
      indices{"out_indices", given.out_indices, room * kIndex};
  const auto check = [](const Array& a, const Array& b) {
    if (!overlap(a.begin, a.bytes, b.begin, b.bytes)) return Status();
    return Status(Code::kInvalidArgument,
                  fmt::format("{} overlaps {}: inputs are read while outputs are written, each "
                              "into an array of its own",
                              a.name, b.name));
  };
  return first_error({check(values, inputs[0]), check(values, inputs[1]), check(indices, inputs[0]),
                      check(indices, inputs[1]), check(values, indices)});
}

Status check_sparse_sum(const SparseSumArguments& given) {
  SPARCL_RETURN_IF_ERROR(
      first_error({check_type(given.datatype), check_reduction(given.op, given.datatype)}));
  if (given.out_nnz == nullptr) return Status(Code::kInvalidArgument, "out_nnz is NULL");
  if (given.count > sparse::kMaxSparseCount) {
    return Status(Code::kInvalidArgument,
                  fmt::format("count is {}: indices are below 2^63", given.count));
  }
  const std::size_t width = element_bytes(static_cast<DataType>(given.datatype));
  SPARCL_RETURN_IF_ERROR(check_array("nnz", given.nnz, std::max(width, sizeof(uint64_t))));
  if (given.nnz > 0 && (given.values == nullptr || given.indices == nullptr)) {
    return Status(Code::kInvalidArgument, "values or indices is NULL");
  }
  if (given.out_capacity > 0 && (given.out_values == nullptr || given.out_indices == nullptr)) {
    return Status(Code::kInvalidArgument, "out_values or out_indices is NULL");
  }
  return check_outputs_apart(given);
}

sparclResult_t start_sparse_sum(const char* function, const SparseSumArguments& given,
                                sparclComm* comm, sparclStream_t stream, sparclRequest_t* request) {
  collectives::sparse_sum::SparseAllReduceCall call;
  call.refusal = check_sparse_sum(given).with_prefix(std::string(function) + ": ");
  DeviceArrays arrays(comm, stream);
  size_t* out_nnz = given.out_nnz;
  if (call.refusal.ok()) {
    const std::size_t width = element_bytes(static_cast<DataType>(given.datatype)),
                      room = room_of(given);
    call.indices = {arrays.read("indices", given.indices, given.nnz * sizeof(uint64_t)), given.nnz};
    call.values =
        static_cast<const std::byte*>(arrays.read("values", given.values, given.nnz * width));
    call.count = given.count;
    call.kind = {static_cast<DataType>(given.datatype), reduction_of(given.op),
                 comm->context.determinism};
    call.out_indices = arrays.write("out_indices", given.out_indices, room * sizeof(uint64_t));
    call.out_values =
        static_cast<std::byte*>(arrays.write("out_values", given.out_values, room * width));
    out_nnz = arrays.write("out_nnz", given.out_nnz, sizeof(size_t));
    call.out_capacity = given.out_capacity;
    call.refusal = arrays.status().with_prefix(std::string(function) + ": ");
  }
  return launch(comm, std::make_unique<SparseSumCall>(std::move(call), out_nnz), request,
                std::move(arrays));
}

}  // namespace
}  // namespace sparcl::api

using namespace sparcl::api;

extern "C" {

sparclResult_t sparclAllReduceSparse(const void* values, const uint64_t* indices, size_t nnz,
                                     size_t count, void* out_values, uint64_t* out_indices,
                                     size_t* out_nnz, size_t out_capacity,
                                     sparclDataType_t datatype, sparclRedOp_t op, sparclComm_t comm,
                                     sparclStream_t stream) {
  return start_call(__func__, comm, true, [&](sparclComm* own) {
    const SparseSumArguments given{values,      indices, nnz,          count,    out_values,
                                   out_indices, out_nnz, out_capacity, datatype, op};
    return start_sparse_sum("sparclAllReduceSparse", given, own, stream, nullptr);
  });
}

sparclResult_t sparclIAllReduceSparse(const void* values, const uint64_t* indices, size_t nnz,
                                      size_t count, void* out_values, uint64_t* out_indices,
                                      size_t* out_nnz, size_t out_capacity,
                                      sparclDataType_t datatype, sparclRedOp_t op,
                                      sparclComm_t comm, sparclRequest_t* request) {
  return start_call(__func__, comm, request != nullptr, [&](sparclComm* own) {
    const SparseSumArguments given{values,      indices, nnz,          count,    out_values,
                                   out_indices, out_nnz, out_capacity, datatype, op};
    return start_sparse_sum("sparclIAllReduceSparse", given, own, nullptr, request);
  });
}

}  // extern "C"
