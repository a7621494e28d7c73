#pragma once
// The report of rank 0: rows during training, the comparison of all variants at the end, and the
// same as JSON.

#include <cstdint>
#include <filesystem>
#include <language_model/progress_line.hpp>
#include <optional>
#include <string>
#include <vector>

namespace training {

// Bytes and times of the busiest rank.
struct StepRecord {
  int step = 0;  // counted from 1
  double loss = 0;
  std::optional<double> held_out_loss;  // after the step
  std::uint64_t elements = 0;           // in the mean
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  double exchange_seconds = 0, step_seconds = 0;
};

struct VariantRecord {
  std::string name, algorithm;
  double density = 1;
  bool has_feedback = false;
  bool is_measured = true;  // false if the bytes are unknown, as with MPI
  bool is_equal = false;    // all ranks hold the same weights at the end
  std::vector<StepRecord> steps;

  double held_out_loss() const;
  double training_loss() const;  // mean over the last tenth of the steps
  double bytes_sent() const;     // mean over the steps, like the next ones
  double bytes_received() const;
  double elements() const;
  double exchange_seconds() const;  // medians over the steps
  double step_seconds() const;
};

class ComparisonReport {
 public:
  ComparisonReport(std::string headline, int ranks, std::uint64_t elements);

  void show_step(const std::string& variant, const StepRecord& record, int all_steps,
                 bool is_row) const;
  void add(VariantRecord variant);
  void finish() const;

  bool is_equal() const;
  void write_json(const std::filesystem::path& path) const;

 private:
  // The variant for comparison: sparcl's dense exchange, else the first variant.
  const VariantRecord& baseline() const;

  std::string headline_;
  int ranks_;
  std::uint64_t elements_;
  ProgressLine progress_;
  std::vector<VariantRecord> variants_;
};

}  // namespace training
