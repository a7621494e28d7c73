#pragma once
// An aggregator with a parent: it sums what its workers contribute, and sends sums up. It keeps no
// model and no log: contributions stay with their workers until a root has committed them.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/elastic/branch_desk.hpp"
#include "src/elastic/contribution_sum.hpp"
#include "src/elastic/round_report.hpp"

namespace sparcl::elastic {

class AggregationBranch {
 public:
  static Result<std::unique_ptr<AggregationBranch>> create(const kernels::KernelSet& kernels,
                                                           DeskOptions options, UplinkOptions above,
                                                           const std::string& spill_folder,
                                                           replication::Listener listener);

  // One round, of which the parent has wanted the sums. Timeout: none has ended within `seconds`;
  // call again. Another error: this process cannot go on.
  Result<RoundReport> next(double seconds);

  BranchDesk& desk() { return *desk_; }
  const BranchDesk& desk() const { return *desk_; }
  std::uint64_t version() const { return version_; }  // of the last round's result

 private:
  struct Open {
    Open(BufferSource& buffers, const kernels::KernelSet& kernels, const sparse::BlockRun& run,
         bool has_weights, aggregate::WaitingParts& waiting)
        : sum(buffers, kernels, run, has_weights, waiting) {}
    ContributionSum sum;
    std::vector<Arrival> held;  // not summed yet
    RoundReport report;
  };

  AggregationBranch(const kernels::KernelSet& kernels, const DeskOptions& options,
                    const std::string& spill_folder)
      : kernels_(kernels), run_(options.run), waiting_(spill_folder) {}
  Result<RoundReport> try_next(double seconds);
  void end(const Status& why);
  Status take(BranchDesk::Turn& turn);
  Open& open(std::uint64_t round, bool has_weights);
  Result<RoundReport> end_round(const BranchDesk::Turn& turn);

  const kernels::KernelSet& kernels_;
  sparse::BlockRun run_;
  BufferPool buffers_;
  aggregate::WaitingParts waiting_;
  std::uint64_t life_ = 0;                // of the connection that rounds_ are of
  std::map<std::uint64_t, Open> rounds_;  // that the parent has not asked for
  std::uint64_t version_ = 0;
  Status broken_;  // this process cannot go on

  std::unique_ptr<BranchDesk> desk_;  // last: its threads end first
};

}  // namespace sparcl::elastic
