// Facts of contributions, outer optimisers, and shards: from a round's sum to its result.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "src/aggregate/outer/shard.hpp"
#include "src/aggregate/sum/facts.hpp"
#include "tests/aggregate/sparse_input.hpp"

namespace sparcl::aggregate {
namespace {

using test::Entries;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Facts, AreOfFiniteValues) {
  const std::vector<float> values{3, kNan, -4, kInf};
  const ContributionFacts facts = facts_of(values);
  EXPECT_EQ(facts.squares, 25);
  EXPECT_EQ(facts.not_finite, 2u);
}

TEST(Screen, DecidesOfNonFiniteValuesAsTold) {
  const std::vector<ContributionFacts> facts{{1, 0}, {1, 2}};
  const Screening refused = screen({NonFinite::kRefuse, {}}, facts);
  EXPECT_EQ(refused.is_refused, (std::vector<bool>{false, true}));
  EXPECT_FALSE(refused.is_failed);
  const Screening zeroed = screen({NonFinite::kZero, {}}, facts);
  EXPECT_EQ(zeroed.is_refused, (std::vector<bool>{false, false}));
  EXPECT_TRUE(screen({NonFinite::kFail, {}}, facts).is_failed);
}

TEST(Screen, ClipsByNormAndByMedianNorm) {
  const std::vector<ContributionFacts> facts{{1, 0}, {4, 0}, {9, 0}, {1e4, 0}};
  EXPECT_EQ(screen({NonFinite::kRefuse, {2, 0}}, facts).clip,
            (std::vector<float>{1, 1, 2.0F / 3, 0.02F}));
  EXPECT_EQ(screen({NonFinite::kRefuse, {0, 1}}, facts).clip,
            (std::vector<float>{1, 1, 2.0F / 3, 0.02F}))
      << "the median norm is 2";
  EXPECT_EQ(screen({NonFinite::kRefuse, {}}, facts).clip, (std::vector<float>{1, 1, 1, 1}));
}

TEST(Weigh, RoundsEachProductOnce) {
  std::vector<float> values{1.1F, -0.0F, kNan, kInf, -3};
  weigh(values, 0.3F, 7.7F, values);
  EXPECT_EQ(values[0], 1.1F * 0.3F * 7.7F);
  EXPECT_FALSE(std::signbit(values[1]));
  EXPECT_EQ(values[2], 0);
  EXPECT_EQ(values[3], 0);
  EXPECT_EQ(values[4], -3 * 0.3F * 7.7F);
}

// --- optimisers, against their formulas in double ---

struct Reference {
  OuterOptions options;
  double m = 0, v = 0;
  std::uint64_t t = 0;

