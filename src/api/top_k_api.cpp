// The top-k all-reduce behind the C interface. Bad arguments do not return early: the rank takes
// part with its refusal.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/dense/dense.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"
#include "collectives/top_k/top_k_all_reduce.hpp"
#include "collectives/top_k/top_k_stream.hpp"
#include "src/api/call.hpp"
#include "src/api/call_checks.hpp"
#include "src/api/call_options.hpp"
#include "src/api/device_arrays.hpp"
#include "src/api/device_path.hpp"
#include "src/api/feedback_handle.hpp"

namespace sparcl::api {
namespace {

class TopKRequest final : public Call {
 public:
  // feedback: may be of no object.
  TopKRequest(collectives::top_k::TopKCall call, Held<sparclFeedback> feedback)
      : call_(std::move(call)) {
    if (!call_.refusal.ok() || feedback.get() == nullptr) return;
    feedback_ = std::move(feedback);
    call_.feedback = &feedback_->feedback;
    ++feedback_->calls_in_flight;
  }
  ~TopKRequest() override { let_go(); }
  comm::Task run(const comm::CommContext& context, std::uint32_t number,
                 comm::CallReport& report) override {
    return call_.is_between_gpus
               ? collectives::top_k::all_reduce_top_k_nccl(context, number, call_, report)
               : collectives::top_k::all_reduce_top_k(context, number, call_, report);
  }
  const comm::CollectiveDescriptor& collective() const override {
    return collectives::top_k::kAllReduceTopK;
  }
  flight::CallNote note() const override {
    return {.count = call_.count, .datatype = static_cast<int>(call_.datatype)};
  }
  CallWork work() const override {
    constexpr std::array kModes{"union", "selected", "global"};
    return {.variant = kModes[static_cast<std::size_t>(call_.mode)],
            .elements = call_.count * element_bytes(call_.datatype) / 4,
            .entries = call_.k};
  }
  void complete(const Status&) override { let_go(); }

 private:
  void let_go() {
    if (feedback_.get() != nullptr) --feedback_->calls_in_flight;
    feedback_ = {};
  }

