#include "comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <language_model/rank_sharing.hpp>
#include <stdexcept>
#include <utility>

namespace training {
namespace {

constexpr int kEvaluations =
    20;  // of the held-out loss in one training, but not before so many steps:
constexpr int kStepsBetween = 10;
constexpr int kRowsEvery = 4;  // one of so many is a row of the table

}  // namespace

Comparison::Comparison(sparcl::Comm& comm, const ComparisonOptions& options)
    : comm_(comm),
      options_(options),
      text_(share_text(comm, comm.rank() == 0 ? read_text(options.text) : "")) {
  options_.training.shape = shape_of(options.size, text_.vocabulary());
  count_ = ParameterLayout(options_.training.shape).count();
  if (comm.rank() != 0) return;
  const TrainingSettings& settings = options_.training;
  report_.emplace(
      fmt::format("train_topk: {} ranks, {} parameters in float32 ({} layers of width {}), {} "
                  "steps of {} sequences a rank, rate {}, {} characters of text, seed {}",
                  comm.size(), count_, settings.shape.layers, settings.shape.width, settings.steps,
                  settings.batch, settings.rate, text_.training().size() + text_.held_out().size(),
                  settings.seed),
      comm.size(), count_);
}

void Comparison::run() {
  bool is_equal = true;
  for (const Variant& variant : options_.variants) {
    std::optional<VariantRecord> record = train(variant);
    if (!record) continue;
    is_equal = is_equal && record->is_equal;
    if (!report_) continue;
    report_->add(std::move(*record));
    if (!options_.json.empty())
      report_->write_json(
          options_.json);  // written after each training, because the run may be cut short
  }
  if (report_) report_->finish();
  if (!is_equal) throw std::runtime_error("the ranks hold different weights");
}

std::optional<VariantRecord> Comparison::train(const Variant& variant) {
  const TrainingSettings& settings = options_.training;
  const std::unique_ptr<GradientExchange> exchange = make_exchange(
      comm_, variant, {count_, settings.seed, options_.mode, options_.density_warmup});
  if (exchange == nullptr) {
    if (report_) fmt::print("  {:<18} left out: the ranks are not MPI's\n", variant.name());
    return std::nullopt;
  }
  VariantRecord record{
      variant.name(), "", variant.density, variant.has_feedback, variant.method != Method::kMpi,
      false,          {}};
  DataParallel training(comm_, text_, settings,
                        variant.has_feedback && variant.method == Method::kTopK, *exchange);
  const int evaluate_every = std::max(kStepsBetween, settings.steps / kEvaluations);
  for (int step = 1; step <= settings.steps; ++step) {
    const StepFigures figures = training.step(step - 1);
    StepRecord row;
    row.step = step;
    row.loss = figures.loss;
    row.exchange_seconds = figures.seconds;
    row.step_seconds = figures.step_seconds;
    row.elements = figures.report ? figures.report->nnz_out : count_;
    if (figures.report) {
      record.algorithm = figures.report->algorithm;
      row.bytes_sent = figures.report->bytes_sent;
      row.bytes_received = figures.report->bytes_received;
    }
    const bool is_last = step == settings.steps;
    if (step % evaluate_every == 0 || step == 1 || is_last)
      row.held_out_loss = training.held_out_loss();
    if (report_)
      report_->show_step(record.name, row, settings.steps,
                         step % (evaluate_every * kRowsEvery) == 0 || step == 1 || is_last);
    record.steps.push_back(row);
  }
  take_busiest(record.steps);
  record.is_equal = training.is_equal();
  return record;
}

// Takes the largest bytes and times of any rank in each step.
void Comparison::take_busiest(std::vector<StepRecord>& steps) {
  constexpr std::size_t kFields = 4;
  std::vector<double> mine;
  for (const StepRecord& step : steps) {
    mine.insert(mine.end(),
                {static_cast<double>(step.bytes_sent), static_cast<double>(step.bytes_received),
                 step.exchange_seconds, step.step_seconds});
  }
  const std::vector<double> all = gather_from_all<double>(comm_, mine);
  for (std::size_t i = 0; i < all.size(); i += kFields) {
    StepRecord& step = steps[i / kFields % steps.size()];
    step.bytes_sent = std::max(step.bytes_sent, static_cast<std::uint64_t>(all[i]));
    step.bytes_received = std::max(step.bytes_received, static_cast<std::uint64_t>(all[i + 1]));
    step.exchange_seconds = std::max(step.exchange_seconds, all[i + 2]);
    step.step_seconds = std::max(step.step_seconds, all[i + 3]);
  }
}

}  // namespace training
