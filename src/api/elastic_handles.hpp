#pragma once
// The objects behind a serving aggregator and a worker.

#include <memory>
#include <string>
#include <vector>

#include "sparcl/sparcl.h"
#include "src/api/aggregator_handle.hpp"
#include "src/api/replication_handles.hpp"
#include "src/elastic/elastic_service.hpp"
#include "src/elastic/worker.hpp"

namespace sparcl::api {

struct Serving {
  std::unique_ptr<AttachedState> attached;
  std::unique_ptr<elastic::ElasticService> service;  // it ends first
};

}  // namespace sparcl::api

struct sparclWorker {
  sparcl::api::OwnHandle<sparclWorker> handle{this};
  std::unique_ptr<sparcl::api::AttachedState> attached;
  // The version that the tensors started from: a copy, which the subscriber writes.
  std::vector<std::vector<std::byte>> base;
  std::vector<std::byte*> base_arrays;
  sparcl::replication::ReplicatedState base_view;
  sparcl::replication::SubscriberOptions subscriber_options;
  std::string results;  // address of the subscriber's publisher
  std::unique_ptr<sparcl::replication::Subscriber> subscriber;
  std::unique_ptr<sparcl::elastic::Worker> worker;
  std::unique_ptr<sparcl::elastic::Contributor> contributor;
  std::uint64_t version = 0;  // of the base that the tensors started from
  sparcl::elastic::Worker::Contribution last{};
};
