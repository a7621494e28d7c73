#pragma once
// The report of rank 0: a table during the run, the totals, the proof that all replicas are equal,
// and the same as JSON.

#include <cstdint>
#include <filesystem>
#include <language_model/progress_line.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sparcl/sparcl.hpp"

namespace training {

enum class Phase { kStart, kPretrain, kFinetune };
std::string_view name_of(Phase phase);

struct StepRecord {
  int step;
  Phase phase;
  double loss;           // the trainer's; 0 at the start
  double reward;         // of the policy; 0 in pre-training
  double held_out_loss;  // mean over the replicas
  std::uint64_t changed, elements;
  std::uint64_t bytes, bytes_dense;  // bytes that each replica receives
  double seconds;                    // of the broadcast
};

struct PhaseTotals {
  int steps = 0;
  std::uint64_t changed = 0, elements = 0, bytes = 0, bytes_dense = 0;
  double seconds = 0;

  double changed_share() const {
    return elements == 0 ? 0 : static_cast<double>(changed) / static_cast<double>(elements);
  }
  double bits_per_change() const {
    return changed == 0 ? 0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(changed);
  }
  double factor() const {
    return bytes == 0 ? 0 : static_cast<double>(bytes_dense) / static_cast<double>(bytes);
  }
};

struct RankSummary {
  sparcl::Hash hash;
  double held_out_loss;
  std::uint64_t bytes_received;
};

class TrainingReport {
 public:
  TrainingReport(std::string headline, int all_steps);

  void add(const StepRecord& record, bool is_row);

  // summaries: of all ranks. sample: text that `sample_rank` wrote.
  void finish(const std::vector<RankSummary>& summaries, int sample_rank,
              const std::string& sample);

  PhaseTotals totals(Phase phase) const;
  void write_json(const std::filesystem::path& path) const;

 private:
  void print_totals() const;

  std::string headline_;
  int all_steps_;
  ProgressLine progress_;
  std::vector<StepRecord> records_;
  std::vector<RankSummary> summaries_;
  std::string sample_;
};

std::string hex(const sparcl::Hash& hash);
bool all_equal(const std::vector<RankSummary>& summaries);

}  // namespace training
