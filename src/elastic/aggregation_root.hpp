#pragma once
// The root of an elastic aggregation: rounds of whichever workers are there. It sums what they
// contribute, steps the outer optimiser, adds the result to the model, and has it published.
//
// Round r starts from version r of the model, and its result is version r + 1. A round that failed
// has a version, too, with the same weights.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/aggregate/outer/aggregator.hpp"
#include "src/elastic/contribution_sum.hpp"
#include "src/elastic/flat_weights.hpp"
#include "src/elastic/root_desk.hpp"
#include "src/elastic/round_log.hpp"
#include "src/elastic/round_report.hpp"

namespace sparcl::elastic {

struct RootOptions {
  DeskOptions desk;
  std::string folder;        // of the round log; "": the state ends with the process
  std::string model_id;      // of the folder's rounds
  std::string spill_folder;  // of parts that wait; "": in memory
};

class AggregationRoot {
 public:
  // The weights become `version`, and go to whoever follows the model. An error ends the root.
  using Publish = std::function<Status(std::uint64_t version)>;

  // weights, aggregator: outlive the root. With a folder that has rounds, the weights and the
  // aggregator's state are read from there; the aggregator's options must be those of the folder.
  static Result<std::unique_ptr<AggregationRoot>> create(const kernels::KernelSet& kernels,
                                                         FlatWeights weights,
                                                         aggregate::Aggregator& aggregator,
                                                         const RootOptions& options);
  // Publishes the version that is held. Then workers may come.
  Status start(replication::Listener listener, const std::string& results, Publish publish);

  // One round. Timeout: it has not ended within `seconds`; call again. Another error: this process
  // cannot go on.
  Result<RoundReport> next(double seconds);

  std::uint64_t version() const { return round_; }
  const RootDesk& desk() const { return *desk_; }
  // The state on the disk, so that the next start is short.
  Status keep();

 private:
  AggregationRoot(const kernels::KernelSet& kernels, FlatWeights weights,
                  aggregate::Aggregator& aggregator, const RootOptions& options);
  Status recover();
  Status read_kept(const RoundLog::Kept& kept);
  Status replay(const LoggedRound& round);
  void take(std::vector<Arrival> arrivals, bool have_waited = false);
  Result<RoundReport> try_next(double seconds);
  Status end_round(aggregate::Closing closing);
  Result<aggregate::Aggregator> load_kept(const RoundLog::Kept& kept) const;
  Result<RoundReport> publish_round();
  Status check_enough(const aggregate::Closing& closing) const;
  Status sum_up(aggregate::Closing& closing, RoundReport& report, LoggedRound& logged);
  Result<std::vector<Collect::Clip>> screen_all(const aggregate::Closing& closing);
  Status check_finite(const aggregate::Closing& closing) const;
  Status propose(const LoggedRound& round);
  void note_past(const LoggedRound& round);
  std::vector<float> all_weights() const;
  void begin_sum();

  const kernels::KernelSet& kernels_;
  FlatWeights weights_;
  aggregate::Aggregator& aggregator_;
  RootOptions options_;
  Publish publish_;
  std::optional<RoundLog> log_;
  std::deque<LoggedRound> past_;  // what the last rounds listed
  std::uint64_t round_ = 1;       // that is open

  BufferPool buffers_;
  aggregate::WaitingParts waiting_;
  std::optional<ContributionSum> sum_;
  std::vector<Arrival> held_;                       // not summed yet
  std::vector<Arrival> early_;                      // of the next round
  Status failure_;                                  // of the open round
  std::set<aggregate::ContributionId> not_finite_;  // of the open round, with such values
  std::uint64_t received_bytes_ = 0;
  std::optional<RoundReport> ended_;  // a round whose result is not published yet
  Status broken_;  // this process cannot go on: the folder has all that was committed

  std::unique_ptr<RootDesk> desk_;  // last: its thread ends first
};

}  // namespace sparcl::elastic
