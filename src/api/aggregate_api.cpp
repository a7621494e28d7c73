// Aggregation behind the C interface. Bad arguments do not return early: the rank takes part with
// its refusal.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "collectives/aggregate/aggregation.hpp"
#include "src/api/aggregator_handle.hpp"
#include "src/api/call.hpp"
#include "src/api/call_checks.hpp"
#include "src/api/device_arrays.hpp"
#include "src/api/entry_arguments.hpp"

namespace sparcl::api {
namespace {

using collectives::aggregate::AggregateCall;

class AggregateRequest final : public Call {
 public:
  // held: may be of no object, for a mean without a state.
  AggregateRequest(AggregateCall call, Held<sparclAggregator> held, size_t* out_nnz)
      : call_(std::move(call)), out_nnz_(out_nnz) {
    if (!call_.refusal.ok()) return;
    if (held.get() == nullptr) {
      Result<aggregate::Aggregator> made = aggregate::Aggregator::create(call_.count, {});
      own_.emplace(std::move(*made));
      call_.aggregator = &*own_;
      return;
    }
    held_ = std::move(held);
    call_.aggregator = &held_->aggregator;
    ++held_->calls_in_flight;
  }
  ~AggregateRequest() override { let_go(); }

  comm::Task run(const comm::CommContext& context, std::uint32_t number,
                 comm::CallReport& report) override {
    return collectives::aggregate::aggregate(context, number, call_, report);
  }
  const comm::CollectiveDescriptor& collective() const override {
    return collectives::aggregate::kAggregate;
  }
  flight::CallNote note() const override {
    return {.count = call_.indices.size(),
            .datatype = static_cast<int>(call_.datatype),
            .detail = "entries"};
  }
  CallWork work() const override { return {.entries = call_.indices.size()}; }
  void complete(const Status& status) override {
    if (out_nnz_ != nullptr && (status.ok() || status.code() == Code::kTruncated))
      *out_nnz_ = call_.out_nnz;
    let_go();
  }
  void note_written(DeviceArrays& arrays) const override {
    arrays.written(call_.out_indices, call_.out_nnz * sizeof(uint64_t));
    arrays.written(call_.out_values, call_.out_nnz * element_bytes(call_.datatype));
  }

 private:
  void let_go() {
    if (held_.get() != nullptr) --held_->calls_in_flight;
    held_ = {};
  }