  collectives::top_k::TopKCall call_;
  Held<sparclFeedback> feedback_;
};

struct TopKArguments {
  const void* send;
  void* receive;
  size_t count, k;
  int datatype, op;
  Held<sparclFeedback> feedback;
  const sparclTopKOptions_t* options;
};

bool takes_means(int datatype) {
  return check_type(datatype).ok() && info(static_cast<DataType>(datatype)).is_float;
}

// For mode union, where the names of sparse sums choose nothing.
bool names_dense_sum(const sparclTopKOptions_t& options) {
  return options.algorithm != nullptr &&
         check_algorithm(options.algorithm, collectives::dense::kDenseAlgorithms).ok();
}

Status check_options(const sparclTopKOptions_t& options, int datatype) {
  SPARCL_RETURN_IF_ERROR(
      check_enum("options.mode", number_of(options.mode), sparclTopKGlobal, "sparclTopKMode_t"));
  SPARCL_RETURN_IF_ERROR(check_wire("options.wire", options.wire));
  SPARCL_RETURN_IF_ERROR(check_enum("options.residual", number_of(options.residual),
                                    sparclResidualMean, "sparclResidual_t"));
  if (options.residual == sparclResidualMean && !takes_means(datatype)) {
    return Status(Code::kInvalidArgument,
                  "options.residual = sparclResidualMean is for floats: an integer's mean is "
                  "rounded, and the rest would be lost");
  }
  SPARCL_RETURN_IF_ERROR(check_determinism("options.determinism", options.determinism));
  SPARCL_RETURN_IF_ERROR(check_toggle("options.reuse_threshold", options.reuse_threshold));
  SPARCL_RETURN_IF_ERROR(check_toggle("options.device_kernels", options.device_kernels));
  if (options.mode == sparclTopKUnion && names_dense_sum(options)) return Status();
  return check_algorithm(options.algorithm, collectives::sparse_sum::kSparseSumAlgorithms);
}

Status check_tensors(const sparclTopKOptions_t& options, std::uint64_t count) {
  if (options.tensors == nullptr) {
    if (options.tensor_count == 0) return Status();
    return Status(
        Code::kInvalidArgument,
        fmt::format("options.tensor_count = {}, but options.tensors is NULL: their lengths",
                    options.tensor_count));
  }
  SPARCL_RETURN_IF_ERROR(
      check_array("options.tensor_count", options.tensor_count, sizeof(std::uint64_t)));
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < options.tensor_count; ++i) {
    if (options.tensors[i] > count - all) {
      all = UINT64_MAX;
      break;
    }
    all += options.tensors[i];
  }
  if (all == count) return Status();
  return Status(Code::kInvalidArgument,
                fmt::format("options.tensors: {} lengths that are not {} in sum",
                            options.tensor_count, count));
}

// To each its share of k, by rounding where tensors end, so that all shares are k.
std::vector<sparse::Selection::Part> parts_of(const sparclTopKOptions_t& options,
                                              std::uint64_t count, std::uint64_t k) {
  __extension__ using Wide = unsigned __int128;
  std::vector<sparse::Selection::Part> parts;
  std::uint64_t end = 0, given = 0;
  for (std::size_t i = 0; options.tensors != nullptr && i < options.tensor_count; ++i) {
    end += options.tensors[i];
    const std::uint64_t until = count == 0 ? 0 : static_cast<std::uint64_t>(Wide{k} * end / count);
    parts.push_back({options.tensors[i], until - given});
    given = until;
  }
  return parts;
}

Status check_top_k(const TopKArguments& given, const sparclComm& comm) {
  SPARCL_RETURN_IF_ERROR(
      first_error({check_type(given.datatype), check_reduction(given.op, given.datatype)}));
  if (given.op != sparclSum && given.op != sparclAvg)
    return Status(Code::kInvalidArgument,
                  fmt::format("op: sparclSum or sparclAvg, not {}", static_cast<int>(given.op)));
  const auto type = static_cast<DataType>(given.datatype);
  if (!sparse::Selection::supports(type, *comm.context.kernels)) {
    return Status(Code::kUnsupported,
                  fmt::format("top-k of {} is not there: floats, and integers of 32 and 64 bits",
                              info(type).name));
  }
  SPARCL_RETURN_IF_ERROR(check_array("count", given.count, element_bytes(type)));
  if (given.k > given.count) {
    return Status(Code::kInvalidArgument,
                  fmt::format("k is {}, but the array has {} elements: give at most as many (0: "
                              "none is selected, and all stays in the feedback)",
                              given.k, given.count));
  }
  if (given.count > 0 && given.send == nullptr)
    return Status(Code::kInvalidArgument, "sendbuff is NULL");
  if (given.count > 0 && given.receive == nullptr)
    return Status(Code::kInvalidArgument, "recvbuff is NULL");
  return given.feedback.get() == nullptr ? given.feedback.status()
                                         : check_feedback(*given.feedback, given.count, type);
}

// On the device, as they are; else where the host reaches them.
Status place_arrays(const TopKArguments& given, const sparclTopKOptions_t& options,
                    sparclComm& comm, bool is_blocking, sparclStream_t stream,
                    collectives::top_k::TopKCall& call, DeviceArrays& arrays) {
  const bool may_stay =
      is_blocking && given.count > 0 && are_aligned(given.send, given.receive, call.datatype);
  call.is_between_gpus = may_stay && are_on_gpus(comm, given.send, given.receive) &&
                         comm.device->kernels().top_k.supports(call.datatype) &&
                         collectives::top_k::takes_gpus(call, comm.transport->size());
  if (may_stay && !call.is_between_gpus)
    call.device = scratch_for_top_k(comm, given.send, given.receive, call.datatype, stream,
                                    is_on(options.device_kernels, comm.uses_device_kernels));
  if (call.is_between_gpus || call.device != nullptr) {
    call.send = static_cast<const std::byte*>(given.send);
    call.receive = static_cast<std::byte*>(given.receive);
    call.stream = stream;
    return call.is_between_gpus ? check_gpu(comm, given.send, given.receive)
                                : await_stream(comm, given.send, stream);
  }
  const std::size_t bytes = given.count * element_bytes(call.datatype);
  call.send = static_cast<const std::byte*>(arrays.read("sendbuff", given.send, bytes));
  call.receive = static_cast<std::byte*>(arrays.write("recvbuff", given.receive, bytes));
  SPARCL_RETURN_IF_ERROR(arrays.status());
  return given.feedback.get() != nullptr ? given.feedback->feedback.use_on_host() : Status();
}

sparclResult_t start_top_k(const char* function, const TopKArguments& given, sparclComm* comm,
                           sparclStream_t stream, sparclRequest_t* request) {
  sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
  const Status readable = read_sized(given.options, "options", options);
  collectives::top_k::TopKCall call;
  call.refusal =
      first_error({readable, readable.ok() ? check_options(options, given.datatype) : readable,
                   readable.ok() ? check_tensors(options, given.count) : readable,
                   check_top_k(given, *comm)})
          .with_prefix(std::string(function) + ": ");
  DeviceArrays arrays(comm, stream);
  if (call.refusal.ok()) {
    call.count = given.count;
    call.k = given.k;
    call.datatype = static_cast<DataType>(given.datatype);
    call.tensors = parts_of(options, given.count, call.k);
    call.is_mean = given.op == sparclAvg;
    call.mode = static_cast<collectives::top_k::TopKMode>(options.mode);
    call.reuses_threshold = is_on(options.reuse_threshold, false);
    call.wire = static_cast<collectives::top_k::TopKWire>(options.wire);
    call.kept = static_cast<collectives::top_k::TopKResidual>(options.residual);
    call.determinism = options.determinism == sparclDeterminismDefault
                           ? comm->context.determinism
                           : determinism_of(options.determinism);
    call.algorithm =
        options.algorithm != nullptr ? options.algorithm : comm->context.sparse_sum_algorithm;
    call.refusal = place_arrays(given, options, *comm, request == nullptr, stream, call, arrays)
                       .with_prefix(std::string(function) + ": ");
  }
  const bool is_dense = call.mode == collectives::top_k::TopKMode::kUnion;
  const bool is_valid = call.refusal.ok();
  auto made = std::make_unique<TopKRequest>(std::move(call), given.feedback);
  if (is_valid && is_dense && names_dense_sum(options))
    made->override_settings(*comm).all_reduce_algorithm = options.algorithm;
  return launch(comm, std::move(made), request, std::move(arrays));
}

}  // namespace
}  // namespace sparcl::api

