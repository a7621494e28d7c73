// `sparcl diff --values int8`: a delta that leads near its target, and what the other commands make
// of it.

#include <gtest/gtest.h>

#include "src/base/number.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::tool {
namespace {

using test::ProgramRun;
using test::run_program;

class LossyDiff : public testing::Test {
 protected:
  LossyDiff() {
    base_ = test::small_model();
    std::mt19937_64 random(3);
    std::normal_distribution<double> normal(0, 0.02);
    for (std::size_t at = 0; at < base_.bytes[kHead].size(); at += 4) {
      store_number(DataType::kFloat32, normal(random), base_.bytes[kHead].data() + at);
    }
    target_ = base_;
    for (std::size_t at = 0; at < base_.bytes[kHead].size(); at += 4 * (1 + random() % 20)) {
      std::byte* element = target_.bytes[kHead].data() + at;
      store_number(DataType::kFloat32,
                   load_number(DataType::kFloat32, element) + 0.05 * normal(random), element);
    }
    target_.bytes[kSteps][0] ^= std::byte{1};
    test::write_model(at("base"), base_);
    test::write_model(at("target"), target_);
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  ProgramRun diff(const std::string& to, std::vector<std::string> options,
                  const std::string& delta = "delta") {
    options.insert(options.begin(), {"diff", at("base"), at(to), "-o", at(delta), "--json"});
    return run_program(options);
  }

  static constexpr std::size_t kHead = 2;
  static constexpr std::size_t kSteps = 3;
  test::TempFolder folder_;
  test::Tensors base_;
  test::Tensors target_;
};

TEST_F(LossyDiff, LeadsNearTheTargetInFewerBytes) {
  const std::uint64_t exact = diff("target", {}).json()["bytes"];
  for (const char* values : {"int8", "fp8"}) {
    const ProgramRun lossy = diff("target", {"--values", values});
    ASSERT_EQ(lossy.exit_code, 0) << lossy.out << lossy.err;
    EXPECT_LT(2 * lossy.json()["bytes"].get<std::uint64_t>(), exact + 1000);
    EXPECT_GT(lossy.json()["relative_error"], 0);
    EXPECT_LT(lossy.json()["relative_error"], 0.05);
    ASSERT_EQ(run_program({"apply", at("base"), at("delta"), "-o", at("near")}).exit_code, 0);
    const Result<model::Checkpoint> near = model::Checkpoint::open(at("near"));
    ASSERT_TRUE(near.ok());
    double largest = 0;
    for (std::size_t i = 0; i < base_.bytes[kHead].size(); i += 4) {
      const double target = load_number(DataType::kFloat32, target_.bytes[kHead].data() + i);
      largest = std::max(largest, std::fabs(target - load_number(DataType::kFloat32,
                                                                 near->bytes(kHead).data() + i)));
    }
    EXPECT_EQ(largest, lossy.json()["largest_error"]);
    EXPECT_TRUE(std::ranges::equal(near->bytes(kSteps), target_.bytes[kSteps]))
        << "integers are exact";
    const ProgramRun inspect = run_program({"inspect", at("delta"), "--json"});
    EXPECT_TRUE(inspect.json()["lossy"]) << inspect.out;
    EXPECT_NE(run_program({"inspect", at("delta")}).out.find("lossy"), std::string::npos);
  }
}

TEST_F(LossyDiff, IsInvertedAndComposedWithItsBase) {
  ASSERT_EQ(diff("target", {"--values", "int8"}).exit_code, 0);
  ASSERT_EQ(run_program({"apply", at("base"), at("delta"), "-o", at("near")}).exit_code, 0);
  ASSERT_EQ(run_program({"invert", at("base"), at("delta"), "-o", at("undo")}).exit_code, 0);
  ASSERT_EQ(run_program({"apply", at("near"), at("undo"), "-o", at("back")}).exit_code, 0);
  test::expect_same(at("back"), at("base"));

  ASSERT_EQ(
      run_program({"diff", at("near"), at("target"), "-o", at("rest"), "--mode", "flat"}).exit_code,
      0);
  const ProgramRun alone = run_program({"compose", at("delta"), at("rest"), "-o", at("all")});
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_NE(alone.err.find("mode added"), std::string::npos) << alone.err;
  EXPECT_NE(alone.err.find("--base"), std::string::npos) << alone.err;
  ASSERT_EQ(run_program({"compose", at("delta"), at("rest"), "-o", at("all"), "--base", at("base")})
                .exit_code,
            0);
  ASSERT_EQ(run_program({"apply", at("base"), at("all"), "-o", at("end")}).exit_code, 0);
  test::expect_same(at("end"), at("target"));
}

TEST_F(LossyDiff, RoundsByItsSeed) {
  const auto delta = [&](const std::string& seed) {
    EXPECT_EQ(diff("target", {"--values", "int8", "--rounding", "stochastic", "--seed", seed}, seed)
                  .exit_code,
              0);
    return test::read_text(at(seed));
  };
  const std::string first = delta("1");
  EXPECT_NE(delta("2"), first);
  EXPECT_EQ(delta("1"), first);
  EXPECT_NE(test::read_text(at("2")), "");
}

TEST_F(LossyDiff, FitsABudgetAndSaysWhatItCannotDo) {
  const ProgramRun fits = diff("target", {"--values", "fp8", "--budget", "800"});
  ASSERT_EQ(fits.exit_code, 0) << fits.err;
  EXPECT_LE(fits.json()["bytes"], 800u);
  EXPECT_EQ(diff("target", {"--values", "int4"}).exit_code, 2);
  EXPECT_EQ(diff("target", {"--seed", "4"}).exit_code, 2);
  test::Tensors integers;
  test::add_tensor(integers, "ids", DataType::kInt32, {100}, 1);
  test::write_model(at("integers"), integers);
  const ProgramRun none =
      run_program({"diff", at("integers"), at("integers"), "-o", at("delta"), "--values", "int8"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_NE(none.err.find("--values: none of the tensors"), std::string::npos) << none.err;
  test::add_tensor(target_, "new", DataType::kFloat32, {10}, 9);
  test::write_model(at("more"), target_);
  const ProgramRun fresh = diff("more", {"--values", "int8"});
  EXPECT_EQ(fresh.exit_code, 1);
  EXPECT_NE(fresh.out.find("tensor 'new' has no base"), std::string::npos) << fresh.out;
}

}  // namespace
}  // namespace sparcl::tool
