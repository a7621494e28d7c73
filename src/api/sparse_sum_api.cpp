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
#include "src/api/call_options.hpp"
#include "src/api/device_arrays.hpp"
#include "src/api/entry_arguments.hpp"

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

struct SparseSumArguments : EntryArguments {
  int op;
  const sparclSparseOptions_t* options;
};

Result<sparclSparseOptions_t> read_sparse_options(const sparclSparseOptions_t* given) {
  sparclSparseOptions_t options = SPARCL_SPARSE_OPTIONS_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(read_sized(given, "options", options));
  SPARCL_RETURN_IF_ERROR(
      check_algorithm(options.algorithm, collectives::sparse_sum::kSparseSumAlgorithms));
  SPARCL_RETURN_IF_ERROR(check_determinism("options.determinism", options.determinism));
  SPARCL_RETURN_IF_ERROR(check_wire("options.wire", options.wire));
  return options;
}

Status check_sparse_sum(const SparseSumArguments& given) {
  SPARCL_RETURN_IF_ERROR(
      first_error({check_type(given.datatype), check_reduction(given.op, given.datatype)}));
  return check_entries(given);
}

sparclResult_t start_sparse_sum(const char* function, const SparseSumArguments& given,
                                sparclComm* comm, sparclStream_t stream, sparclRequest_t* request) {
  collectives::sparse_sum::SparseAllReduceCall call;
  const Result<sparclSparseOptions_t> options = read_sparse_options(given.options);
  call.refusal = first_error({check_sparse_sum(given), options.status()})
                     .with_prefix(std::string(function) + ": ");
  DeviceArrays arrays(comm, stream);
  size_t* out_nnz = given.out_nnz;
  if (call.refusal.ok()) {
    const std::size_t width = element_bytes(static_cast<DataType>(given.datatype)),
                      room = given.room();
    call.indices = {arrays.read("indices", given.indices, given.nnz * sizeof(uint64_t)), given.nnz};
    call.values =
        static_cast<const std::byte*>(arrays.read("values", given.values, given.nnz * width));
    call.count = given.count;
    call.kind = {static_cast<DataType>(given.datatype), reduction_of(given.op),
                 options->determinism == sparclDeterminismDefault
                     ? comm->context.determinism
                     : determinism_of(options->determinism)};
    call.wire = static_cast<sparse::Wire>(options->wire);
    call.out_indices = arrays.write("out_indices", given.out_indices, room * sizeof(uint64_t));
    call.out_values =
        static_cast<std::byte*>(arrays.write("out_values", given.out_values, room * width));
    out_nnz = arrays.write("out_nnz", given.out_nnz, sizeof(size_t));
    call.out_capacity = given.out_capacity;
    call.refusal = arrays.status().with_prefix(std::string(function) + ": ");
  }
  auto made = std::make_unique<SparseSumCall>(std::move(call), out_nnz);
  if (options.ok() && options->algorithm != nullptr)
    made->override_settings(*comm).sparse_sum_algorithm = options->algorithm;
  return launch(comm, std::move(made), request, std::move(arrays));
}

}  // namespace
}  // namespace sparcl::api

using namespace sparcl::api;

extern "C" {

sparclResult_t sparclAllReduceSparse(const void* values, const uint64_t* indices, size_t nnz,
                                     size_t count, void* out_values, uint64_t* out_indices,
                                     size_t* out_nnz, size_t out_capacity,
                                     sparclDataType_t datatype, sparclRedOp_t op,
                                     const sparclSparseOptions_t* options, sparclComm_t comm,
                                     sparclStream_t stream) {
  return start_call(__func__, comm, true, [&](sparclComm* own) {
    const SparseSumArguments given{
        {values, indices, nnz, count, out_values, out_indices, out_nnz, out_capacity, datatype},
        op,
        options};
    return start_sparse_sum("sparclAllReduceSparse", given, own, stream, nullptr);
  });
}

sparclResult_t sparclIAllReduceSparse(const void* values, const uint64_t* indices, size_t nnz,
                                      size_t count, void* out_values, uint64_t* out_indices,
                                      size_t* out_nnz, size_t out_capacity,
                                      sparclDataType_t datatype, sparclRedOp_t op,
                                      const sparclSparseOptions_t* options, sparclComm_t comm,
                                      sparclStream_t stream, sparclRequest_t* request) {
  return start_call(__func__, comm, request != nullptr, [&](sparclComm* own) {
    const SparseSumArguments given{
        {values, indices, nnz, count, out_values, out_indices, out_nnz, out_capacity, datatype},
        op,
        options};
    return start_sparse_sum("sparclIAllReduceSparse", given, own, stream, request);
  });
}

}  // extern "C"
