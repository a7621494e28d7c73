// Configuration and tokenizer files of a folder travel with its delta.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/model/files/delta_composer.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FolderWithFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const Tensors base = small_model();
    Tensors target = base;
    change(target, 0.01, 3);
    write_shards(at("base"), base, 2);
    write_shards(at("target"), target, 2);
    for (const char* folder : {"base", "target"}) {
      write_text(at(folder) + "/tokenizer.json", "the same in both");
      write_text(at(folder) + "/modeling.py", folder);  // code is nobody's data
      write_text(at(folder) + "/.hidden.json", folder);
    }
    write_text(at("base/config.json"), "{\"layers\": 2}");
    write_text(at("target/config.json"), "{\"layers\": 3}");
    write_text(at("target/generation_config.json"), "{}");
    write_text(at("base/notes.txt"), "of the base alone");
  }
  std::string at(std::string_view name) const { return folder_ / name; }

  TempFolder folder_;
};

TEST_F(FolderWithFiles, TravelWhereTheyChanged) {
  const ProgramRun run =
      run_program({"diff", at("base"), at("target"), "-o", at("delta"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.json()["side_files"], (nlohmann::json{"config.json", "generation_config.json"}));
  ASSERT_EQ(run_program({"apply", at("base"), at("delta"), "-o", at("out")}).exit_code, 0);
  EXPECT_EQ(read_text(at("out/config.json")), "{\"layers\": 3}");
  EXPECT_EQ(read_text(at("out/generation_config.json")), "{}");
  EXPECT_EQ(read_text(at("out/tokenizer.json")),
            "the same in both");  // the base's: a model that can be loaded
  EXPECT_EQ(read_text(at("out/notes.txt")), "of the base alone");
  EXPECT_FALSE(fs::exists(at("out/modeling.py")));
  EXPECT_FALSE(fs::exists(at("out/.hidden.json")));
  const nlohmann::json inspected = run_program({"inspect", at("delta"), "--json"}).json();
  EXPECT_EQ(inspected["side_files"][0]["name"], "config.json");
  EXPECT_THAT(run_program({"inspect", at("delta")}).out, HasSubstr("config.json"));
}

TEST_F(FolderWithFiles, InPlaceTheOthersStay) {
  ASSERT_EQ(run_program({"diff", at("base"), at("target"), "-o", at("delta")}).exit_code, 0);
  ASSERT_EQ(run_program({"apply", at("base"), at("delta"), "-o", at("base")}).exit_code, 0);
  EXPECT_EQ(read_text(at("base/config.json")), "{\"layers\": 3}");
  EXPECT_EQ(read_text(at("base/modeling.py")), "base");
  EXPECT_EQ(read_text(at("base/.hidden.json")), "base");
  EXPECT_EQ(read_text(at("base/notes.txt")), "of the base alone");
}

TEST_F(FolderWithFiles, StayBehindWhereThatIsAsked) {
  ASSERT_EQ(run_program({"diff", at("base"), at("target"), "-o", at("delta"), "--no-side-files"})
                .exit_code,
            0);
  ASSERT_EQ(run_program({"apply", at("base"), at("delta"), "-o", at("out")}).exit_code, 0);
  EXPECT_EQ(read_text(at("out/config.json")), "{\"layers\": 2}");
}

TEST_F(FolderWithFiles, AFolderInTheWayIsRefused) {
  ASSERT_EQ(run_program({"diff", at("base"), at("target"), "-o", at("delta")}).exit_code, 0);
  fs::create_directories(at("out/config.json/deep"));
  const ProgramRun run = run_program({"apply", at("base"), at("delta"), "-o", at("out")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("config.json"));
  EXPECT_TRUE(fs::exists(at("out/config.json/deep")));
  EXPECT_EQ(folder_.count(), 4u);  // base, target, delta, out: nothing unfinished
}

TEST_F(FolderWithFiles, ThatDoNotFitAreNamedWithTheWayOut) {
  std::mt19937_64 random(3);
  std::string noise(9 << 20, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  write_text(at("target/tokenizer.json"), noise);
  const ProgramRun run = run_program({"diff", at("base"), at("target"), "-o", at("delta")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("--no-side-files"));
  EXPECT_FALSE(fs::exists(at("delta")));
}

TEST_F(FolderWithFiles, TheWayBackBringsTheOldOnes) {
  ASSERT_EQ(run_program({"diff", at("base"), at("target"), "-o", at("delta")}).exit_code, 0);
  ASSERT_EQ(run_program({"invert", at("base"), at("delta"), "-o", at("back")}).exit_code, 0);
  ASSERT_EQ(run_program({"apply", at("target"), at("back"), "-o", at("out")}).exit_code, 0);
  EXPECT_EQ(read_text(at("out/config.json")), "{\"layers\": 2}");
}

TEST_F(FolderWithFiles, ComposedDeltasBringTheLast) {
  const Tensors base = small_model();
  write_shards(at("third"), base, 2);
  write_text(at("third/config.json"), "{\"layers\": 4}");
  ASSERT_EQ(
      run_program({"diff", at("base"), at("target"), "-o", at("d1"), "--mode", "flat"}).exit_code,
      0);
  ASSERT_EQ(
      run_program({"diff", at("target"), at("third"), "-o", at("d2"), "--mode", "flat"}).exit_code,
      0);
  ASSERT_EQ(run_program({"compose", at("d1"), at("d2"), "-o", at("all")}).exit_code, 0);
  ASSERT_EQ(run_program({"apply", at("base"), at("all"), "-o", at("out")}).exit_code, 0);
  EXPECT_EQ(read_text(at("out/config.json")), "{\"layers\": 4}");
  EXPECT_EQ(read_text(at("out/generation_config.json")), "{}");
}

}  // namespace
}  // namespace sparcl::test
