#include "gradient_exchange.hpp"

#include <algorithm>
#include <cmath>

namespace training {
namespace {

// Everything, as a mask that has all elements.
class DenseExchange final : public GradientExchange {
 public:
  DenseExchange(sparcl::Comm& comm, std::size_t count)
      : comm_(comm), all_(sparcl::Mask::random(count, 1, 0)) {}

  std::optional<sparcl::Report> mean(std::span<const float> gradient, int /*step*/,
                                     std::span<float> mean) override {
    return comm_.all_reduce_masked(gradient, mean, all_, sparclAvg);
  }

 private:
  sparcl::Comm& comm_;
  sparcl::Mask all_;
};

// The largest elements of each rank. The library keeps the residual.
class TopKExchange final : public GradientExchange {
 public:
  TopKExchange(sparcl::Comm& comm, const Variant& variant, const ExchangeSettings& settings)
      : comm_(comm), density_(variant.density), settings_(settings) {
    options_.mode = settings.mode;
    if (variant.has_feedback) feedback_.emplace(sparcl::Feedback::of<float>(settings.count));
  }

  std::optional<sparcl::Report> mean(std::span<const float> gradient, int step,
                                     std::span<float> mean) override {
    const auto k = static_cast<std::size_t>(
        std::llround(density_of(step) * static_cast<double>(gradient.size())));
    return comm_.all_reduce_top_k(gradient, mean, std::max<std::size_t>(k, 1),
                                  feedback_ ? &*feedback_ : nullptr, options_, sparclAvg);
  }

 private:
  // Deep Gradient Compression (Lin et al., ICLR 2018) lets the density fall exponentially while the
  // first gradients change fast.
  double density_of(int step) const {
    if (step >= settings_.warmup_steps) return density_;
    const double left = 1 - static_cast<double>(step + 1) / (settings_.warmup_steps + 1);
    return std::pow(density_, 1 - left);
  }

  sparcl::Comm& comm_;
  double density_;
  ExchangeSettings settings_;
  sparclTopKOptions_t options_ = SPARCL_TOPK_OPTIONS_INITIALIZER;
  std::optional<sparcl::Feedback> feedback_;
};

// Random elements. As for top-k the library keeps the residual.
class MaskExchange final : public GradientExchange {
 public:
  MaskExchange(sparcl::Comm& comm, const Variant& variant, const ExchangeSettings& settings)
      : comm_(comm), mask_(sparcl::Mask::random(settings.count, variant.density, settings.seed)) {
    if (variant.has_feedback) feedback_.emplace(sparcl::Feedback::of<float>(settings.count));
  }

  std::optional<sparcl::Report> mean(std::span<const float> gradient, int step,
                                     std::span<float> mean) override {
    mask_.set_step(static_cast<std::uint64_t>(step));
    sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
    options.outside = sparclOutsideZero;
    return comm_.all_reduce_masked(gradient, mean, mask_, feedback_ ? &*feedback_ : nullptr,
                                   options, sparclAvg);
  }

 private:
  sparcl::Comm& comm_;
  sparcl::Mask mask_;
  std::optional<sparcl::Feedback> feedback_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_exchange(sparcl::Comm& comm, const Variant& variant,
                                                const ExchangeSettings& settings) {
  switch (variant.method) {
    case Method::kDense:
      return std::make_unique<DenseExchange>(comm, settings.count);
    case Method::kMpi:
      return make_mpi_exchange();
    case Method::kTopK:
      return std::make_unique<TopKExchange>(comm, variant, settings);
    case Method::kMask:
      return std::make_unique<MaskExchange>(comm, variant, settings);
  }
  return nullptr;
}

}  // namespace training
