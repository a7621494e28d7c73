#include "src/aggregate/sum/facts.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "src/base/float_environment.hpp"

namespace sparcl::aggregate {
namespace {

double norm_of(const ContributionFacts& facts) { return std::sqrt(facts.squares); }

// The lower one of two in the middle.
double median_norm(std::span<const ContributionFacts> facts, const std::vector<bool>& is_refused) {
  std::vector<double> norms;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (!is_refused[i]) norms.push_back(norm_of(facts[i]));
  }
  if (norms.empty()) return 0;
  const auto middle = norms.begin() + static_cast<std::ptrdiff_t>((norms.size() - 1) / 2);
  std::nth_element(norms.begin(), middle, norms.end());
  return *middle;
}

float clip_factor(double norm, double limit) {
  return limit > 0 && norm > limit ? static_cast<float>(limit / norm) : 1.0F;
}

}  // namespace

ContributionFacts facts_of(std::span<const float> values) {
  const FloatEnvironment ieee;
  ContributionFacts facts;
  std::array<double, 8> sums{};  // side by side, so that additions do not wait for each other
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    const bool is_finite = std::isfinite(values[i]);
    facts.not_finite += is_finite ? 0 : 1;
    sums[i % sums.size()] += is_finite ? value * value : 0;
  }
  for (const double sum : sums) facts.squares += sum;
  return facts;
}

Screening screen(const ScreenOptions& options, std::span<const ContributionFacts> facts) {
  const FloatEnvironment ieee;
  Screening screening;
  for (const ContributionFacts& each : facts) {
    const bool is_bad = each.not_finite > 0;
    screening.is_refused.push_back(is_bad && options.non_finite == NonFinite::kRefuse);
    screening.is_failed = screening.is_failed || (is_bad && options.non_finite == NonFinite::kFail);
  }
  const double median_limit =
      options.clip.median_factor > 0
          ? options.clip.median_factor * median_norm(facts, screening.is_refused)
          : 0;
  for (const ContributionFacts& each : facts) {
    const double norm = norm_of(each);
    screening.clip.push_back(
        std::min(clip_factor(norm, options.clip.l2_norm), clip_factor(norm, median_limit)));
  }
  return screening;
}

void weigh(std::span<const float> values, float clip, float weight, std::span<float> out) {
  const FloatEnvironment ieee;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float clipped = std::isfinite(values[i]) ? values[i] * clip : 0.0F;
    out[i] = clipped * weight + 0.0F;
  }
}

}  // namespace sparcl::aggregate
