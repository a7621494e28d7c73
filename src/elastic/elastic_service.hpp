#pragma once
// An aggregator that serves workers: the root of the rounds, and the publisher that its versions go
// to; or one with a parent.

#include <memory>
#include <string>

#include "src/elastic/aggregation_branch.hpp"
#include "src/elastic/aggregation_root.hpp"
#include "src/replication/publisher.hpp"
#include "src/replication/replicated_state.hpp"

namespace sparcl::elastic {

struct ServicePlan {
  std::string listen;                     // for workers, as PublisherOptions::listen
  replication::PublisherOptions publish;  // of results; its secret and certificates are for workers
  RootOptions root;                       // without what follows from the state
  std::string contributors_path;          // of the root's TrustedContributors
  std::string parent;  // "HOST:PORT" of the parent, or several with commas; "": none
};

class ElasticService {
 public:
  // state: in memory, the caller's; it is written. aggregator: see AggregationRoot.
  static Result<std::unique_ptr<ElasticService>> create(const replication::ReplicatedState& state,
                                                        aggregate::Aggregator& aggregator,
                                                        ServicePlan plan);

  Result<RoundReport> next(double seconds) {
    return branch_ ? branch_->next(seconds) : root_->next(seconds);
  }
  bool has_parent() const { return branch_ != nullptr; }
  std::uint64_t version() const { return branch_ ? branch_->version() : root_->version(); }
  const std::string& address() const { return desk().address(); }  // for workers
  // For replicas; with a parent "".
  std::string results() const { return publisher_ ? publisher_->address() : std::string(); }
  std::string status() const { return desk().status(); }  // JSON
  Status keep() { return branch_ ? Status() : root_->keep(); }
  bool is_own_process() const { return desk().is_own_process(); }

 private:
  ElasticService() = default;
  static Result<std::unique_ptr<ElasticService>> create_branch(
      const replication::ReplicatedState& state, const FlatWeights& weights, ServicePlan plan);
  const ContributionDesk& desk() const {
    return branch_ ? static_cast<const ContributionDesk&>(branch_->desk()) : root_->desk();
  }

  // The root is destroyed first: it has versions published.
  std::unique_ptr<replication::Publisher> publisher_;
  std::unique_ptr<AggregationRoot> root_;
  std::unique_ptr<AggregationBranch> branch_;  // instead of both, with a parent
};

}  // namespace sparcl::elastic
