// The sparse all-reduces behind the C interface. Bad arguments do not return early: the rank takes
// part with its refusal.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "collectives/masked/canonical_sum.hpp"
#include "collectives/masked/masked.hpp"
#include "src/api/call.hpp"
#include "src/api/call_checks.hpp"
#include "src/api/call_options.hpp"
#include "src/api/device_arrays.hpp"
#include "src/api/device_path.hpp"
#include "src/api/feedback_handle.hpp"
#include "src/api/mask_handle.hpp"
#include "src/base/settings.hpp"

namespace sparcl::api {
namespace {

class MaskedCall final : public Call {
 public:
  // feedback: may be of no object.
  MaskedCall(collectives::masked::MaskedCall call, std::uint64_t count, Held<sparclMask> mask,
             Held<sparclFeedback> feedback)
      : call_(std::move(call)), count_(count) {
    if (!call_.refusal.ok()) return;
    mask_ = std::move(mask);
    call_.mask = &mask_->mask;
    ++mask_->calls_in_flight;
    if (feedback.get() == nullptr) return;
    feedback_ = std::move(feedback);
    call_.feedback = &feedback_->feedback;
    ++feedback_->calls_in_flight;
  }
  ~MaskedCall() override { let_go(); }
  comm::Task run(const comm::CommContext& context, std::uint32_t number,
                 comm::CallReport& report) override {
    if (call_.device_masks == nullptr)
      return collectives::masked::all_reduce_masked(context, number, call_, report);
    return call_.scratch != nullptr
               ? collectives::masked::all_reduce_masked_device(context, number, call_, report)
               : collectives::masked::all_reduce_masked_nccl(context, number, call_, report);
  }
  const comm::CollectiveDescriptor& collective() const override {
    return collectives::masked::kAllReduceMasked;
  }
  flight::CallNote note() const override {
    return {.count = count_, .datatype = static_cast<int>(call_.datatype)};
  }
  CallWork work() const override {
    const bool is_named = mask_.get() != nullptr;
    return {.variant = call_.feedback != nullptr ? "feedback" : "",
            .elements = call_.feedback != nullptr ? count_ : 0,
            .entries = is_named ? call_.mask->size() : 0};
  }
  void complete(const Status&) override { let_go(); }

 private:
  // Also of a call that never began, as an exception came before.
  void let_go() {
    if (mask_.get() != nullptr) --mask_->calls_in_flight;
    if (feedback_.get() != nullptr) --feedback_->calls_in_flight;
    mask_ = {};
    feedback_ = {};
  }