  double step(double g) {
    ++t;
    const double lr = options.learning_rate, b = options.momentum, n = options.delay;
    switch (options.kind) {
      case OuterKind::kNone:
        return g;
      case OuterKind::kSgd:
        m = b * m + g;
        return lr * m;
      case OuterKind::kNesterov:
        m = b * m + g;
        return lr * (g + b * m);
      case OuterKind::kDelayedNesterov: {
        v += g;
        const bool is_due = t % options.delay == 0;
        const double c = options.activation;
        if (is_due) m = b * m + v / n;
        if (is_due) v = 0;
        return lr * ((is_due ? 1 - c * n + c : c) * b * m + g / n);
      }
      case OuterKind::kAdam: {
        m = b * m + (1 - b) * g;
        v = options.beta2 * v + (1 - options.beta2) * g * g;
        const double steps = static_cast<double>(t);
        return lr * (m / (1 - std::pow(b, steps))) /
               (std::sqrt(v / (1 - std::pow(options.beta2, steps))) + options.epsilon);
      }
    }
    return 0;
  }
};

OuterOptions optimizer(OuterKind kind) {
  OuterOptions options;
  options.kind = kind;
  options.learning_rate = 0.7;
  options.momentum = 0.9;
  options.beta2 = 0.95;
  options.delay = kind == OuterKind::kDelayedNesterov ? 3 : 1;
  options.activation = kind == OuterKind::kDelayedNesterov ? 0.2 : 0;
  return options;
}

ShardOptions small_shard(const OuterOptions& outer) {
  ShardOptions options;
  options.count = 1000;
  options.mean = MeanKind::kSum;
  options.outer = outer;
  return options;
}

constexpr sparse::BlockRun kSmall{0, 1, 16};

ShardInput input_of(const Buffer& sum) { return {sum.bytes(), {}, 1, 1}; }

TEST(OuterOptimizer, EachRowFollowsItsFormula) {
  for (const OuterRow& row : outer_table()) {
    BufferPool buffers;
    SeededRandom random(5);
    Result<Shard> shard = Shard::create(small_shard(optimizer(row.kind)), kernels::cpu_kernels());
    ASSERT_TRUE(shard.ok());
    std::map<std::uint64_t, Reference> expected;
    for (std::uint64_t i = 0; i < 1000; ++i) expected[i] = {optimizer(row.kind)};
    for (int round = 0; round < 10; ++round) {
      const Entries entries = test::random_entries(random, 100, 1000);
      std::map<std::uint64_t, double> gradients;
      for (std::size_t i = 0; i < 100; ++i) gradients[entries.indices[i]] = entries.values[i];
      ASSERT_TRUE(shard->propose(input_of(test::part_of(buffers, entries, kSmall)), 0).ok());
      const ShardResult result = shard->keep();
      std::map<std::uint64_t, float> got;
      for (std::size_t i = 0; i < result.indices.size(); ++i)
        got[result.indices[i]] = result.values[i];
      for (auto& [i, reference] : expected) {
        const double value = reference.step(gradients[i]);
        ASSERT_NEAR(got[i], value, 1e-4 * std::abs(value) + 1e-5) << row.name << " " << i;
      }
    }
  }
}

TEST(OuterOptimizer, OptionsThatMakeNoSenseAreRefused) {
  OuterOptions good = optimizer(OuterKind::kAdam);
  EXPECT_TRUE(check_outer_options(good).ok());
  const auto refused = [&](auto change) {
    OuterOptions bad = good;
    change(bad);
    return !check_outer_options(bad).ok();
  };
  EXPECT_TRUE(refused([](OuterOptions& o) { o.learning_rate = kInf; }));
  EXPECT_TRUE(refused([](OuterOptions& o) { o.momentum = 1; }));
  EXPECT_TRUE(refused([](OuterOptions& o) { o.beta2 = kNan; }));
  EXPECT_TRUE(refused([](OuterOptions& o) { o.epsilon = 0; }));
  EXPECT_TRUE(refused([](OuterOptions& o) { o.delay = 0; }));
  EXPECT_TRUE(refused([](OuterOptions& o) { o.activation = 1.1; }));
  EXPECT_TRUE(refused([](OuterOptions& o) { o.kind = static_cast<OuterKind>(9); }));
}

// --- means ---

ShardResult mean_of(MeanKind mean, const ShardInput& input) {
  ShardOptions options = small_shard({});
  options.mean = mean;
  Result<Shard> shard = Shard::create(options, kernels::cpu_kernels());
  EXPECT_TRUE(shard.ok());
  EXPECT_TRUE(shard->propose(input, 0).ok());
  return shard->keep();
}

TEST(Shard, MakesEachMean) {
  BufferPool buffers;
  const Buffer sum = test::part_of(buffers, {{3, 9}, {12, 30}}, kSmall);
  const Buffer weights = test::part_of(buffers, {{3, 9}, {2, 10}}, kSmall);
  const ShardInput input{sum.bytes(), weights.bytes(), 4, 3};
  EXPECT_EQ(mean_of(MeanKind::kSum, input).values, (std::vector<float>{12, 30}));
  EXPECT_EQ(mean_of(MeanKind::kByWeight, input).values, (std::vector<float>{3, 7.5}));
  EXPECT_EQ(mean_of(MeanKind::kOverWorkers, input).values, (std::vector<float>{4, 10}));
  EXPECT_EQ(mean_of(MeanKind::kOverContributors, input).values, (std::vector<float>{6, 3}));
}

// Flower: a total weight of zero makes the model NaN.
TEST(Shard, RefusesATotalWeightOfZero) {
  BufferPool buffers;
  ShardOptions options = small_shard(optimizer(OuterKind::kNesterov));
  options.mean = MeanKind::kByWeight;
  Result<Shard> shard = Shard::create(options, kernels::cpu_kernels());
  const Buffer sum = test::part_of(buffers, {{3}, {1}}, kSmall);
  EXPECT_EQ(shard->propose({sum.bytes(), {}, 0, 2}, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(shard->steps(), 0u);
}

TEST(Shard, RefusesSumsThatAreNotItsOwn) {
  BufferPool buffers;
  Result<Shard> shard = Shard::create(small_shard({}), kernels::cpu_kernels());
  const Buffer beyond = test::part_of(buffers, {{1000}, {1}}, kSmall);
  EXPECT_EQ(shard->propose(input_of(beyond), 0).code(), Code::kCorrupt);
  EXPECT_EQ(shard->propose({{}, {}, 1, 1}, 0).code(), Code::kCorrupt);
}

// Of the cut and of the rounding: what comes in is sent, or stays. Small integers add up exactly.
TEST(Shard, LosesNothingInTheCut) {
  SeededRandom random(6);
  BufferPool buffers;
  ShardOptions options = small_shard({});
  options.has_cut = true;
  Result<Shard> shard = Shard::create(options, kernels::cpu_kernels());
  std::map<std::uint64_t, double> given, sent;
  for (int round = 0; round < 20; ++round) {
    Entries entries = test::random_entries(random, 100, 1000);
    for (float& value : entries.values) value = static_cast<float>(random.below(200)) - 100;
    for (std::size_t i = 0; i < 100; ++i) given[entries.indices[i]] += entries.values[i];
    ASSERT_TRUE(shard->propose(input_of(test::part_of(buffers, entries, kSmall)), 30).ok());
    const ShardResult result = shard->keep();
    ASSERT_EQ(result.indices.size(), 30u);
    for (std::size_t i = 0; i < 30; ++i) sent[result.indices[i]] += result.values[i];
    const std::span<float> residual = shard->arrays().back();
    for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(given[i], sent[i] + residual[i]) << i;
  }
}

TEST(Shard, KeepsWhatTheWireTypeRoundsOff) {
  BufferPool buffers;
  for (const sparse::Wire wire : {sparse::Wire::kBfloat16, sparse::Wire::kScaled8,
                                  sparse::Wire::kScaled4, sparse::Wire::kScaled2}) {
    ShardOptions options = small_shard({});
    options.wire = wire;
    Result<Shard> shard = Shard::create(options, kernels::cpu_kernels());
    const Buffer sum = test::part_of(buffers, {{3, 5}, {1.2345678F, 100}}, kSmall);
    ASSERT_TRUE(shard->propose(input_of(sum), 0).ok());
    const ShardResult result = shard->keep();
    ASSERT_EQ(result.indices, (std::vector<std::uint64_t>{3, 5}));
    EXPECT_NE(result.values[0], 1.2345678F);
    EXPECT_EQ(result.values[0] + shard->arrays().back()[3], 1.2345678F);
  }
}

// Shards that keep the largest elements together: each proposes, and all learn the smallest key.
TEST(Shard, KeepsAboveAKeyAndTheFirstOfTies) {
  BufferPool buffers;
  ShardOptions options = small_shard({});
  options.first = 65536;
  options.has_cut = true;
  Result<Shard> shard = Shard::create(options, kernels::cpu_kernels());
  const sparse::BlockRun run{1, 1, 16};
  const Buffer sum = test::part_of(buffers, {{65536, 65540, 65541, 65550}, {-2, 1, 3, -2}}, run);
  ASSERT_TRUE(shard->propose(input_of(sum), 4).ok());
  const std::vector<std::uint32_t> keys = shard->keys();
  const ShardResult result = shard->keep(keys[0], 1);
  EXPECT_EQ(result.indices, (std::vector<std::uint64_t>{65536, 65541}));
  EXPECT_EQ(shard->arrays().back()[14], -2) << "the second of the ties stays";
}

}  // namespace
}  // namespace sparcl::aggregate
