// Aggregators that serve workers, behind the C interface.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "src/api/call_options.hpp"
#include "src/api/elastic_handles.hpp"
#include "src/api/error.hpp"
#include "src/api/long_wait.hpp"
#include "src/net/host_port.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::AttachedState;
using sparcl::api::guarded_with;
using sparcl::api::Held;
using sparcl::api::Serving;
using sparcl::elastic::ElasticService;
using sparcl::elastic::ServicePlan;

namespace {

constexpr std::uint64_t kMaxQuorum = 1 << 20;

std::string text_of(const char* text) { return text != nullptr ? text : ""; }

Result<sparcl::aggregate::RoundOptions> read_round(const sparclServeOptions_t& given) {
  using sparcl::aggregate::RoundMode;
  constexpr RoundMode kModes[] = {RoundMode::kSynchronous, RoundMode::kQuorum,
                                  RoundMode::kAsynchronous};
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_enum("options.round",
                                                 sparcl::api::number_of(given.round),
                                                 sparclRoundAsynchronous, "sparclRound_t"));
  if (given.quorum > kMaxQuorum)
    return Status(Code::kInvalidArgument,
                  fmt::format("options.quorum is {}: give at most {}", given.quorum, kMaxQuorum));
  sparcl::aggregate::RoundOptions round;
  round.mode = kModes[given.round];
  if (given.quorum > 0) round.quorum = static_cast<std::uint32_t>(given.quorum);
  if (given.deadline_s != 0) round.deadline_s = given.deadline_s;
  round.grace = {given.grace_min_s, given.grace_max_s};
  if (given.late_factor != 0) round.late_factor = given.late_factor;
  if (given.max_rounds_late != 0) round.max_rounds_late = given.max_rounds_late;
  SPARCL_RETURN_IF_ERROR(sparcl::aggregate::check_round_options(round).with_prefix("options: "));
  return round;
}

Result<ServicePlan> read_serve_options(const sparclServeOptions_t* given) {
  sparclServeOptions_t all = SPARCL_SERVE_OPTIONS_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(sparcl::api::read_sized(given, "options", all));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_toggle("options.insecure", all.insecure));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_path("folder", all.folder));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_path("key_path", all.key_path));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_path("contributors_path", all.contributors_path));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_path("secret_path", all.secret_path));
  SPARCL_RETURN_IF_ERROR(sparcl::api::check_path("certificates_path", all.certificates_path));
  ServicePlan plan;
  SPARCL_ASSIGN_OR_RETURN(plan.root.desk.round, read_round(all));
  plan.listen = text_of(all.listen);
  plan.publish.listen = text_of(all.publish);
  plan.publish.model_id = text_of(all.model_id);
  plan.publish.key_path = text_of(all.key_path);
  plan.contributors_path = text_of(all.contributors_path);
  plan.publish.secret_path = text_of(all.secret_path);
  plan.publish.certificates_path = text_of(all.certificates_path);
  plan.publish.is_insecure = all.insecure == sparclOn;
  SPARCL_RETURN_IF_ERROR(plan.publish.take_settings());
  plan.root.folder = text_of(all.folder);
  plan.parent = text_of(all.parent);
  if (all.parent == nullptr) return plan;
  SPARCL_RETURN_IF_ERROR(
      sparcl::net::parse_host_ports(plan.parent).status().with_prefix("options.parent: "));
  const char* const other = all.publish != nullptr             ? "publish"
                            : all.folder != nullptr            ? "folder"
                            : all.key_path != nullptr          ? "key_path"
                            : all.contributors_path != nullptr ? "contributors_path"
                                                               : nullptr;
  if (other == nullptr) return plan;
  return Status(Code::kInvalidArgument,
                fmt::format("options.parent and options.{} are both given: only the aggregator "
                            "without a parent publishes results, keeps rounds, and checks keys",
                            other));
}

