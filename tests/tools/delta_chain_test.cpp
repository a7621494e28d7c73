// Deltas in a row as one, and the way back: files and the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/model/files/delta_applier.hpp"
#include "src/model/files/delta_composer.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::tool {
namespace {

using test::run_program;
using test::Tensors;
using ::testing::HasSubstr;

class ComposeFiles : public ::testing::Test {
 protected:
  std::string at(std::string_view name) const { return folder_ / name; }

  // s0 .. s<count>, each a changed copy of the one before, and the deltas d1 .. d<count> between
  // them.
  void make_chain(int count, double density = 0.01, const codec::BlockMode* mode = nullptr) {
    Tensors tensors = test::small_model();
    for (int i = 0; i <= count; ++i) {
      if (i > 0) test::change(tensors, density, 40 + static_cast<std::uint64_t>(i));
      write(tensors, i);
      if (i > 0) diff(i, mode);
    }
  }
  void write(const Tensors& tensors, int i) {
    test::write_model(at(fmt::format("s{}", i)), tensors,
                      {{"format", "pt"}, {"step", std::to_string(97 + i)}});
  }
  void diff(int i, const codec::BlockMode* mode = nullptr) {
    const std::string delta = at(fmt::format("d{}", i));
    const Result<model::DiffReport> report = model::make_delta(
        at(fmt::format("s{}", i - 1)), at(fmt::format("s{}", i)), delta, {.mode = mode});
    ASSERT_TRUE(report.ok()) << report.status().message();
    deltas_.push_back(delta);
  }
  void expect_apply(const std::string& base, const std::string& delta, const std::string& target) {
    const Result<model::Delta> read = model::read_delta(delta);
    ASSERT_TRUE(read.ok());
    const Result<model::ApplyReport> applied = model::apply_delta(base, *read, at("out"));
    ASSERT_TRUE(applied.ok()) << applied.status().message();
    test::expect_same(target, at("out"));
    std::filesystem::remove_all(at("out"));
  }

  std::vector<std::string> deltas_;
  test::TempFolder folder_;
};

TEST_F(ComposeFiles, WithoutTheBaseLeadToTheSameFile) {
  for (const codec::BlockMode* mode :
       {&codec::kFlatMode, &codec::kVerbatimMode, &codec::kDenseMode}) {
    deltas_.clear();
    make_chain(4, 0.01, mode);
    const Result<model::ComposeReport> report = model::compose_deltas(deltas_, at("all"));
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->bytes, std::filesystem::file_size(at("all")));
    EXPECT_LT(report->bytes, report->input_bytes);
    expect_apply(at("s0"), at("all"),
                 at("s4"));  // metadata, too: the step went from 97 over 100 to 101
  }
}

TEST_F(ComposeFiles, WithTheBaseAreTheDeltaOfTheEnds) {
  make_chain(3);
  ASSERT_TRUE(model::make_delta(at("s0"), at("s3"), at("direct")).ok());
  const Result<model::ComposeReport> report =
      model::compose_deltas_on(at("s0"), deltas_, at("all"));
  ASSERT_TRUE(report.ok()) << report.status().message();
  test::expect_same(at("direct"), at("all"));
}

TEST_F(ComposeFiles, TensorsThatComeNeedTheBase) {
  make_chain(1);
  Tensors grown = test::small_model();
  test::add_tensor(grown, "new", DataType::kBfloat16, {70000}, 9);
  write(grown, 2);
  diff(2);
  const Status status = model::compose_deltas(deltas_, at("all")).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_FALSE(std::filesystem::exists(at("all")));
  ASSERT_TRUE(model::compose_deltas_on(at("s0"), deltas_, at("all")).ok());
  expect_apply(at("s0"), at("all"), at("s2"));
}

TEST_F(ComposeFiles, ThereAndBackIsSmall) {
  make_chain(1, 0.02, &codec::kFlatMode);
  ASSERT_TRUE(model::make_delta(at("s1"), at("s0"), at("back"), {.mode = &codec::kFlatMode}).ok());
  deltas_.push_back(at("back"));
  ASSERT_TRUE(model::compose_deltas(deltas_, at("all")).ok());
  EXPECT_LT(std::filesystem::file_size(at("all")), 200u);
  expect_apply(at("s0"), at("all"), at("s0"));
}

