#pragma once
// All variants one after the other, from the same weights and on the same batches, as every rank
// runs them.

#include <filesystem>
#include <language_model/model_size.hpp>
#include <optional>
#include <vector>

#include "comparison_report.hpp"
#include "data_parallel.hpp"

namespace training {

struct ComparisonOptions {
  int ranks = 4;  // threads; under mpirun its -n decides
  ModelSize size{32, 2};
  TrainingSettings training;  // but for the shape, which follows from size and text
  std::vector<Variant> variants;
  sparclTopKMode_t mode = sparclTopKUnion;
  int density_warmup = 0;
  std::vector<std::filesystem::path> text;
  std::filesystem::path json;
};

class Comparison {
 public:
  Comparison(sparcl::Comm& comm, const ComparisonOptions& options);

  // Collective. Throws if the ranks end up with different weights.
  void run();

 private:
  // Nothing where the variant cannot be had here.
  std::optional<VariantRecord> train(const Variant& variant);
  void take_busiest(std::vector<StepRecord>& steps);

  sparcl::Comm& comm_;
  ComparisonOptions options_;
  CharText text_;
  std::size_t count_;
  std::optional<ComparisonReport> report_;  // rank 0
};

}  // namespace training