  collectives::masked::MaskedCall call_;
  std::uint64_t count_;
  Held<sparclMask> mask_;
  Held<sparclFeedback> feedback_;
};

Status check_masked_feedback(const Held<sparclFeedback>& feedback, const void* send,
                             std::uint64_t count, int datatype, int op) {
  if (feedback.get() == nullptr) return feedback.status();
  if (count > 0 && send == nullptr) return Status(Code::kInvalidArgument, "sendbuff is NULL");
  if (op != sparclSum && op != sparclAvg)
    return Status(
        Code::kInvalidArgument,
        fmt::format("op: with a feedback sparclSum or sparclAvg, not {}", static_cast<int>(op)));
  return check_feedback(*feedback, count, static_cast<DataType>(datatype));
}

Status check_masked(const void* send, const void* receive, std::uint64_t count, int datatype,
                    int op, const Held<sparclMask>& mask) {
  SPARCL_RETURN_IF_ERROR(first_error({check_type(datatype), check_reduction(op, datatype)}));
  SPARCL_RETURN_IF_ERROR(
      check_array("count", count, element_bytes(static_cast<DataType>(datatype))));
  SPARCL_RETURN_IF_ERROR(mask.status());
  if (mask->mask.count() != count) {
    return Status(Code::kInvalidArgument,
                  fmt::format("count is {}, but the mask is of arrays of {} elements", count,
                              mask->mask.count()));
  }
  if (mask->mask.size() > 0 && (send == nullptr || receive == nullptr)) {
    return Status(Code::kInvalidArgument,
                  send == nullptr ? "sendbuff is NULL" : "recvbuff is NULL");
  }
  return Status();
}

Result<sparclMaskedOptions_t> read_masked_options(const sparclMaskedOptions_t* given) {
  sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(read_sized(given, "options", options));
  SPARCL_RETURN_IF_ERROR(check_algorithm(options.algorithm, collectives::dense::kDenseAlgorithms));
  SPARCL_RETURN_IF_ERROR(check_enum("options.outside", number_of(options.outside),
                                    sparclOutsideZero, "sparclOutside_t"));
  SPARCL_RETURN_IF_ERROR(check_determinism("options.determinism", options.determinism));
  return options;
}

// Whether it was said that bits must be those of the host's.
bool must_be_canonical(const sparclComm& comm, sparclDeterminism_t of_call) {
  if (of_call != sparclDeterminismDefault) return of_call == sparclDeterminismCanonical;
  if (comm.config.determinism != sparclDeterminismDefault)
    return comm.config.determinism == sparclDeterminismCanonical;
  const SettingValue given = setting("DETERMINISM");
  return given.source == "environment" && given.text == "canonical";
}

bool goes_over_gpus(const sparclComm& comm, const void* send, const void* receive, DataType type,
                    const sparclMask& mask, bool is_canonical) {
  if (!are_on_gpus(comm, send, receive) || mask.mask.size() == 0 ||
      !are_aligned(send, receive, type))
    return false;
  return is_canonical ? collectives::masked::takes_canonical(comm.transport->size())
                      : comm.device->engine().reduces(type);
}

struct MaskedArguments {
  const void* send;
  void* receive;
  std::uint64_t count;
  int datatype, op;
  sparclMask_t mask;
  sparclFeedback_t feedback;
  const sparclMaskedOptions_t* options;
};

sparclResult_t launch_masked(collectives::masked::MaskedCall call, const MaskedArguments& given,
                             const sparclMaskedOptions_t& options, const Held<sparclMask>& mask,
                             const Held<sparclFeedback>& feedback, sparclComm* comm,
                             sparclRequest_t* request, DeviceArrays arrays) {
  auto made = std::make_unique<MaskedCall>(std::move(call), given.count, mask, feedback);
  if (options.algorithm != nullptr)
    made->override_settings(*comm).all_reduce_algorithm = options.algorithm;
  return launch(comm, std::move(made), request, std::move(arrays));
}

// count: that of the mask.
Status check_outside(const sparclMaskedOptions_t& options, const void* receive,
                     std::uint64_t count) {
  if (options.outside == sparclOutsideKeep || count == 0 || receive != nullptr) return Status();
  return Status(Code::kInvalidArgument, "recvbuff is NULL");
}

sparclResult_t start_masked(const char* function, const MaskedArguments& given, sparclComm* comm,
                            sparclStream_t stream, sparclRequest_t* request) {
  const auto& [send, receive, count, datatype, op, given_mask, given_feedback, given_options] =
      given;
  const Result<sparclMaskedOptions_t> read = read_masked_options(given_options);
  constexpr sparclMaskedOptions_t kNone = SPARCL_MASKED_OPTIONS_INITIALIZER;
  const sparclMaskedOptions_t& options = read.ok() ? *read : kNone;
  const Held<sparclMask> mask(given_mask, "mask");
  const Held<sparclFeedback> feedback = hold_if_given(given_feedback, "feedback");
  const Status wrong =
      first_error({read.status(), check_masked(send, receive, count, datatype, op, mask),
                   check_outside(options, receive, count)});
  collectives::masked::MaskedCall call;
  call.refusal = (wrong.ok() ? check_masked_feedback(feedback, send, count, datatype, op) : wrong)
                     .with_prefix(std::string(function) + ": ");
  DeviceArrays arrays(comm, stream);
  if (call.refusal.ok()) {
    call.datatype = static_cast<DataType>(datatype);
    call.reduction = reduction_of(op);
    const std::size_t bytes = count * element_bytes(call.datatype);
    const bool may_stay = request == nullptr && feedback.get() == nullptr;
    call.is_canonical = must_be_canonical(*comm, options.determinism);
    call.clears_outside = options.outside == sparclOutsideZero;
    const bool is_between_gpus =
        may_stay && goes_over_gpus(*comm, send, receive, call.datatype, *mask, call.is_canonical);
    const bool is_part = mask->mask.size() > 0 && mask->mask.size() < count;
    if (may_stay && is_part && !is_between_gpus)
      call.scratch = scratch_for_masked(*comm, send, receive, call.datatype,
                                        mask->mask.size() * element_bytes(call.datatype), stream);
    if (is_between_gpus || call.scratch != nullptr) {
      call.send = static_cast<const std::byte*>(send);
      call.receive = static_cast<std::byte*>(receive);
      call.device_masks = &mask->on_devices;
      call.stream = stream;
      const Status ready =
          is_between_gpus ? check_gpu(*comm, send, receive) : await_stream(*comm, send, stream);
      call.refusal = ready.with_prefix(std::string(function) + ": ");
      return launch_masked(std::move(call), given, options, mask, Held<sparclFeedback>(), comm,
                           nullptr, {});
    }
    call.send = static_cast<const std::byte*>(arrays.read("sendbuff", send, bytes));
    call.receive = static_cast<std::byte*>(arrays.update("recvbuff", receive, bytes));
    const Status placed = feedback.get() != nullptr ? feedback->feedback.use_on_host() : Status();
    call.refusal = first_error({arrays.status(), placed}).with_prefix(std::string(function) + ": ");
  }
  return launch_masked(std::move(call), given, options, mask, feedback, comm, request,
                       std::move(arrays));
}

}  // namespace
}  // namespace sparcl::api

using namespace sparcl::api;

extern "C" {

sparclResult_t sparclAllReduceMasked(const void* sendbuff, void* recvbuff, size_t count,
                                     sparclDataType_t datatype, sparclRedOp_t op, sparclMask_t mask,
                                     sparclFeedback_t feedback,
                                     const sparclMaskedOptions_t* options, sparclComm_t comm,
                                     sparclStream_t stream) {
  return start_call(__func__, comm, true, [&](sparclComm* own) {
    return start_masked("sparclAllReduceMasked",
                        {sendbuff, recvbuff, count, datatype, op, mask, feedback, options}, own,
                        stream, nullptr);
  });
}

sparclResult_t sparclIAllReduceMasked(const void* sendbuff, void* recvbuff, size_t count,
                                      sparclDataType_t datatype, sparclRedOp_t op,
                                      sparclMask_t mask, sparclFeedback_t feedback,
                                      const sparclMaskedOptions_t* options, sparclComm_t comm,
                                      sparclStream_t stream, sparclRequest_t* request) {
  return start_call(__func__, comm, request != nullptr, [&](sparclComm* own) {
    return start_masked("sparclIAllReduceMasked",
                        {sendbuff, recvbuff, count, datatype, op, mask, feedback, options}, own,
                        stream, request);
  });
}

}  // extern "C"
