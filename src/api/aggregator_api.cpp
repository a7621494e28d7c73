// Aggregators behind the C interface: what a rank keeps between the rounds.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "src/aggregate/outer/aggregator_file.hpp"
#include "src/api/call_checks.hpp"
#include "src/api/call_options.hpp"
#include "src/api/elastic_handles.hpp"
#include "src/api/error.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::aggregate::Aggregator;
using sparcl::aggregate::AggregatorOptions;
using sparcl::api::guarded;
using sparcl::api::guarded_with;

namespace {

Status check_idle_aggregator(const sparclAggregator& aggregator) {
  if (aggregator.calls_in_flight == 0) return Status();
  if (aggregator.serving != nullptr)
    return Status(Code::kInvalidUsage,
                  "this aggregator serves workers: its state is in the folder of its rounds");
  return Status(
      Code::kInvalidUsage,
      "a call with this aggregator is in flight: wait for it, or destroy its communicator, first");
}

template <class Use>
sparclResult_t with_idle_aggregator(const char* function, sparclAggregator_t aggregator,
                                    Use&& use) {
  return guarded_with(function, aggregator, "aggregator", [&](sparclAggregator& own) -> Status {
    SPARCL_RETURN_IF_ERROR(check_idle_aggregator(own));
    return Status(use(own.aggregator));
  });
}

template <class Make>
sparclResult_t create_aggregator(const char* function, sparclAggregator_t* aggregator,
                                 Make&& make) {
  return guarded([&]() -> Status {
    const std::string prefix = std::string(function) + ": ";
    if (aggregator == nullptr) return Status(Code::kInvalidArgument, prefix + "aggregator is NULL");
    Result<Aggregator> made = make();
    if (!made.ok()) return made.status().with_prefix(prefix);
    *aggregator = std::make_unique<sparclAggregator>(std::move(*made)).release()->handle.get();
    return Status();
  });
}

double or_default(double value, double by_default) { return value == 0 ? by_default : value; }

Result<AggregatorOptions> read_aggregator_options(const sparclAggregatorOptions_t* given) {
  using namespace sparcl::api;
  using namespace sparcl::aggregate;
  sparclAggregatorOptions_t options = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(read_sized(given, "options", options));
  SPARCL_RETURN_IF_ERROR(
      check_enum("options.mean", number_of(options.mean), sparclMeanNone, "sparclMean_t"));
  SPARCL_RETURN_IF_ERROR(
      check_enum("options.outer", number_of(options.outer), sparclOuterAdam, "sparclOuter_t"));
  SPARCL_RETURN_IF_ERROR(check_enum("options.non_finite", number_of(options.non_finite),
                                    sparclNonFiniteZero, "sparclNonFinite_t"));
  SPARCL_RETURN_IF_ERROR(check_wire("options.wire", options.wire));
  if (options.delay > UINT32_MAX)
    return Status(Code::kInvalidArgument,
                  fmt::format("options.delay is {}: give fewer than 2^32 rounds", options.delay));
  constexpr MeanKind kMeans[] = {MeanKind::kByWeight, MeanKind::kOverWorkers,
                                 MeanKind::kOverContributors, MeanKind::kSum};
  constexpr NonFinite kPolicies[] = {NonFinite::kFail, NonFinite::kRefuse, NonFinite::kZero};
  AggregatorOptions read;
  read.mean = kMeans[options.mean];
  read.outer = {static_cast<OuterKind>(options.outer),
                or_default(options.learning_rate, 1),
                options.momentum,
                or_default(options.beta2, 0.999),
                or_default(options.epsilon, 1e-8),
                static_cast<std::uint32_t>(options.delay == 0 ? 1 : options.delay),
                options.activation};
  read.screen = {kPolicies[options.non_finite], {options.clip_l2, options.clip_median}};
  read.keep = options.keep;
  read.wire = static_cast<sparcl::sparse::Wire>(options.wire);
  return read;
}

sparclAggregatorStats_t rounds_of(Aggregator& aggregator) {
  sparclAggregatorStats_t all = SPARCL_AGGREGATOR_STATS_INITIALIZER;
  const sparcl::aggregate::AggregatorStats& stats = aggregator.stats();
  all.rounds = stats.rounds;
  all.listed = stats.listed;
  all.refused = stats.refused;
  all.total_weight = stats.total_weight;
  all.residual_l2 =
      aggregator.shard() != nullptr ? std::sqrt(aggregator.shard()->residual_squares()) : 0;
  all.own_refused = stats.own_was_refused ? 1 : 0;
  all.own_clipped = stats.own_was_clipped ? 1 : 0;
  return all;
}

}  // namespace

extern "C" {

sparclResult_t sparclAggregatorCreate(sparclAggregator_t* aggregator, size_t count,
                                      const sparclAggregatorOptions_t* options) {
  return create_aggregator(__func__, aggregator, [&]() -> Result<Aggregator> {
    SPARCL_ASSIGN_OR_RETURN(const AggregatorOptions read, read_aggregator_options(options));
    return Aggregator::create(count, read);
  });
}

sparclResult_t sparclAggregatorSave(sparclAggregator_t aggregator, const char* path) {
  return with_idle_aggregator(__func__, aggregator, [&](Aggregator& idle) -> Status {
    if (path == nullptr) return Status(Code::kInvalidArgument, "path is NULL");
    return sparcl::aggregate::save_aggregator(idle, path);
  });
}

sparclResult_t sparclAggregatorLoad(sparclAggregator_t* aggregator, const char* path) {
  return create_aggregator(__func__, aggregator, [&]() -> Result<Aggregator> {
    if (path == nullptr) return Status(Code::kInvalidArgument, "path is NULL");
    return sparcl::aggregate::load_aggregator(path, sparcl::kernels::cpu_kernels());
  });
}

sparclResult_t sparclAggregatorStats(sparclAggregator_t aggregator,
                                     sparclAggregatorStats_t* stats) {
  return guarded_with(__func__, aggregator, "aggregator", [&](sparclAggregator& own) -> Status {
    if (own.serving == nullptr) SPARCL_RETURN_IF_ERROR(check_idle_aggregator(own));
    return sparcl::api::write_sized(rounds_of(own.aggregator), "stats", stats);
  });
}

sparclResult_t sparclAggregatorDestroy(sparclAggregator_t aggregator) {
  return guarded([&]() -> Status {
    if (aggregator == nullptr) return {};
    sparcl::api::Held<sparclAggregator> held(aggregator, "aggregator");
    Status status = held.status();
    if (status.ok() && held->serving != nullptr) {
      if (!held->serving->service->is_own_process()) return {};  // the parent's
    } else if (status.ok()) {
      status = check_idle_aggregator(*held);
    }
    if (status.ok()) status = held.destroy("aggregator");
    return sparcl::api::in_call(__func__, std::move(status));
  });
}

}  // extern "C"