TEST_F(ComposeFiles, InvertLeadsBack) {
  make_chain(1);
  const Result<model::Delta> delta = model::read_delta(at("d1"));
  ASSERT_TRUE(delta.ok());
  const Result<model::DiffReport> report = model::invert_delta(at("s0"), *delta, at("back"));
  ASSERT_TRUE(report.ok()) << report.status().message();
  expect_apply(at("s1"), at("back"), at("s0"));
  EXPECT_EQ(model::invert_delta(at("s1"), *delta, at("back2")).status().code(), Code::kWrongBase);
  EXPECT_FALSE(std::filesystem::exists(at("back2")));
}

TEST_F(ComposeFiles, InvertOfFoldersWithOtherTensors) {
  const Tensors base = test::small_model();
  Tensors target = base;
  test::change(target, 0.02, 5);
  test::add_tensor(target, "new", DataType::kInt8, {3000}, 9);
  test::write_shards(at("base"), base, 2);
  test::write_shards(at("target"), target, 3);
  test::write_text(at("base/config.json"), "{\"a\": 1}");
  test::write_text(at("target/config.json"), "{\"a\": 2}");
  ASSERT_TRUE(model::make_delta(at("base"), at("target"), at("delta")).ok());
  const Result<model::Delta> delta = model::read_delta(at("delta"));
  ASSERT_TRUE(delta.ok() && model::invert_delta(at("base"), *delta, at("back")).ok());
  expect_apply(at("base"), at("delta"), at("target"));
  expect_apply(at("target"), at("back"), at("base"));
}

TEST_F(ComposeFiles, TheProgram) {
  make_chain(3, 0.01, &codec::kFlatMode);
  const test::ProgramRun run =
      run_program({"compose", at("d1"), at("d2"), at("d3"), "-o", at("all"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.json()["deltas"], 3);
  EXPECT_EQ(run.json()["bytes"], std::filesystem::file_size(at("all")));
  EXPECT_EQ(run_program({"verify", at("all")}).exit_code, 0);
  EXPECT_EQ(run_program({"inspect", at("all")}).exit_code, 0);
  ASSERT_EQ(run_program({"apply", at("s0"), at("all"), "-o", at("out")}).exit_code, 0);
  test::expect_same(at("s3"), at("out"));
  ASSERT_EQ(run_program({"invert", at("s0"), at("all"), "-o", at("back"), "--json"}).exit_code, 0);
  ASSERT_EQ(run_program({"apply", at("s3"), at("back"), "-o", at("out")}).exit_code, 0);
  test::expect_same(at("s0"), at("out"));

  const test::ProgramRun gap = run_program({"compose", at("d1"), at("d3"), "-o", at("gap")});
  EXPECT_EQ(gap.exit_code, 3);
  EXPECT_THAT(gap.err, HasSubstr("does not follow"));
  EXPECT_EQ(run_program({"compose", at("d1"), at("d2"), "-o", at("d2")}).exit_code,
            1);  // would overwrite
  const test::ProgramRun gap_on_base =
      run_program({"compose", at("d1"), at("d3"), "-o", at("gap"), "--base", at("s0")});
  EXPECT_EQ(gap_on_base.exit_code, 3);
  EXPECT_NE(gap_on_base.err.find("does not follow"), std::string::npos)
      << gap_on_base.err;  // it is not the base that is wrong
  EXPECT_EQ(run_program({"compose", at("s0"), "-o", at("gap")}).exit_code, 3);  // no delta
  EXPECT_EQ(run_program({"compose", "-o", at("gap")}).exit_code, 2);
  EXPECT_EQ(run_program({"invert", at("s1"), at("d1"), "-o", at("gap")}).exit_code, 3);
  EXPECT_FALSE(std::filesystem::exists(at("gap")));
}

TEST_F(ComposeFiles, EveryDamagedByteIsRefusedAndLeavesNothing) {
  make_chain(2, 0.0005, &codec::kFlatMode);
  const std::string good = test::read_text(at("d2"));
  for (std::size_t byte = 0; byte < good.size(); byte += 3) {
    std::string damaged = good;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 0x11);
    test::write_text(at("d2"), damaged);
    const Status status = model::compose_deltas(deltas_, at("all")).status();
    ASSERT_FALSE(status.ok()) << byte;
    ASSERT_FALSE(std::filesystem::exists(at("all"))) << byte;
  }
}

}  // namespace
}  // namespace sparcl::tool
