// Error feedback behind the C interface.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "src/api/call_checks.hpp"
#include "src/api/error.hpp"
#include "src/api/feedback_handle.hpp"
#include "src/sparse/selection/feedback_file.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::guarded;
using sparcl::api::guarded_with;
using sparcl::sparse::Feedback;

Status sparcl::api::check_feedback(const sparclFeedback& given, std::uint64_t count,
                                   DataType datatype) {
  const Feedback& feedback = given.feedback;
  if (feedback.count() != count || feedback.type() != datatype) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("the feedback is of {} elements of {}, the call of {} of {}: make a feedback "
                    "with the call's count and type",
                    feedback.count(), info(feedback.type()).name, count, info(datatype).name));
  }
  if (given.calls_in_flight > 0)
    return Status(
        Code::kInvalidUsage,
        "a call with this feedback is in flight: wait for it, or use one feedback for each "
        "array");
  return Status();
}

namespace {

Status check_idle_feedback(const sparclFeedback& feedback) {
  if (feedback.calls_in_flight == 0) return Status();
  return Status(
      Code::kInvalidUsage,
      "a call with this feedback is in flight: wait for it, or destroy its communicator, first");
}

// Runs `use` on a feedback that no call is using.
template <class Use>
sparclResult_t with_idle(const char* function, sparclFeedback_t feedback, Use&& use) {
  return guarded_with(function, feedback, "feedback", [&](sparclFeedback& own) -> Status {
    SPARCL_RETURN_IF_ERROR(check_idle_feedback(own));
    return Status(use(own.feedback));
  });
}

template <class Make>
sparclResult_t create(const char* function, sparclFeedback_t* feedback, Make&& make) {
  return guarded([&]() -> Status {
    const std::string prefix = std::string(function) + ": ";
    if (feedback == nullptr) return Status(Code::kInvalidArgument, prefix + "feedback is NULL");
    Result<Feedback> made = make();
    if (!made.ok()) return made.status().with_prefix(prefix);
    *feedback = std::make_unique<sparclFeedback>(std::move(*made)).release()->handle.get();
    return Status();
  });
}

sparclFeedbackStats_t stats_of(const Feedback& feedback) {
  sparclFeedbackStats_t all = SPARCL_FEEDBACK_STATS_INITIALIZER;
  all.calls = feedback.stats.calls;
  all.selected = feedback.stats.selected;
  all.sent_mass = feedback.stats.sent_mass;
  all.residual_l2 = feedback.residual_l2();
  all.dropped_l2 = feedback.dropped_l2(all.residual_l2);
  all.threshold = feedback.threshold();
  all.threshold_drift = feedback.stats.drift;
  all.passes = feedback.stats.passes;
  all.sent = feedback.stats.sent;
  return all;
}

}  // namespace

extern "C" {

sparclResult_t sparclFeedbackCreate(sparclFeedback_t* feedback, size_t count,
                                    sparclDataType_t datatype) {
  return create(__func__, feedback, [&]() -> Result<Feedback> {
    SPARCL_RETURN_IF_ERROR(sparcl::api::check_type(datatype));
    return Feedback::create(count, static_cast<sparcl::DataType>(datatype));
  });
}

sparclResult_t sparclFeedbackSave(sparclFeedback_t feedback, const char* path) {
  return with_idle(__func__, feedback, [&](Feedback& idle) -> Status {
    if (path == nullptr) return Status(Code::kInvalidArgument, "path is NULL");
    SPARCL_RETURN_IF_ERROR(idle.fetch());
    return sparcl::sparse::save_feedback(idle, path);
  });
}

sparclResult_t sparclFeedbackLoad(sparclFeedback_t* feedback, const char* path) {
  return create(__func__, feedback, [&]() -> Result<Feedback> {
    if (path == nullptr) return Status(Code::kInvalidArgument, "path is NULL");
    return sparcl::sparse::load_feedback(path);
  });
}

sparclResult_t sparclFeedbackReset(sparclFeedback_t feedback) {
  return with_idle(__func__, feedback, [](Feedback& idle) { return idle.reset(); });
}

sparclResult_t sparclFeedbackStats(sparclFeedback_t feedback, sparclFeedbackStats_t* stats) {
  return with_idle(__func__, feedback, [&](Feedback& idle) -> Status {
    if (stats == nullptr) return Status(Code::kInvalidArgument, "stats is NULL");
    SPARCL_RETURN_IF_ERROR(sparcl::api::check_size("stats->size", stats->size, sizeof *stats));
    SPARCL_RETURN_IF_ERROR(idle.fetch());
    sparclFeedbackStats_t known = stats_of(idle);
    known.size = stats->size;
    std::memcpy(stats, &known, stats->size < sizeof known ? stats->size : sizeof known);
    return Status();
  });
}

sparclResult_t sparclFeedbackGetResidual(sparclFeedback_t feedback, const void** residual,
                                         size_t* count, sparclDataType_t* datatype) {
  return with_idle(__func__, feedback, [&](Feedback& idle) -> Status {
    if (residual == nullptr) return Status(Code::kInvalidArgument, "residual is NULL");
    SPARCL_RETURN_IF_ERROR(idle.fetch());
    *residual = idle.residual();
    if (count != nullptr) *count = idle.count();
    if (datatype != nullptr) *datatype = static_cast<sparclDataType_t>(idle.residual_type());
    return Status();
  });
}

sparclResult_t sparclFeedbackDestroy(sparclFeedback_t feedback) {
  return sparcl::api::destroy_handle(__func__, feedback, "feedback", check_idle_feedback);
}

}  // extern "C"
