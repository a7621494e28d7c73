#pragma once
// The aggregator behind the handle.

#include <atomic>
#include <memory>
#include <utility>

#include "sparcl/sparcl.h"
#include "src/aggregate/outer/aggregator.hpp"
#include "src/api/handles.hpp"

namespace sparcl::api {
struct Serving;  // elastic_handles.hpp
}

struct sparclAggregator {
  explicit sparclAggregator(sparcl::aggregate::Aggregator made) : aggregator(std::move(made)) {}
  sparcl::api::OwnHandle<sparclAggregator> handle{this};
  sparcl::aggregate::Aggregator aggregator;
  std::atomic<int> calls_in_flight{0};  // at most one: each round follows on the one before
  std::shared_ptr<sparcl::api::Serving> serving;  // sparclAggregatorServe; nullptr: not
};
