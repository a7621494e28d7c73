// `sparcl store restore` and `sparcl subscribe URL` of a part of a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "src/model/checkpoint.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/tools/background_program.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::test {
namespace {

using ::testing::HasSubstr;

class StorePart : public testing::Test {
 protected:
  StorePart() {
    add_tensor(tensors_, "up", DataType::kBfloat16, {4096, 2048}, 1);
    add_tensor(tensors_, "norm", DataType::kFloat32, {500}, 2);
  }
  std::string at(std::string_view name) const { return folder_ / name; }
  void publish(const std::string& name) {
    change(tensors_, 0.001, ++seed_);
    write_model(at(name), tensors_);
    const ProgramRun run = run_program({"publish", at(name), "--store", url_});
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }
  // Rows [512, 1024) of `up`, and all of the other tensor if it is there.
  void expect_part(const std::string& name, std::size_t tensors) {
    const auto held = model::Checkpoint::open(at(name));
    ASSERT_TRUE(held.ok()) << held.status().message();
    ASSERT_EQ(held->schema().size(), tensors);
    for (std::size_t i = 0; i < tensors; ++i) {
      const bool is_up = held->schema()[i].name == "up";
      const std::span<const std::byte> whole(tensors_.bytes[is_up ? 0 : 1]);
      const std::size_t eighth = tensors_.bytes[0].size() / 8;
      EXPECT_TRUE(std::ranges::equal(held->bytes(i), is_up ? whole.subspan(eighth, eighth) : whole))
          << held->schema()[i].name;
    }
  }

  TempFolder folder_;
  std::string url_ = "file:" + (folder_ / "store");
  Tensors tensors_;
  std::uint64_t seed_ = 0;
};

TEST_F(StorePart, RestoreReadsAPartOfTheAnchor) {
  publish("1.safetensors");
  const nlohmann::json restored =
      run_program({"store", "restore", url_, "-o", at("p.safetensors"), "--slice", "^up$:0:1/8",
                   "--tensors", "up", "--json"})
          .json();
  EXPECT_EQ(restored["version"], 1);
  EXPECT_EQ(restored["source"], "anchor");
  EXPECT_EQ(restored["bytes_dense"], 4096 * 2048 * 2 / 8);
  EXPECT_LT(restored["bytes"].get<double>(), 0.4 * 4096 * 2048 * 2);
  expect_part("p.safetensors", 1);
  for (const auto& [choice, says] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--tensors", "gate"}, "--tensors gate: no tensor has such a name"},
           {{"--slice", "up:0"}, "'up:0' is no slice"},
           {{"--slice", "up:0:0/5"}, "cannot be cut into 5 equal parts"}}) {
    std::vector<std::string> arguments{"store", "restore", url_, "-o", at("other.safetensors")};
    arguments.insert(arguments.end(), choice.begin(), choice.end());
    const ProgramRun run = run_program(arguments);
    EXPECT_NE(run.exit_code, 0);
    EXPECT_THAT(run.err, HasSubstr(says));
    EXPECT_FALSE(fs::exists(at("other.safetensors")));
  }
}

TEST_F(StorePart, AFollowerReadsDeltas) {
  publish("1.safetensors");
  BackgroundProgram follower({"subscribe", url_, "-o", at("f.safetensors"), "--poll", "0.05",
                              "--until", "2", "--slice", "^up$:0:1/8"});
  EXPECT_EQ(follower.version(1)["source"], "anchor") << follower.err();
  publish("2.safetensors");
  EXPECT_EQ(follower.exit_code(), 0) << follower.err();
  EXPECT_EQ(follower.version(2)["source"], "delta");
  expect_part("f.safetensors", 2);
}

}  // namespace
}  // namespace sparcl::test
