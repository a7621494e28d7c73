#include "examples/train_topk/gradient_exchange.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "examples/language_model/rank_launcher.hpp"

namespace training {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kCount = 1000;

// All numbers are small and whole, so that sums are exact in any order.
std::vector<float> gradient_of(int rank, int step) {
  std::vector<float> gradient(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    gradient[i] =
        static_cast<float>((i * 37 + static_cast<std::size_t>(rank * 11 + step)) % 64) - 20;
  return gradient;
}

// The sums of all means, times the number of ranks, after `steps` steps, as rank 0 has them.
std::vector<float> exchanged(const Variant& variant, int steps,
                             std::vector<sparcl::Report>* reports = nullptr,
                             sparclTopKMode_t mode = sparclTopKUnion) {
  std::vector<float> sum(kCount);
  run_as_threads(kRanks, [&](sparcl::Comm& comm) {
    const std::unique_ptr<GradientExchange> exchange =
        make_exchange(comm, variant, {kCount, 5, mode, 0});
    std::vector<float> mean(kCount);
    for (int step = 0; step < steps; ++step) {
      const auto report = exchange->mean(gradient_of(comm.rank(), step), step, mean);
      if (comm.rank() != 0) continue;
      for (std::size_t i = 0; i < kCount; ++i) sum[i] += std::round(mean[i] * kRanks);
      if (reports != nullptr) reports->push_back(report.value());
    }
  });
  return sum;
}

std::vector<float> dense_sum(int steps) {
  std::vector<float> sum(kCount);
  for (int step = 0; step < steps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::vector<float> gradient = gradient_of(rank, step);
      for (std::size_t i = 0; i < kCount; ++i) sum[i] += gradient[i];
    }
  }
  return sum;
}

TEST(GradientExchange, DenseIsTheMean) {
  EXPECT_EQ(exchanged(parse_variant("dense"), 2), dense_sum(2));
}

TEST(GradientExchange, MpiNeedsMpi) {
  run_as_threads(1, [](sparcl::Comm& comm) {
    EXPECT_EQ(make_exchange(comm, parse_variant("mpi"), {kCount, 0, sparclTopKUnion, 0}), nullptr);
  });
}

TEST(GradientExchange, OfDensityOneAllAreTheMean) {
  for (const char* name : {"topk:1", "topk:1:forget", "mask:1", "mask:1:forget"})
    EXPECT_EQ(exchanged(parse_variant(name), 3), dense_sum(3)) << name;
}

TEST(GradientExchange, MasksMoveTheirShareAndKeepOrForgetTheRest) {
  std::vector<sparcl::Report> reports;
  const std::vector<float> once = exchanged(parse_variant("mask:0.1"), 1, &reports);
  EXPECT_EQ(reports[0].nnz_out, kCount / 10);
  const std::vector<float> dense = dense_sum(1);
  std::size_t moved = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (once[i] == 0) continue;
    EXPECT_EQ(once[i], dense[i]);
    ++moved;
  }
  EXPECT_GT(moved, kCount / 12);
  // An element of the second step's mask alone has both steps' gradients if the first's was kept,
  // else the second's.
  const std::vector<float> kept = exchanged(parse_variant("mask:0.1"), 2),
                           forgot = exchanged(parse_variant("mask:0.1:forget"), 2);
  const std::vector<float> both = dense_sum(2);
  std::size_t of_both = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (once[i] != 0 || kept[i] == 0) continue;
    EXPECT_EQ(kept[i], both[i]);
    EXPECT_EQ(forgot[i], both[i] - dense[i]);
    ++of_both;
  }
  EXPECT_GT(of_both, kCount / 20);
}

TEST(GradientExchange, TopKKeepsOrForgetsTheRest) {
  std::vector<sparcl::Report> reports;
  const Variant kept = parse_variant("topk:0.2"), forgot = parse_variant("topk:0.2:forget");
  const auto mass = [](const std::vector<float>& sum) {
    return std::accumulate(sum.begin(), sum.end(), 0.0,
                           [](double all, float value) { return all + std::fabs(value); });
  };
  const double with = mass(exchanged(kept, 8, &reports, sparclTopKSelected));
  const double without = mass(exchanged(forgot, 8, nullptr, sparclTopKSelected));
  EXPECT_EQ(reports[0].nnz_in, kCount / 5);
  EXPECT_GT(with, 1.2 * without);
  EXPECT_LT(with, 1.2 * mass(dense_sum(8)));
}

TEST(GradientExchange, TheDensityOfTopKFallsDuringWarmup) {
  std::vector<std::uint64_t> selected;
  run_as_threads(1, [&](sparcl::Comm& comm) {
    const auto exchange =
        make_exchange(comm, parse_variant("topk:0.01"), {kCount, 0, sparclTopKUnion, 4});
    std::vector<float> mean(kCount);
    const std::vector<float> ones(kCount, 1.0F);
    for (int step = 0; step < 6; ++step)
      selected.push_back(exchange->mean(ones, step, mean)->nnz_in);
  });
  EXPECT_EQ(selected, (std::vector<std::uint64_t>{398, 158, 63, 25, 10, 10}));
}

}  // namespace
}  // namespace training
