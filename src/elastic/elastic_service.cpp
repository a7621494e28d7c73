#include "src/elastic/elastic_service.hpp"

#include <array>
#include <utility>

#include "src/base/files/unnamed_file.hpp"
#include "src/base/settings.hpp"

namespace sparcl::elastic {
namespace {

// Where contributions wait that are too many for the memory. "": in memory.
Result<std::string> spill_folder() {
  std::string folder = setting("SPILL_FOLDER").text;
  if (folder == "none" || folder.empty()) return std::string();
  SPARCL_RETURN_IF_ERROR(to_unnamed_file(folder, std::array<std::byte, 1>{})
                             .status()
                             .with_prefix("SPARCL_SPILL_FOLDER: "));
  return folder;
}

}  // namespace

Result<std::unique_ptr<ElasticService>> ElasticService::create(
    const replication::ReplicatedState& state, aggregate::Aggregator& aggregator,
    ServicePlan plan) {
  SPARCL_ASSIGN_OR_RETURN(FlatWeights weights,
                          FlatWeights::of(state.map->arrays(), state.arrays, *state.kernels));
  DeskOptions& desk = plan.root.desk;
  desk.schema_hash = state.schema_hash;
  desk.model_id = plan.publish.model_id;
  desk.silence_s = plan.publish.silence_s;
  SPARCL_ASSIGN_OR_RETURN(
      desk.security,
      replication::load_server_security(plan.publish.secret_path, plan.publish.certificates_path));
  SPARCL_ASSIGN_OR_RETURN(plan.root.spill_folder, spill_folder());
  if (!plan.parent.empty()) return create_branch(state, weights, std::move(plan));
  SPARCL_ASSIGN_OR_RETURN(desk.contributors, TrustedContributors::load(plan.contributors_path));
  // A process that has been replaced publishes nothing.
  if (!plan.root.folder.empty()) plan.publish.witness_path = plan.root.folder + "/publisher";
  plan.root.model_id = plan.publish.model_id;
  // The ports are taken before the folder: a process that cannot serve takes over from nobody.
  SPARCL_ASSIGN_OR_RETURN(replication::Listener listener,
                          replication::Listener::open(plan.listen, plan.publish.reach()));
  SPARCL_ASSIGN_OR_RETURN(replication::Listener results,
                          replication::Listener::open(plan.publish.listen, plan.publish.reach()));
  std::unique_ptr<ElasticService> made(new ElasticService);
  SPARCL_ASSIGN_OR_RETURN(made->root_, AggregationRoot::create(*state.kernels, std::move(weights),
                                                               aggregator, plan.root));
  SPARCL_ASSIGN_OR_RETURN(made->publisher_,
                          replication::Publisher::create(state, plan.publish, std::move(results)));
  SPARCL_RETURN_IF_ERROR(made->publisher_->start_serving());
  replication::Publisher* const publisher = made->publisher_.get();
  SPARCL_RETURN_IF_ERROR(made->root_->start(
      std::move(listener), publisher->address(),
      [publisher](std::uint64_t version) { return publisher->publish(version).status(); }));
  return made;
}

// Its parent's results are for its workers, too.
Result<std::unique_ptr<ElasticService>> ElasticService::create_branch(
    const replication::ReplicatedState& state, const FlatWeights& weights, ServicePlan plan) {
  DeskOptions& desk = plan.root.desk;
  desk.run = weights.run();
  desk.count = weights.count();
  UplinkOptions above;
  above.addresses = plan.parent;
  SPARCL_ASSIGN_OR_RETURN(above.security, replication::load_client_security(
                                              plan.publish.secret_path, trust::Role::kPublish,
                                              plan.publish.certificates_path));
  SPARCL_ASSIGN_OR_RETURN(replication::Listener listener,
                          replication::Listener::open(plan.listen, plan.publish.reach()));
  std::unique_ptr<ElasticService> made(new ElasticService);
  SPARCL_ASSIGN_OR_RETURN(
      made->branch_, AggregationBranch::create(*state.kernels, std::move(desk), std::move(above),
                                               plan.root.spill_folder, std::move(listener)));
  return made;
}

}  // namespace sparcl::elastic
