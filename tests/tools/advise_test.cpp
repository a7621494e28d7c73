// What advise says of changes whose nature is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "collectives/broadcast/broadcast_forecast.hpp"
#include "src/model/files/delta_maker.hpp"
#include "src/model/files/mode_costs.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::tool {
namespace {

using collectives::broadcast::BroadcastForecast;
using test::run_program;
using test::Tensors;

class Advise : public ::testing::Test {
 protected:
  std::string at(std::string_view name) const { return folder_ / name; }

  // A million bfloat16 weights whose exponents take two values, and one step of size +-1 ulp at the
  // places that hit() names.
  template <class Hit>
  model::ModeCosts costs(Hit hit) {
    constexpr std::size_t kCount = 1'000'000;
    Tensors base;
    test::add_tensor(base, "w", DataType::kBfloat16, {kCount}, 1);
    std::mt19937_64 random(2);
    for (std::size_t i = 0; i < kCount; ++i) {
      base.bytes[0][2 * i] = static_cast<std::byte>(0x40 | (random() & 0x3e));
      base.bytes[0][2 * i + 1] = static_cast<std::byte>(i % 4 == 0 ? 0x3c : 0x3e);
    }
    Tensors target = base;
    for (std::size_t i = 0; i < kCount; ++i) {
      if (hit(i, random)) target.bytes[0][2 * i] ^= std::byte{1};
    }
    test::write_model(at("a"), base);
    test::write_model(at("b"), target);
    const Result<model::ModeCosts> result = model::measure_costs(at("a"), at("b"));
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : model::ModeCosts{};
  }

  test::TempFolder folder_;
};

TEST_F(Advise, OfIndependentChanges) {
  const model::ModeCosts costs =
      this->costs([](std::size_t, auto& random) { return random() % 100 == 0; });
  EXPECT_NEAR(costs.shape.density(), 0.01, 0.001);
  EXPECT_NEAR(costs.shape.clustering, 1, 0.02);
  EXPECT_NEAR(costs.shape.position_bits, 8.08, 0.2);
  EXPECT_NEAR(costs.shape.position_bits_given_old, costs.shape.position_bits, 0.02);
  EXPECT_DOUBLE_EQ(costs.shape.unit_steps, 1);
  const Result<model::DiffReport> diff = model::make_delta(at("a"), at("b"), at("delta"));
  ASSERT_TRUE(diff.ok());
  EXPECT_EQ(costs.shape.changed, diff->changed);
  for (const model::ModeCost& mode : costs.modes) {
    const test::ProgramRun file =
        run_program({"diff", at("a"), at("b"), "-o", at("delta"), "--mode", mode.name, "--json"});
    EXPECT_EQ(file.json()["bytes"], mode.bytes) << mode.name;
  }
  // A table of classes is chosen by a sample: auto can miss the best by that much.
  for (const model::ModeCost& mode : costs.modes)
    EXPECT_GE(1.02 * static_cast<double>(mode.bytes), costs.modes[0].bytes) << mode.name;
}

TEST_F(Advise, SeesClustersAndExponents) {
  const model::ModeCosts clustered =
      this->costs([](std::size_t i, auto&) { return i % 12800 < 128; });
  EXPECT_GT(clustered.shape.clustering, 50);
  const model::ModeCosts by_exponent =
      this->costs([](std::size_t i, auto& random) { return i % 4 == 0 && random() % 25 == 0; });
  EXPECT_NEAR(by_exponent.shape.density(), 0.01, 0.001);
  EXPECT_GT(by_exponent.shape.position_bits - by_exponent.shape.position_bits_given_old,
            1.9);  // two bits: a quarter can change
}

// With times that are given, not measured.
BroadcastForecast predicted(double link_gbit, int ranks = 8) {
  return collectives::broadcast::forecast({100'000'000, 50'000'000, 200'000'000, 1, 2, 1.5, 0.9},
                                          {"broadcast", 25'000'000, 0.08}, link_gbit, ranks);
}

TEST(AdvisePredicts, ThatDenseWinsOnFastLinksOnly) {
  const BroadcastForecast slow = predicted(1);
  EXPECT_TRUE(slow.sparse_wins);
  EXPECT_FALSE(slow.dense_wins_above.has_value());
  EXPECT_GT(slow.dense_seconds, 1.6);  // 200 MB at 1 Gbit/s
  EXPECT_GT(slow.sparse_seconds, 0.2);
  const BroadcastForecast fast = predicted(1000);
  EXPECT_FALSE(fast.sparse_wins);
  EXPECT_DOUBLE_EQ(fast.sparse_seconds, 0.08);  // all of it encoding
  ASSERT_TRUE(fast.dense_wins_above.has_value());
  EXPECT_LT(*fast.dense_wins_above, 0.5);
  EXPECT_LT(fast.dense_seconds, predicted(1000, 512).dense_seconds);  // more ranks, more hops
}

TEST_F(Advise, OfNoChange) {
  const model::ModeCosts costs = this->costs([](std::size_t, auto&) { return false; });
  EXPECT_EQ(costs.shape.changed, 0u);
  EXPECT_LT(costs.modes[0].bytes, 200u);
}

TEST_F(Advise, TheProgram) {
  const Tensors base = test::small_model();
  Tensors target = base;
  test::change(target, 0.02, 3);
  test::write_model(at("a"), base);
  test::write_model(at("b"), target);
  const test::ProgramRun run =
      run_program({"advise", at("a"), at("b"), "--link", "1", "--ranks", "4", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.json()["ranks"], 4);
  EXPECT_NEAR(run.json()["density"].get<double>(), 0.02, 0.004);
  EXPECT_EQ(run.json()["modes"][0]["mode"], "auto");
  EXPECT_EQ(run_program({"advise", at("a"), at("b")}).exit_code, 0);
  EXPECT_EQ(run_program({"advise", at("a"), at("b"), "--ranks", "1"}).exit_code, 2);
  EXPECT_EQ(run_program({"advise", at("a"), at("b"), "--link", "0"}).exit_code, 2);
  EXPECT_EQ(run_program({"advise", at("a")}).exit_code, 2);
  target.schema.pop_back();
  target.bytes.pop_back();
  test::write_model(at("b"), target);
  EXPECT_EQ(run_program({"advise", at("a"), at("b")}).exit_code, 3);
}

}  // namespace
}  // namespace sparcl::tool
