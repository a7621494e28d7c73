#include "comparison_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace training {
namespace {

constexpr const char* kHeadings =
    "  variant              step     loss  held-out      sent kB   exchange ms    step ms\n";
constexpr const char* kComparison =
    "\n  variant            held-out  of dense    loss   sent kB a step  of dense   elements  "
    "exchange ms    step ms\n";

template <class Field>
double mean_of(const std::vector<StepRecord>& steps, Field field) {
  double sum = 0;
  for (const StepRecord& step : steps) sum += static_cast<double>(field(step));
  return steps.empty() ? 0 : sum / static_cast<double>(steps.size());
}

template <class Field>
double median_of(const std::vector<StepRecord>& steps, Field field) {
  if (steps.empty()) return 0;
  std::vector<double> values;
  for (const StepRecord& step : steps) values.push_back(field(step));
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string percent(double part, double whole, int digits) {
  return whole > 0 ? fmt::format("{:.{}f}%", 100 * part / whole, digits) : "-";
}

nlohmann::ordered_json number_or_null(bool is_known, double value) {
  return is_known ? nlohmann::ordered_json(value) : nullptr;
}

}  // namespace

double VariantRecord::held_out_loss() const {
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (step->held_out_loss) return *step->held_out_loss;
  }
  return std::nan("");
}

double VariantRecord::training_loss() const {
  const std::size_t tail = std::max<std::size_t>(1, steps.size() / 10);
  return mean_of(
      {steps.end() - static_cast<std::ptrdiff_t>(std::min(tail, steps.size())), steps.end()},
      [](const StepRecord& step) { return step.loss; });
}

double VariantRecord::bytes_sent() const {
  return mean_of(steps, [](const StepRecord& step) { return step.bytes_sent; });
}
double VariantRecord::bytes_received() const {
  return mean_of(steps, [](const StepRecord& step) { return step.bytes_received; });
}
double VariantRecord::elements() const {
  return mean_of(steps, [](const StepRecord& step) { return step.elements; });
}
double VariantRecord::exchange_seconds() const {
  return median_of(steps, [](const StepRecord& step) { return step.exchange_seconds; });
}
double VariantRecord::step_seconds() const {
  return median_of(steps, [](const StepRecord& step) { return step.step_seconds; });
}

ComparisonReport::ComparisonReport(std::string headline, int ranks, std::uint64_t elements)
    : headline_(std::move(headline)), ranks_(ranks), elements_(elements) {
  fmt::print("{}\n\n{}", headline_, kHeadings);
  std::fflush(stdout);
}

void ComparisonReport::show_step(const std::string& variant, const StepRecord& record,
                                 int all_steps, bool is_row) const {
  progress_.clear();
  if (is_row) {
    const std::string held_out =
        record.held_out_loss ? fmt::format("{:.4f}", *record.held_out_loss) : "";
    fmt::print("  {:<18} {:>6} {:>8.4f} {:>9} {:>12.1f} {:>13.2f} {:>10.1f}\n", variant,
               record.step, record.loss, held_out, static_cast<double>(record.bytes_sent) / 1000,
               1000 * record.exchange_seconds, 1000 * record.step_seconds);
  }
  if (record.step < all_steps)
    progress_.show(fmt::format("{}: step {} of {}, loss {:.3f} ...", variant, record.step,
                               all_steps, record.loss));
  std::fflush(stdout);
}

void ComparisonReport::add(VariantRecord variant) { variants_.push_back(std::move(variant)); }

const VariantRecord& ComparisonReport::baseline() const {
  for (const VariantRecord& variant : variants_) {
    if (variant.name == "dense") return variant;
  }
  return variants_.front();
}

void ComparisonReport::finish() const {
  if (variants_.empty()) return;
  const VariantRecord& base = baseline();
  fmt::print(kComparison);
  for (const VariantRecord& variant : variants_) {
    const std::string sent =
        variant.is_measured ? fmt::format("{:.1f}", variant.bytes_sent() / 1000) : "not told";
    const std::string share = variant.is_measured && base.is_measured
                                  ? percent(variant.bytes_sent(), base.bytes_sent(), 2)
                                  : "-";
    fmt::print("  {:<18} {:>8.4f} {:>9} {:>7.4f} {:>16} {:>9} {:>10} {:>12.2f} {:>10.1f}\n",
               variant.name, variant.held_out_loss(),
               percent(variant.held_out_loss(), base.held_out_loss(), 2), variant.training_loss(),
               sent, share, percent(variant.elements(), static_cast<double>(elements_), 2),
               1000 * variant.exchange_seconds(), 1000 * variant.step_seconds());
  }
  fmt::print("\n{}\n", is_equal()
                           ? "after each variant all ranks hold the same weights, bit for bit"
                           : "THE RANKS DIFFER");
}

bool ComparisonReport::is_equal() const {
  return std::all_of(variants_.begin(), variants_.end(),
                     [](const VariantRecord& variant) { return variant.is_equal; });
}

void ComparisonReport::write_json(const std::filesystem::path& path) const {
  nlohmann::ordered_json json = {
      {"run", headline_}, {"ranks", ranks_}, {"elements", elements_}, {"equal", is_equal()}};
  nlohmann::ordered_json variants = nlohmann::ordered_json::array(),
                         steps = nlohmann::ordered_json::array();
  const double dense_bytes = static_cast<double>(elements_) * sizeof(float);
  for (const VariantRecord& variant : variants_) {
    variants.push_back(
        {{"variant", variant.name},
         {"density", variant.density},
         {"feedback", variant.has_feedback},
         {"algorithm", variant.algorithm},
         {"equal", variant.is_equal},
         {"held_out_loss", variant.held_out_loss()},
         {"held_out_of_dense", variant.held_out_loss() / baseline().held_out_loss()},
         {"loss", variant.training_loss()},
         {"elements", variant.elements()},
         {"bytes_sent", number_or_null(variant.is_measured, variant.bytes_sent())},
         {"bytes_received", number_or_null(variant.is_measured, variant.bytes_received())},
         {"exchange_seconds", variant.exchange_seconds()},
         {"step_seconds", variant.step_seconds()}});
    for (const StepRecord& step : variant.steps) {
      nlohmann::ordered_json row = {
          {"variant", variant.name}, {"step", step.step}, {"loss", step.loss}};
      if (step.held_out_loss) row["held_out_loss"] = *step.held_out_loss;
      row["elements"] = step.elements;
      row["bytes_sent"] = number_or_null(variant.is_measured, static_cast<double>(step.bytes_sent));
      row["bytes_received"] =
          number_or_null(variant.is_measured, static_cast<double>(step.bytes_received));
      row["bytes_dense"] = dense_bytes;
      row["exchange_seconds"] = step.exchange_seconds;
      row["step_seconds"] = step.step_seconds;
      steps.push_back(std::move(row));
    }
  }
  json["variants"] = std::move(variants);
  json["steps"] = std::move(steps);
  std::ofstream file(path);
  file << json.dump(1) << '\n';
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace training
