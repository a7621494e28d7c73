#pragma once
// The job as every rank runs it: rank 0 trains, the others hold its weights and use them.

#include <cstdint>
#include <filesystem>
#include <language_model/model_size.hpp>
#include <optional>
#include <string>
#include <vector>

#include "replicated_weights.hpp"
#include "trainer.hpp"
#include "training_report.hpp"

namespace training {

struct JobOptions {
  int ranks = 4;  // threads; under mpirun its -n decides
  int steps = 300;
  int finetune_steps = 20;
  ModelSize size{128, 5};
  int batch = 12;
  float rate = 3e-3F;
  float finetune_rate = 1e-6F;
  std::uint64_t seed = 7;
  std::vector<std::filesystem::path> text;
  std::filesystem::path checkpoint_dir, gradients_dir, json;
  int gradients_ranks = 8;
};

class TrainingJob {
 public:
  TrainingJob(sparcl::Comm& comm, const JobOptions& options);

  // Collective. Throws if the replicas end up different.
  void run();

 private:
  struct Outcome {
    double loss = 0, reward = 0;
  };

  bool is_trainer() const { return trainer_.has_value(); }
  Outcome pretrain_step(int step);
  Outcome finetune_step();
  void publish(int step, Phase phase, const Outcome& outcome);
  void report_step(int step, Phase phase, const Outcome& outcome, const sparcl::Report& broadcast,
                   double held_out_loss);
  void finish();
  std::string write_sample();
  double mean_replica_loss(const std::vector<double>& losses) const;
  void write_weights(int finetune_step);
  void write_gradients(int step);

  sparcl::Comm& comm_;
  JobOptions options_;
  CharText text_;
  ModelShape shape_;
  ParameterLayout layout_;
  ReplicatedWeights weights_;
  std::vector<float> compute_;  // weights_ as fp32, what every rank computes with
  Transformer evaluator_, sampler_;
  Batch held_out_;  // this rank's own
  SeededRandom random_;
  std::uint64_t version_ = 0, bytes_received_ = 0;
  double held_out_loss_ = 0;
  std::optional<Trainer> trainer_;        // rank 0
  std::optional<TrainingReport> report_;  // rank 0
};

}  // namespace training
