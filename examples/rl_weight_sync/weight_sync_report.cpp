#include "weight_sync_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace training {
namespace {

constexpr std::size_t kEdge = 10;  // steps at either end whose rewards are averaged
constexpr int kRows = 12;

double mean_reward(const std::vector<SyncStep>& steps, std::size_t from, std::size_t to) {
  double sum = 0;
  for (std::size_t i = from; i < to; ++i) sum += steps[i].reward;
  return to > from ? sum / static_cast<double>(to - from) : 0;
}

double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

SyncSummary summarise(const std::vector<SyncStep>& steps, std::size_t elements) {
  SyncSummary summary;
  summary.elements = elements;
  const std::size_t edge = std::min(kEdge, (steps.size() + 1) / 2);
  summary.reward_first = mean_reward(steps, 0, edge);
  summary.reward_last = mean_reward(steps, steps.size() - edge, steps.size());
  std::size_t rollouts = 0;
  std::vector<double> publishes_s;
  const auto count = static_cast<double>(steps.size());
  for (const SyncStep& step : steps) {
    summary.changed_share +=
        share_of(static_cast<double>(step.changed), static_cast<double>(elements)) / count;
    summary.update_bytes += static_cast<double>(step.bytes);
    summary.dense_bytes += static_cast<double>(step.bytes_dense);
    publishes_s.push_back(step.publish_s);
    rollouts += step.lags.size();
    for (const std::uint64_t lag : step.lags) {
      summary.lag_mean += static_cast<double>(lag);
      summary.lag_max = std::max(summary.lag_max, lag);
    }
  }
  summary.publish_median_s = quantile(publishes_s, 0.5);
  summary.update_bytes = share_of(summary.update_bytes, count);
  summary.dense_bytes = share_of(summary.dense_bytes, count);
  summary.lag_mean = share_of(summary.lag_mean, static_cast<double>(rollouts));
  return summary;
}

WeightSyncReport::WeightSyncReport(const std::string& headline, int steps) : all_steps_(steps) {
  fmt::print("{}\n\n  step  workers  rollouts  reward  changed  update kB  dense kB  mean lag\n",
             headline);
  std::fflush(stdout);
}

void WeightSyncReport::say(const std::string& line) {
  progress_.clear();
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void WeightSyncReport::add(const SyncStep& step) {
  steps_.push_back(step);
  if (step.step == 1 || step.step == all_steps_ ||
      step.step % std::max(1, all_steps_ / kRows) == 0) {
    const SyncSummary one = summarise({step}, static_cast<std::size_t>(step.bytes_dense / 2));
    say(fmt::format("{:>6}  {:>7}  {:>8}  {:>6.3f}  {:>6.1f}%  {:>9.1f}  {:>8.1f}  {:>8.1f}",
                    step.step, step.workers, step.lags.size(), step.reward, 100 * one.changed_share,
                    one.update_bytes / 1000, one.dense_bytes / 1000, one.lag_mean));
  }
  if (step.step < all_steps_) {
    progress_.show(fmt::format("step {} of {}, reward {:.3f}, {} workers ...", step.step,
                               all_steps_, step.reward, step.workers));
  }
}

void WeightSyncReport::finish(const SyncSummary& all) const {
  progress_.clear();
  const auto row = [](const char* name, const std::string& value) {
    fmt::print("{:<34} {}\n", name, value);
  };
  fmt::print("\n");
  row("steps, versions, seconds",
      fmt::format("{}, {}, {:.1f}", steps_.size(), all.versions, all.seconds));
  row("reward, first and last steps",
      fmt::format("{:.3f} -> {:.3f}", all.reward_first, all.reward_last));
  row("weights changed a step",
      fmt::format("{:.2f} % of {}", 100 * all.changed_share, all.elements));
  row("update, dense",
      fmt::format("{:.1f} kB, {:.1f} kB: a factor of {:.1f}", all.update_bytes / 1000,
                  all.dense_bytes / 1000, share_of(all.dense_bytes, all.update_bytes)));
  row("publish()", fmt::format("median {:.2f} ms", 1000 * all.publish_median_s));
  row("pause of a worker",
      fmt::format("median {:.3f} ms, p99 {:.3f} ms of {} swaps", 1000 * all.pause_median_s,
                  1000 * all.pause_p99_s, all.pauses));
  row("lag of rollouts in versions", fmt::format("mean {:.2f}, max {}", all.lag_mean, all.lag_max));
  std::string joins;
  for (const double seconds : all.joins_s)
    joins += fmt::format("{}{:.2f}", joins.empty() ? "" : ", ", seconds);
  row("from start to first version", joins + " s");
  row("hold the last version",
      fmt::format("{} of {} workers, by its hash", all.holding, all.workers));
}

void WeightSyncReport::write_json(const std::filesystem::path& path, const SyncSummary& all) const {
  nlohmann::ordered_json json = {{"steps", steps_.size()},
                                 {"versions", all.versions},
                                 {"seconds", all.seconds},
                                 {"elements", all.elements},
                                 {"reward_first", all.reward_first},
                                 {"reward_last", all.reward_last},
                                 {"changed_share", all.changed_share},
                                 {"update_bytes", all.update_bytes},
                                 {"dense_bytes", all.dense_bytes},
                                 {"publish_median_seconds", all.publish_median_s},
                                 {"pauses", all.pauses},
                                 {"pause_median_seconds", all.pause_median_s},
                                 {"pause_p99_seconds", all.pause_p99_s},
                                 {"lag_mean", all.lag_mean},
                                 {"lag_max", all.lag_max},
                                 {"join_seconds", all.joins_s},
                                 {"workers", all.workers},
                                 {"holding", all.holding}};
  json["each_step"] = nlohmann::ordered_json::array();
  for (const SyncStep& step : steps_) {
    json["each_step"].push_back({{"step", step.step},
                                 {"workers", step.workers},
                                 {"reward", step.reward},
                                 {"lags", step.lags},
                                 {"changed", step.changed},
                                 {"bytes", step.bytes},
                                 {"bytes_dense", step.bytes_dense},
                                 {"publish_seconds", step.publish_s}});
  }
  std::ofstream file(path);
  file << json.dump(1) << '\n';
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace training
