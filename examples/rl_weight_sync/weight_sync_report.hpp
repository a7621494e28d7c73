#pragma once
// The report of a run: lines during the run, a table at the end, JSON.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <language_model/progress_line.hpp>
#include <string>
#include <vector>

namespace training {

struct SyncStep {
  int step;
  int workers;
  double reward;
  std::vector<std::uint64_t> lags;  // in versions, one a rollout
  std::uint64_t changed;            // elements of the step's update
  std::uint64_t bytes, bytes_dense;
  double publish_s;
};

struct SyncSummary {
  std::size_t elements = 0;
  int workers = 0;  // at the end
  int holding = 0;  // of these, the workers with the last version's hash
  std::uint64_t versions = 0;
  double seconds = 0;
  double reward_first = 0, reward_last = 0;
  double changed_share = 0;
  double update_bytes = 0, dense_bytes = 0;  // mean a step
  double publish_median_s = 0;
  double pause_median_s = 0, pause_p99_s = 0;
  std::size_t pauses = 0;
  double lag_mean = 0;
  std::uint64_t lag_max = 0;
  std::vector<double> joins_s;
};

// The smallest value that is not below the share `share` of the values; 0 if there are none.
double quantile(std::vector<double> values, double share);

// Means of first and last: of up to ten steps each, since rewards are noisy.
SyncSummary summarise(const std::vector<SyncStep>& steps, std::size_t elements);

class WeightSyncReport {
 public:
  WeightSyncReport(const std::string& headline, int steps);
  void say(const std::string& line);
  void add(const SyncStep& step);
  const std::vector<SyncStep>& steps() const { return steps_; }
  void finish(const SyncSummary& summary) const;
  void write_json(const std::filesystem::path& path, const SyncSummary& summary) const;

 private:
  int all_steps_;
  std::vector<SyncStep> steps_;
  ProgressLine progress_;
};

}  // namespace training
