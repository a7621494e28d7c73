#include "weight_sync_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <language_model/bf16_rounding.hpp>
#include <stdexcept>
#include <utility>

#include "bf16_weights.hpp"
#include "reinforce_trainer.hpp"
#include "weight_sync_report.hpp"
#include "worker_fleet.hpp"
#include "worker_plan.hpp"

namespace training {
namespace {

constexpr std::size_t kMinRollouts = 2;  // as many as one worker alone gives for a version
constexpr double kPatience_s = 30;

class WeightSyncJob {
 public:
  explicit WeightSyncJob(const SyncOptions& options)
      : options_(options),
        text_(read_text(options.text)),
        shape_(shape_of(parse_model_size(options.size_name), text_.vocabulary())),
        trainer_(text_, shape_, options.letters, options.seed),
        weights_(ParameterLayout(shape_)),
        compute_(weights_.values().size()),
        publisher_(weights_.state(), {.listen = "127.0.0.1:0"}),
        fleet_(options, publisher_.address()),
        report_(fmt::format("rl_weight_sync: {} workers, {} parameters in bf16, reward: the share "
                            "of \"{}\" in {} sampled characters",
                            options.workers, compute_.size(), options.letters, kNewCharacters),
                options.steps) {}

  void run() {
    report_.say(fmt::format("        pre-training ended with loss {:.3f}",
                            trainer_.pretrain(options_.pretrain_steps)));
    const std::int64_t begin = now_ns();
    publish();
    for (int step = 1; step <= options_.steps; ++step) {
      change_workers(step);
      train(step);
    }
    finish(1e-9 * static_cast<double>(now_ns() - begin));
  }

 private:
  // All of sparcl that the trainer needs.
  sparcl::Report publish() {
    round_to_bf16(trainer_.master(), weights_.values());
    publisher_.publish(++version_);
    expand_to_float(weights_.values(), compute_);
    return publisher_.last_report();
  }

  void change_workers(int step) {
    for (const PlannedChange& change : plan_workers(options_.workers, options_.steps)) {
      if (change.step != step) continue;
      const bool joins = change.change == WorkerChange::kJoin;
      if (joins) fleet_.start(change.worker);
      if (!joins) fleet_.kill(change.worker);
      if (step > 1)
        report_.say(
            fmt::format("        worker {} {}", change.worker, joins ? "joins" : "is killed"));
    }
  }

  void train(int step) {
    std::vector<std::vector<Token>> texts;
    SyncStep done{step, fleet_.running(), 0, {}, 0, 0, 0, 0};
    std::vector<Rollout> rollouts = fleet_.collect(kMinRollouts, kPatience_s);
    if (rollouts.empty())
      throw std::runtime_error(fmt::format("no rollout has come within {:g} s", kPatience_s));
    for (Rollout& rollout : rollouts) {
      const auto expected = static_cast<std::size_t>(shape_.context) * kSequences;
      if (rollout.tokens.size() != expected || rollout.version > version_)
        throw std::runtime_error("a rollout is none of this model");
      done.lags.push_back(version_ - rollout.version);
      texts.push_back(std::move(rollout.tokens));
    }
    done.reward = trainer_.policy_step(compute_, texts, options_.rate);
    const sparcl::Report published = publish();
    done.changed = published.nnz_in;
    done.bytes = published.bytes_sent;
    done.bytes_dense = published.bytes_dense;
    done.publish_s = published.seconds;
    report_.add(done);
  }

  void finish(double seconds) {
    const int workers = fleet_.running();
    if (!publisher_.wait(version_, workers, kPatience_s)) {
      throw std::runtime_error(fmt::format("{} of {} workers hold version {}",
                                           publisher_.replicas_holding(version_), workers,
                                           version_));
    }
    const std::vector<Goodbye> goodbyes = fleet_.stop(kPatience_s);
    const sparcl::Hash hash = weights_.hash();
    SyncSummary summary = summarise(report_.steps(), compute_.size());
    summary.workers = workers;
    summary.holding =
        static_cast<int>(std::count_if(goodbyes.begin(), goodbyes.end(), [&](const Goodbye& each) {
          return each.version == version_ && each.hash == hash;
        }));
    summary.versions = version_;
    summary.seconds = seconds;
    summary.pauses = fleet_.pauses_s().size();
    summary.pause_median_s = quantile(fleet_.pauses_s(), 0.5);
    summary.pause_p99_s = quantile(fleet_.pauses_s(), 0.99);
    summary.joins_s = fleet_.joins_s();
    report_.finish(summary);
    if (!options_.json.empty()) report_.write_json(options_.json, summary);
    if (summary.holding != workers)
      throw std::runtime_error("not all workers hold the trainer's weights");
  }

  SyncOptions options_;
  CharText text_;
  ModelShape shape_;
  ReinforceTrainer trainer_;
  Bf16Weights weights_;
  std::vector<float> compute_;  // weights_ as fp32
  sparcl::Publisher publisher_;
  WorkerFleet fleet_;
  WeightSyncReport report_;
  std::uint64_t version_ = 0;
};

}  // namespace

void run_weight_sync(const SyncOptions& options) { WeightSyncJob(options).run(); }

}  // namespace training