using namespace sparcl::api;

extern "C" {

sparclResult_t sparclAllReduceTopK(const void* sendbuff, void* recvbuff, size_t count, size_t k,
                                   sparclDataType_t datatype, sparclRedOp_t op,
                                   sparclFeedback_t feedback, const sparclTopKOptions_t* options,
                                   sparclComm_t comm, sparclStream_t stream) {
  return start_call(__func__, comm, true, [&](sparclComm* own) {
    return start_top_k(
        "sparclAllReduceTopK",
        {sendbuff, recvbuff, count, k, datatype, op, hold_if_given(feedback, "feedback"), options},
        own, stream, nullptr);
  });
}

sparclResult_t sparclIAllReduceTopK(const void* sendbuff, void* recvbuff, size_t count, size_t k,
                                    sparclDataType_t datatype, sparclRedOp_t op,
                                    sparclFeedback_t feedback, const sparclTopKOptions_t* options,
                                    sparclComm_t comm, sparclStream_t stream,
                                    sparclRequest_t* request) {
  return start_call(__func__, comm, request != nullptr, [&](sparclComm* own) {
    return start_top_k(
        "sparclIAllReduceTopK",
        {sendbuff, recvbuff, count, k, datatype, op, hold_if_given(feedback, "feedback"), options},
        own, stream, request);
  });
}

}  // extern "C"
