// A delta that lacks changes says so, everywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/tools/tools_support.hpp"

namespace sparcl::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PartialDelta : public ::testing::Test {
 protected:
  // Changes of 1, 2, ... kChanges, and one of another tensor.
  void SetUp() override {
    Tensors base;
    add_tensor(base, "w", DataType::kFloat32, {1000}, 1);
    add_tensor(base, "v", DataType::kFloat32, {10}, 2);
    for (std::vector<std::byte>& bytes : base.bytes) std::ranges::fill(bytes, std::byte{});
    Tensors target = base;
    for (int i = 0; i < kChanges; ++i)
      set(target, 0, static_cast<std::size_t>(10 * i), static_cast<float>(i + 1));
    set(target, 1, 3, 0.5F);
    write_model(at("base"), base);
    write_model(at("target"), target);
  }
  static void set(Tensors& tensors, std::size_t tensor, std::size_t i, float value) {
    std::memcpy(tensors.bytes[tensor].data() + 4 * i, &value, sizeof value);
  }
  std::string at(std::string_view name) const { return folder_ / name; }
  nlohmann::json diff(std::vector<std::string> options) const {
    options.insert(options.begin(),
                   {"diff", at("base"), at("target"), "-o", at("delta"), "--json"});
    const ProgramRun run = run_program(options);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.json();
  }

  static constexpr int kChanges = 20;
  TempFolder folder_;
};

// By hand: of 0.5, 1, ... 20 the changes up to 12 are left out, or the 16 smallest.
TEST_F(PartialDelta, SaysWhatItLacks) {
  struct Case {
    std::vector<std::string> options;
    std::uint64_t changes;
    double squares, largest;
  };
  for (const Case& each :
       {Case{{"--threshold", "12"}, 13, 650.25, 12}, Case{{"--largest", "5"}, 16, 1240.25, 15},
        Case{{"--only", "v"}, 20, 2870, 20}, Case{{"--only", "w"}, 1, 0.25, 0.5}}) {
    const nlohmann::json json = diff(each.options);
    const std::string what = each.options[0] + " " + each.options[1];
    EXPECT_EQ(json["left_out"]["changes"], each.changes) << what;
    EXPECT_DOUBLE_EQ(json["left_out"]["l2"].get<double>(), std::sqrt(each.squares)) << what;
    EXPECT_EQ(json["left_out"]["largest"], each.largest) << what;
    EXPECT_EQ(json["partial"], true) << what;
    EXPECT_EQ(json["lossy"], true) << what;
    EXPECT_EQ(json["largest_error"], each.largest) << what;
    EXPECT_DOUBLE_EQ(json["relative_error"].get<double>(), std::sqrt(each.squares / 2870.25))
        << what;
    const nlohmann::json seen = run_program({"inspect", at("delta"), "--json"}).json();
    for (const char* key : {"left_out", "partial", "lossy"})
      EXPECT_EQ(seen[key], json[key]) << what << ": " << key;
    EXPECT_THAT(run_program({"inspect", at("delta")}).out,
                HasSubstr(fmt::format("partial: {} changes are left out", each.changes)));
    EXPECT_EQ(run_program({"verify", at("delta")}).exit_code, 0) << what;
    EXPECT_EQ(run_program({"apply", at("base"), at("delta"), "-o", at("out")}).exit_code, 0)
        << what;
  }
}

TEST_F(PartialDelta, AWholeOneSaysThatNothingIsMissing) {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{}, {"--threshold", "0"}, {"--largest", "1000"}}) {
    const nlohmann::json json = diff(options);
    EXPECT_EQ(json["left_out"], (nlohmann::json{{"changes", 0}, {"l2", 0.0}, {"largest", 0.0}}));
    EXPECT_EQ(json["partial"], false);
    EXPECT_EQ(json["lossy"], false);
    const ProgramRun seen = run_program({"inspect", at("delta"), "--json"});
    EXPECT_EQ(seen.json()["partial"], false);
    EXPECT_EQ(seen.json()["lossy"], false);
    EXPECT_THAT(run_program({"inspect", at("delta")}).out, Not(HasSubstr("partial")));
  }
}

TEST_F(PartialDelta, ChangesThatAreNoNumbersAreInfinite) {
  Tensors target;
  add_tensor(target, "w", DataType::kFloat32, {1000}, 1);
  add_tensor(target, "v", DataType::kFloat32, {10}, 2);
  for (std::vector<std::byte>& bytes : target.bytes) std::ranges::fill(bytes, std::byte{});
  set(target, 0, 7, std::nanf(""));
  set(target, 1, 3, 0.5F);
  write_model(at("target"), target);
  const nlohmann::json json = diff({"--only", "v"});
  EXPECT_EQ(json["left_out"],
            (nlohmann::json{{"changes", 1}, {"l2", nullptr}, {"largest", nullptr}}));
  EXPECT_EQ(json["largest_error"], nullptr);
}

// What was left out is a section that older readers skip: it is damaged as all else is.
TEST_F(PartialDelta, ADamagedCountIsFound) {
  diff({"--largest", "5"});
  const std::string text = read_text(at("delta"));
  for (std::size_t i = text.size() - 100; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    write_text(at("damaged"), damaged);
    EXPECT_EQ(run_program({"verify", at("damaged")}).exit_code, 3) << i;
    i += 7;
  }
}

TEST_F(PartialDelta, AWrongBaseOfAForeignFileIsRefused) {
  diff({});
  const auto convert = [&](const std::string& from, const std::string& to,
                           const std::string& layout, const std::string& base) {
    return run_program(
        {"convert", at(from), "-o", at(to), "--to", layout, "--base", at(base), "--json"});
  };
  ASSERT_EQ(convert("delta", "coo", "coo", "base").exit_code, 0);
  ASSERT_EQ(convert("coo", "again", "sparcl", "base").exit_code, 0);
  expect_same(at("delta"), at("again"));
  for (const char* layout : {"sparcl", "indices"}) {
    const ProgramRun wrong = convert("coo", "x", layout, "target");
    EXPECT_EQ(wrong.exit_code, 3) << layout;
    EXPECT_EQ(wrong.json()["error"], "sparclWrongBase") << layout;
    EXPECT_FALSE(fs::exists(at("x"))) << layout;
  }
  EXPECT_EQ(convert("delta", "x", "coo", "target").exit_code, 3);
  // Another program's file does not say what it is for: values that are there already are told.
  const std::string header = R"({"w.indices":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},)"
                             R"("w.values":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})";
  const std::string indices("\1\0\0\0\2\0\0\0", 8), values("\0\0\0\0\0\0\x80\x3f", 8);
  write_text(at("foreign"), file_of(header, indices + values));
  const ProgramRun told = convert("foreign", "x", "sparcl", "base");
  EXPECT_EQ(told.exit_code, 0) << told.err;
  EXPECT_EQ(told.json()["unchanged"], 1);
  EXPECT_THAT(told.err, HasSubstr("1 of 2 values"));
}

}  // namespace
}  // namespace sparcl::test
