// `sparcl diff --threshold ...`: what is left out comes with the next delta.

#include <gtest/gtest.h>

#include "src/base/number.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::tool {
namespace {

using test::ProgramRun;
using test::run_program;

class ChangeSelectionOfDiff : public testing::Test {
 protected:
  ChangeSelectionOfDiff() {
    base_ = test::small_model();
    const std::size_t width = 2;
    for (std::size_t i = 0; i < base_.bytes[0].size(); i += width) {
      store_number(DataType::kBfloat16, 1.0 + static_cast<double>(i % 128) / 128,
                   base_.bytes[0].data() + i);
    }
    target_ = base_;
    for (std::size_t i = 0; i < 4000 * width; i += width) {
      const double step = i % 10 == 0 ? 0.5 : 1.0 / 64;
      std::byte* at = target_.bytes[0].data() + 5 * i;
      store_number(DataType::kBfloat16, load_number(DataType::kBfloat16, at) + step, at);
    }
    target_.bytes[1][1] ^= std::byte{1};  // "norm"
    test::write_model(at("base"), base_);
    test::write_model(at("target"), target_);
  }
  std::string at(const std::string& name) const { return folder_ / name; }

  // Changes of the delta with these options; applied it is the base of a second delta, without
  // options, that leads to the target.
  std::uint64_t changes_of(std::vector<std::string> options) {
    options.insert(options.begin(),
                   {"diff", at("base"), at("target"), "-o", at("delta"), "--json"});
    const ProgramRun diff = run_program(options);
    EXPECT_EQ(diff.exit_code, 0) << diff.out << diff.err;
    EXPECT_EQ(run_program({"apply", at("base"), at("delta"), "-o", at("middle")}).exit_code, 0);
    const ProgramRun rest =
        run_program({"diff", at("middle"), at("target"), "-o", at("rest"), "--json"});
    EXPECT_EQ(rest.exit_code, 0) << rest.err;
    EXPECT_EQ(run_program({"apply", at("middle"), at("rest"), "-o", at("end")}).exit_code, 0);
    EXPECT_EQ(test::read_text(at("end")), test::read_text(at("target")));
    bytes_ = diff.json()["bytes"];
    const std::uint64_t changed = diff.json()["changed"];
    EXPECT_EQ(changed + rest.json()["changed"].get<std::uint64_t>(), 4001u);
    return changed;
  }

  test::TempFolder folder_;
  test::Tensors base_;
  test::Tensors target_;
  std::uint64_t bytes_ = 0;
};

TEST_F(ChangeSelectionOfDiff, TakesThresholdLargestGridAndTensors) {
  EXPECT_EQ(changes_of({}), 4001u);
  EXPECT_EQ(changes_of({"--threshold", "0.1", "--only", "embed"}), 800u);
  EXPECT_EQ(changes_of({"--only", "nor*"}), 1u);
  EXPECT_EQ(changes_of({"--largest", "100"}), 100u);
  const std::uint64_t coarse = changes_of({"--grid", "F8_E5M2"});
  EXPECT_GT(coarse, 100u);
  EXPECT_LT(coarse, 3000u);
}

TEST_F(ChangeSelectionOfDiff, FitsABudget) {
  const std::uint64_t changed = changes_of({"--budget", "2kb"});
  EXPECT_GT(changed, 500u);
  EXPECT_LE(bytes_, 2000u);
}

TEST_F(ChangeSelectionOfDiff, SaysWhatItCannotDo) {
  const ProgramRun tiny =
      run_program({"diff", at("base"), at("target"), "-o", at("delta"), "--budget", "10"});
  EXPECT_EQ(tiny.exit_code, 1);
  EXPECT_NE(tiny.err.find("a budget of 10 bytes"), std::string::npos) << tiny.err;
  const ProgramRun nothing =
      run_program({"diff", at("base"), at("target"), "-o", at("delta"), "--only", "layers.*"});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_NE(nothing.err.find("names no tensor"), std::string::npos) << nothing.err;
  EXPECT_EQ(
      run_program({"diff", at("base"), at("target"), "-o", at("delta"), "--grid", "I64"}).exit_code,
      2);
  EXPECT_EQ(run_program({"diff", at("base"), at("target"), "-o", at("delta"), "--largest", "3",
                         "--threshold", "1"})
                .exit_code,
            2);
  test::add_tensor(target_, "new", DataType::kBfloat16, {10}, 9);
  test::write_model(at("target"), target_);
  const ProgramRun fresh =
      run_program({"diff", at("base"), at("target"), "-o", at("delta"), "--largest", "3"});
  EXPECT_EQ(fresh.exit_code, 1);
  EXPECT_NE(fresh.err.find("tensor 'new' has no base"), std::string::npos) << fresh.err;
}

}  // namespace
}  // namespace sparcl::tool