Status serve(sparclAggregator& own, sparclState_t state, const sparclServeOptions_t* given) {
  if (own.serving != nullptr)
    return Status(Code::kInvalidUsage, "this aggregator serves workers already");
  if (own.calls_in_flight.load() > 0)
    return Status(Code::kInvalidUsage, "a call with this aggregator is in flight: wait for it");
  SPARCL_ASSIGN_OR_RETURN(ServicePlan plan, read_serve_options(given));
  const Held<sparclState> held(state, "state");
  SPARCL_RETURN_IF_ERROR(held.status());
  SPARCL_RETURN_IF_ERROR(held->check_in_memory());
  if (held->has_device_memory())
    return Status(Code::kUnsupported,
                  "the state has tensors in device memory: an aggregator's are in host memory");
  auto made = std::make_shared<Serving>();
  SPARCL_ASSIGN_OR_RETURN(made->attached, AttachedState::attach(held, AttachedState::Use::kRead));
  SPARCL_ASSIGN_OR_RETURN(made->service, ElasticService::create(made->attached->view(),
                                                                own.aggregator, std::move(plan)));
  if (!made->service->has_parent()) made->attached->state().version = made->service->version();
  own.serving = std::move(made);
  own.calls_in_flight = 1;  // no other call takes it
  return {};
}

// Runs `use` on an aggregator that serves, and is of this process.
template <class Use>
sparclResult_t with_serving(const char* name, sparclAggregator_t aggregator, Use&& use) {
  return guarded_with(name, aggregator, "aggregator", [&](sparclAggregator& own) -> Status {
    if (own.serving == nullptr)
      return Status(Code::kInvalidUsage,
                    "this aggregator serves no workers: call sparclAggregatorServe first");
    if (own.serving->service->is_own_process()) return use(*own.serving);
    return Status(Code::kInvalidUsage,
                  "this aggregator belongs to the parent process: a child of fork() cannot use it");
  });
}

Status next(Serving& own, double seconds, sparclRoundReport_t* report) {
  if (std::isnan(seconds)) return Status(Code::kInvalidArgument, "seconds is NaN");
  if (report != nullptr)  // before the wait
    SPARCL_RETURN_IF_ERROR(
        sparcl::api::check_size("report->size", report->size, sizeof(sparclRoundReport_t)));
  const Result<sparcl::elastic::RoundReport> ended = sparcl::api::wait_long(
      "sparclAggregatorNext", seconds, [&](double piece) { return own.service->next(piece); });
  if (!ended.ok()) return ended.status();
  if (!own.service->has_parent()) own.attached->state().version = own.service->version();
  if (report == nullptr) return {};
  sparclRoundReport_t all = SPARCL_ROUND_REPORT_INITIALIZER;
  all.version = own.service->version();
  all.listed = ended->failure.ok() ? ended->listed : 0;
  all.late = ended->late;
  all.missing = ended->expelled;
  all.changed = ended->changed;
  all.bytes = ended->received_bytes;
  all.weight = ended->total_weight;
  all.seconds = ended->seconds;
  return sparcl::api::write_sized(all, "report", report);
}

}  // namespace

extern "C" {

sparclResult_t sparclAggregatorServe(sparclAggregator_t aggregator, sparclState_t state,
                                     const sparclServeOptions_t* options) {
  return guarded_with(__func__, aggregator, "aggregator",
                      [&](sparclAggregator& own) { return serve(own, state, options); });
}

sparclResult_t sparclAggregatorAddress(sparclAggregator_t aggregator, char* workers, char* results,
                                       size_t capacity) {
  return with_serving(__func__, aggregator, [&](const Serving& own) -> Status {
    if (workers == nullptr) return Status(Code::kInvalidArgument, "workers is NULL");
    SPARCL_RETURN_IF_ERROR(
        sparcl::api::copy_text(own.service->address(), workers, capacity, "workers"));
    if (results == nullptr) return {};
    return sparcl::api::copy_text(own.service->results(), results, capacity, "results");
  });
}

sparclResult_t sparclAggregatorNext(sparclAggregator_t aggregator, double seconds,
                                    sparclRoundReport_t* report) {
  return with_serving(__func__, aggregator,
                      [&](Serving& own) { return next(own, seconds, report); });
}

}  // extern "C"