  AggregateCall call_;
  Held<sparclAggregator> held_;
  std::optional<aggregate::Aggregator> own_;
  size_t* out_nnz_;
};

struct AggregateArguments : EntryArguments {
  double weight;
  const sparclAggregateOptions_t* options;
};

Status check_aggregate(const AggregateArguments& given) {
  SPARCL_RETURN_IF_ERROR(check_type(given.datatype));
  const auto type = static_cast<DataType>(given.datatype);
  if (!info(type).is_float || element_bytes(type) > sizeof(float))
    return Status(Code::kUnsupported,
                  fmt::format("datatype is {}: aggregation is of floats of at most 32 bits",
                              info(type).name));
  if (!(given.weight >= 0 && given.weight <= std::numeric_limits<float>::max()))
    return Status(Code::kInvalidArgument,
                  fmt::format("weight is {}: give a number from 0 to 3.4e38", given.weight));
  return check_entries(given);
}

Status check_held(const Held<sparclAggregator>& held) {
  if (held.get() == nullptr) return held.status();
  if (held->calls_in_flight == 0) return {};
  return Status(Code::kInvalidUsage,
                "a call with this aggregator is in flight: wait for it, as each round follows on "
                "the one before");
}

Status check_ranks(const sparclAggregateOptions_t& options, const sparclComm& comm) {
  if (options.ranks == nullptr && options.rank_count > 0)
    return Status(
        Code::kInvalidArgument,
        fmt::format("options.rank_count is {}, but options.ranks is NULL", options.rank_count));
  const int size = comm.transport->size();
  for (std::size_t i = 0; options.ranks != nullptr && i < options.rank_count; ++i) {
    const int rank = options.ranks[i];
    if (rank < 0 || rank >= size || (i > 0 && rank <= options.ranks[i - 1]))
      return Status(Code::kInvalidArgument,
                    fmt::format("options.ranks[{}] is {}: give ranks from 0 to {}, ascending", i,
                                rank, size - 1));
  }
  return {};
}

sparclResult_t start_aggregate(const char* function, const AggregateArguments& given,
                               sparclComm* comm, sparclStream_t stream, sparclRequest_t* request) {
  sparclAggregateOptions_t options = SPARCL_AGGREGATE_OPTIONS_INITIALIZER;
  const Status readable = read_sized(given.options, "options", options);
  const Held<sparclAggregator> held = readable.ok()
                                          ? hold_if_given(options.aggregator, "options.aggregator")
                                          : Held<sparclAggregator>();
  AggregateCall call;
  call.refusal = first_error({readable, check_aggregate(given), check_held(held),
                              readable.ok() ? check_ranks(options, *comm) : readable})
                     .with_prefix(std::string(function) + ": ");
  DeviceArrays arrays(comm, stream);
  size_t* out_nnz = given.out_nnz;
  if (call.refusal.ok()) {
    const auto type = static_cast<DataType>(given.datatype);
    const std::size_t width = element_bytes(type), room = given.room();
    call.indices = {arrays.read("indices", given.indices, given.nnz * sizeof(uint64_t)), given.nnz};
    call.values =
        static_cast<const std::byte*>(arrays.read("values", given.values, given.nnz * width));
    call.count = given.count;
    call.ranks.assign(options.ranks, options.ranks + options.rank_count);
    call.weight = given.weight;
    call.datatype = type;
    call.out_indices = arrays.write("out_indices", given.out_indices, room * sizeof(uint64_t));
    call.out_values =
        static_cast<std::byte*>(arrays.write("out_values", given.out_values, room * width));
    out_nnz = arrays.write("out_nnz", given.out_nnz, sizeof(size_t));
    call.out_capacity = given.out_capacity;
    call.refusal = arrays.status().with_prefix(std::string(function) + ": ");
  }
  return launch(comm, std::make_unique<AggregateRequest>(std::move(call), held, out_nnz), request,
                std::move(arrays));
}

}  // namespace
}  // namespace sparcl::api

using namespace sparcl::api;

extern "C" {

sparclResult_t sparclAggregate(const void* values, const uint64_t* indices, size_t nnz,
                               size_t count, double weight, void* out_values, uint64_t* out_indices,
                               size_t* out_nnz, size_t out_capacity, sparclDataType_t datatype,
                               const sparclAggregateOptions_t* options, sparclComm_t comm,
                               sparclStream_t stream) {
  return start_call(__func__, comm, true, [&](sparclComm* own) {
    const AggregateArguments given{
        {values, indices, nnz, count, out_values, out_indices, out_nnz, out_capacity, datatype},
        weight,
        options};
    return start_aggregate("sparclAggregate", given, own, stream, nullptr);
  });
}

sparclResult_t sparclIAggregate(const void* values, const uint64_t* indices, size_t nnz,
                                size_t count, double weight, void* out_values,
                                uint64_t* out_indices, size_t* out_nnz, size_t out_capacity,
                                sparclDataType_t datatype, const sparclAggregateOptions_t* options,
                                sparclComm_t comm, sparclStream_t stream,
                                sparclRequest_t* request) {
  return start_call(__func__, comm, request != nullptr, [&](sparclComm* own) {
    const AggregateArguments given{
        {values, indices, nnz, count, out_values, out_indices, out_nnz, out_capacity, datatype},
        weight,
        options};
    return start_aggregate("sparclIAggregate", given, own, stream, request);
  });
}

}  // extern "C"
