#include "training_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace training {
namespace {

constexpr const char* kHeadings =
    "  step  phase       loss  reward  held-out   changed    update kB   dense kB   factor   "
    "broadcast ms\n";

std::string kilobytes(std::uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / 1000);
}

PhaseTotals totals_of(const StepRecord& record) {
  return {1, record.changed, record.elements, record.bytes, record.bytes_dense, record.seconds};
}

std::string row_of(const StepRecord& record) {
  const PhaseTotals figures = totals_of(record);
  const std::string loss = record.phase == Phase::kStart ? "" : fmt::format("{:.3f}", record.loss);
  const std::string reward =
      record.phase == Phase::kFinetune ? fmt::format("{:.3f}", record.reward) : "";
  return fmt::format(
      "{:>6}  {:<9} {:>6}  {:>6}  {:>8.3f}  {:>7.3f}%   {:>10} {:>10}  {:>6.1f}x   {:>12.2f}\n",
      record.step, name_of(record.phase), loss, reward, record.held_out_loss,
      100 * figures.changed_share(), kilobytes(record.bytes), kilobytes(record.bytes_dense),
      figures.factor(), 1000 * record.seconds);
}

nlohmann::ordered_json json_of(const PhaseTotals& totals) {
  return {{"steps", totals.steps},
          {"changed_share", totals.changed_share()},
          {"changed", totals.changed},
          {"bytes", totals.bytes},
          {"bytes_dense", totals.bytes_dense},
          {"factor", totals.factor()},
          {"bits_per_change", totals.bits_per_change()},
          {"broadcast_seconds", totals.seconds}};
}

nlohmann::ordered_json json_of(const StepRecord& record) {
  nlohmann::ordered_json json = {{"step", record.step},
                                 {"phase", name_of(record.phase)},
                                 {"held_out_loss", record.held_out_loss}};
  if (record.phase != Phase::kStart) json["loss"] = record.loss;
  if (record.phase == Phase::kFinetune) json["reward"] = record.reward;
  json.update(json_of(totals_of(record)));
  json.erase("steps");
  return json;
}

}  // namespace

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kStart:
      return "start";
    case Phase::kPretrain:
      return "pretrain";
    case Phase::kFinetune:
      return "finetune";
  }
  return "";
}

std::string hex(const sparcl::Hash& hash) {
  std::string text;
  for (const std::uint8_t byte : hash) text += fmt::format("{:02x}", byte);
  return text;
}

bool all_equal(const std::vector<RankSummary>& summaries) {
  return std::all_of(summaries.begin(), summaries.end(),
                     [&](const RankSummary& rank) { return rank.hash == summaries.front().hash; });
}

TrainingReport::TrainingReport(std::string headline, int all_steps)
    : headline_(std::move(headline)), all_steps_(all_steps) {
  fmt::print("{}\n\n{}", headline_, kHeadings);
  std::fflush(stdout);
}

void TrainingReport::add(const StepRecord& record, bool is_row) {
  records_.push_back(record);
  progress_.clear();
  if (is_row) fmt::print("{}", row_of(record));
  if (record.step < all_steps_)
    progress_.show(
        fmt::format("step {} of {}, loss {:.3f} ...", record.step, all_steps_, record.loss));
  std::fflush(stdout);
}

PhaseTotals TrainingReport::totals(Phase phase) const {
  PhaseTotals totals;
  for (const StepRecord& record : records_) {
    if (record.phase != phase) continue;
    ++totals.steps;
    totals.changed += record.changed;
    totals.elements += record.elements;
    totals.bytes += record.bytes;
    totals.bytes_dense += record.bytes_dense;
    totals.seconds += record.seconds;
  }
  return totals;
}

void TrainingReport::print_totals() const {
  fmt::print(
      "\nper phase  steps   changed  bits a change    updates kB     dense kB   factor   broadcast "
      "ms\n");
  for (const Phase phase : {Phase::kPretrain, Phase::kFinetune}) {
    const PhaseTotals sum = totals(phase);
    if (sum.steps == 0) continue;
    fmt::print("{:<9} {:>6}  {:>7.3f}%  {:>13.2f}  {:>12} {:>12}  {:>6.1f}x   {:>6.2f} a step\n",
               name_of(phase), sum.steps, 100 * sum.changed_share(), sum.bits_per_change(),
               kilobytes(sum.bytes), kilobytes(sum.bytes_dense), sum.factor(),
               1000 * sum.seconds / sum.steps);
  }
}

void TrainingReport::finish(const std::vector<RankSummary>& summaries, int sample_rank,
                            const std::string& sample) {
  summaries_ = summaries;
  sample_ = sample;
  print_totals();
  fmt::print(
      "\nrank  held-out loss  received kB  hash of the weights it holds   (loss: each rank on "
      "sequences of its own)\n");
  for (std::size_t rank = 0; rank < summaries.size(); ++rank) {
    fmt::print("{:>4}  {:>13.4f}  {:>11}  {}{}\n", rank, summaries[rank].held_out_loss,
               kilobytes(summaries[rank].bytes_received), hex(summaries[rank].hash),
               rank == 0 ? "  (trainer)" : "");
  }
  fmt::print("{}\n", all_equal(summaries) ? "all replicas hold the trainer's weights, bit for bit"
                                          : "THE REPLICAS DIFFER");
  fmt::print("\nrank {} writes: {}\n", sample_rank, sample);
}

void TrainingReport::write_json(const std::filesystem::path& path) const {
  nlohmann::ordered_json json;
  json["run"] = headline_;
  json["ranks"] = summaries_.size();
  json["equal"] = all_equal(summaries_);
  for (const Phase phase : {Phase::kPretrain, Phase::kFinetune})
    json["phases"][std::string(name_of(phase))] = json_of(totals(phase));
  json["replicas"] = nlohmann::ordered_json::array();
  for (const RankSummary& rank : summaries_) {
    json["replicas"].push_back({{"hash", hex(rank.hash)},
                                {"held_out_loss", rank.held_out_loss},
                                {"bytes_received", rank.bytes_received}});
  }
  json["steps"] = nlohmann::ordered_json::array();
  for (const StepRecord& record : records_) json["steps"].push_back(json_of(record));
  json["sample"] = sample_;
  std::ofstream file(path);
  file << json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace training
