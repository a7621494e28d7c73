// Checkpoints with data types that have no numbers here, as MXFP4 and NVFP4 ones have: through
// files, and through the service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/background_program.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OpaqueTypes : public ::testing::Test {
 protected:
  void SetUp() override {
    // Blocks of 32 values of 4 bits with a scale of 8, and what stays in 16 bits.
    add_opaque("layers.0.blocks", "F4", {64, 4096}, 64 * 4096 / 2);
    add_opaque("layers.0.scales", "F8_E8M0", {64, 128}, 64 * 128);
    add_opaque("layers.1.blocks", "F6_E3M2", {16, 512}, 16 * 512 * 6 / 8);
    add_opaque("phase", "C64", {100}, 800);
    add_opaque("later", "F3_E1M1", {7, 11}, 29);
    add_tensor(base_, "norm", DataType::kBfloat16, {4096}, 9);
    target_ = base_;
    change(target_, 0.02, 3);
    write_model(at("1.safetensors"), base_, {{"format", "pt"}});
    write_model(at("2.safetensors"), target_, {{"format", "pt"}});
  }
  void add_opaque(const std::string& name, const std::string& type,
                  const std::vector<std::uint64_t>& shape, std::uint64_t bytes) {
    add_tensor(base_, name, DataType::kUint8, {bytes}, bytes);
    base_.schema.back().shape = shape;
    base_.schema.back().opaque = model::OpaqueType{type, bytes};
  }
  std::string at(std::string_view name) const { return folder_ / name; }

  Tensors base_, target_;
  TempFolder folder_;
};

TEST_F(OpaqueTypes, GoThroughFilesBitForBit) {
  const ProgramRun diff =
      run_program({"diff", at("1.safetensors"), at("2.safetensors"), "-o", at("delta"), "--json"});
  ASSERT_EQ(diff.exit_code, 0) << diff.err;
  EXPECT_LT(diff.json()["bytes"], diff.json()["dense_bytes"].get<std::uint64_t>() / 4);
  ASSERT_EQ(run_program({"apply", at("1.safetensors"), at("delta"), "-o", at("out")}).exit_code, 0);
  expect_same(at("out"), at("2.safetensors"));
  ASSERT_EQ(run_program({"invert", at("1.safetensors"), at("delta"), "-o", at("back")}).exit_code,
            0);
  ASSERT_EQ(run_program({"compose", at("delta"), at("back"), "--base", at("1.safetensors"), "-o",
                         at("none")})
                .exit_code,
            0);
  EXPECT_EQ(run_program({"inspect", at("none"), "--json"}).json()["changed"], 0);
  EXPECT_EQ(
      run_program({"advise", at("1.safetensors"), at("2.safetensors"), "--json"}).json()["bytes"],
      diff.json()["bytes"]);
  for (const char* kind : {"state", "xxh3", "sha256", "identity"})
    EXPECT_EQ(run_program({"hash", at("1.safetensors"), "--kind", kind}).exit_code, 0) << kind;
  const nlohmann::json tensors =
      run_program({"inspect", at("1.safetensors"), "--json"}).json()["tensors"];
  EXPECT_EQ(tensors[0]["dtype"], "F4");
  EXPECT_EQ(tensors[0]["shape"], (nlohmann::json{64, 4096}));
  EXPECT_EQ(tensors[0]["bytes"], 64 * 4096 / 2);
  EXPECT_EQ(tensors[4]["dtype"], "F3_E1M1");
}

// Bytes of one type are no base for another.
TEST_F(OpaqueTypes, AnotherTypeIsAnotherTensor) {
  target_.schema[1].opaque->name = "F8_E4M3FNUZ";
  write_model(at("2.safetensors"), target_, {{"format", "pt"}});
  const ProgramRun diff =
      run_program({"diff", at("1.safetensors"), at("2.safetensors"), "-o", at("delta"), "--json"});
  ASSERT_EQ(diff.exit_code, 0) << diff.err;
  EXPECT_EQ(diff.json()["replaced"], (nlohmann::json{"layers.0.scales"}));
  ASSERT_EQ(run_program({"apply", at("1.safetensors"), at("delta"), "-o", at("out")}).exit_code, 0);
  expect_same(at("out"), at("2.safetensors"));
}

TEST_F(OpaqueTypes, WhatNeedsNumbersIsRefusedByName) {
  for (const std::vector<std::string>& option : {std::vector<std::string>{"--threshold", "1"},
                                                 {"--largest", "1"},
                                                 {"--budget", "100000"},
                                                 {"--grid", "BF16"}}) {
    std::vector<std::string> command{"diff", at("1.safetensors"), at("2.safetensors"), "-o",
                                     at("delta")};
    command.insert(command.end(), option.begin(), option.end());
    const ProgramRun run = run_program(command);
    EXPECT_EQ(run.exit_code, 1) << option[0];
    EXPECT_THAT(run.err, AllOf(HasSubstr("layers.0.blocks"), HasSubstr("F4 [64, 4096]"),
                               HasSubstr("--only")))
        << option[0];
    command.insert(command.end(), {"--only", "norm"});
    EXPECT_EQ(run_program(command).exit_code, 0) << option[0];
  }
  ASSERT_EQ(
      run_program({"diff", at("1.safetensors"), at("2.safetensors"), "-o", at("delta")}).exit_code,
      0);
  const ProgramRun convert = run_program(
      {"convert", at("delta"), "--to", "coo", "--base", at("1.safetensors"), "-o", at("coo")});
  EXPECT_EQ(convert.exit_code, 1);
  EXPECT_THAT(convert.err, HasSubstr("layouts of other programs have no place"));
}

TEST_F(OpaqueTypes, ArePublished) {
  BackgroundProgram publisher({"publish", "--listen", "127.0.0.1:0", "--interval", "0.2",
                               at("1.safetensors"), at("2.safetensors")});
  const std::string address = publisher.address();
  BackgroundProgram subscriber({"subscribe", address, "--out", at("out"), "--until", "2"});
  EXPECT_EQ(subscriber.exit_code(), 0) << subscriber.err();
  expect_same(at("out"), at("2.safetensors"));
  const ProgramRun part = run_program(
      {"subscribe", address, "--out", at("part"), "--until", "2", "--tensors", "layers.*"});
  EXPECT_EQ(part.exit_code, 0) << part.err;
  EXPECT_EQ(run_program({"inspect", at("part"), "--json"}).json()["tensors"][0]["dtype"], "F4");
  const ProgramRun slice =
      run_program({"subscribe", address, "--out", at("slice"), "--slice", "layers.0.blocks:0:0/2"});
  EXPECT_EQ(slice.exit_code, 1);
  EXPECT_THAT(slice.err, AllOf(HasSubstr("layers.0.blocks"), HasSubstr("kept whole")));
  EXPECT_EQ(publisher.end_by(SIGTERM), 0);
}

}  // namespace
}  // namespace sparcl::test
