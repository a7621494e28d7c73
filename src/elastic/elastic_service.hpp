#pragma once
// An aggregator that serves workers, and publishes results: the root of the rounds, and the
// publisher that its versions go to.

#include <memory>
#include <string>

#include "src/elastic/aggregation_root.hpp"
#include "src/replication/publisher.hpp"
#include "src/replication/replicated_state.hpp"

namespace sparcl::elastic {

struct ServicePlan {
  std::string listen;                     // for workers, as PublisherOptions::listen
  replication::PublisherOptions publish;  // of results; its secret and certificates are for workers
  RootOptions root;                       // without what follows from the state
};

class ElasticService {
 public:
  // state: in memory, the caller's; it is written. aggregator: see AggregationRoot.
  static Result<std::unique_ptr<ElasticService>> create(const replication::ReplicatedState& state,
                                                        aggregate::Aggregator& aggregator,
                                                        ServicePlan plan);

  Result<RoundReport> next(double seconds) { return root_->next(seconds); }
  std::uint64_t version() const { return root_->version(); }
  const std::string& address() const { return root_->desk().address(); }  // for workers
  const std::string& results() const { return publisher_->address(); }    // for replicas
  std::string status() const { return root_->desk().status(); }           // JSON
  Status keep() { return root_->keep(); }
  bool is_own_process() const { return publisher_->is_own_process(); }

 private:
  ElasticService() = default;

  // The root is destroyed first: it has versions published.
  std::unique_ptr<replication::Publisher> publisher_;
  std::unique_ptr<AggregationRoot> root_;
};

}  // namespace sparcl::elastic
