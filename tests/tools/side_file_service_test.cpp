// `sparcl subscribe` to a folder: the files beside the shards travel, and engines take the folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/tools/engine_stub.hpp"
#include "tests/tools/training_program.hpp"

namespace sparcl::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// A trainer that writes one folder a version.
class FolderTraining : public testing::Test {
 protected:
  using Files = std::map<std::string, std::string>;

  void SetUp() override { fs::create_directory(watched()); }
  std::string watched() const { return folder_ / "watched"; }
  std::string at(int step) const { return fmt::format("{}/step-{}", watched(), step); }
  std::string out() const { return folder_ / "out"; }
  void write(int step, const Files& files, bool changes_weights = true) {
    if (step > 1 && changes_weights) change(tensors_, 0.01, static_cast<std::uint64_t>(step));
    write_shards(folder_ / "unfinished", tensors_, 3);
    for (const auto& [name, text] : files) write_text(folder_ / "unfinished/" + name, text);
    fs::rename(folder_ / "unfinished", at(step));
  }
  std::vector<std::string> follow(const std::string& address, std::vector<std::string> more = {}) {
    return subscribe(address, out(), std::move(more));
  }

  TempFolder folder_;
  Tensors tensors_ = small_model();
};

const std::map<std::string, std::string> kFirst{{"config.json", R"({"layers": 2})"},
                                                {"tokenizer.json", "words"},
                                                {"chat_template.jinja", "{{ messages }}"}};

TEST_F(FolderTraining, AFolderIsReplacedWholeWithConfigurationAndTokenizer) {
  const EngineStub engine;
  write(1, kFirst);
  BackgroundProgram publisher(publish({"--watch", watched()}));
  BackgroundProgram subscriber(
      follow(publisher.address(),
             {"--notify", "sglang:" + engine.url(), "--notify",
              "exec:cp \"$SUBSCRIBED_FILE/config.json\" '" + folder_ / "seen" + "'"}));
  ASSERT_FALSE(subscriber.line_with("notified_version", 1).is_null()) << subscriber.err();
  expect_same(out(), at(1));
  write_text(out() + "/notes.py", "the user's");

  auto second = kFirst;
  second["config.json"] = R"({"layers": 3})";
  second.erase("chat_template.jinja");
  write(2, second);
  ASSERT_FALSE(subscriber.line_with("notified_version", 2).is_null()) << subscriber.err();
  EXPECT_EQ(read_text(out() + "/config.json"), R"({"layers": 3})");
  EXPECT_EQ(read_text(out() + "/notes.py"), "the user's");
  EXPECT_FALSE(fs::exists(out() + "/chat_template.jinja")) << "a leftover of version 1";
  EXPECT_TRUE(soon([&] { return engine.state()["version"] == "2"; }));
  EXPECT_EQ(engine.state()["files"]["config.json"], R"({"layers": 3})");
  EXPECT_TRUE(engine.state()["wrong"].empty());

  // The same weights with another tokenizer are a version, too.
  second["tokenizer.json"] = "other words";
  write(3, second, false);
  ASSERT_FALSE(subscriber.line_with("notified_version", 3).is_null()) << subscriber.err();
  EXPECT_EQ(read_text(out() + "/tokenizer.json"), "other words");
  EXPECT_TRUE(soon([&] { return fs::exists(folder_ / "seen"); }));
  EXPECT_EQ(subscriber.end_by(SIGTERM), 0);
}

TEST_F(FolderTraining, AFolderOfBeforeIsBroughtUpToDate) {
  write(1, kFirst);
  write(2, {{"config.json", "{}"}});
  BackgroundProgram publisher(publish({"--watch", watched()}));
  ASSERT_FALSE(publisher.version(2).is_null()) << publisher.err();
  fs::copy(at(1), out());
  BackgroundProgram warned(follow(publisher.address(), {"--until", "2"}));
  EXPECT_EQ(warned.exit_code(), 0) << warned.err();
  EXPECT_EQ(read_text(out() + "/config.json"), "{}");
  EXPECT_THAT(warned.err(),
              HasSubstr("files that the publisher does not have, and engines may read them: "
                        "chat_template.jinja, tokenizer.json"));
  fs::remove_all(out());
  fs::copy(at(1), out());
  BackgroundProgram replacing(follow(publisher.address(), {"--until", "2", "--replace"}));
  EXPECT_EQ(replacing.exit_code(), 0) << replacing.err();
  expect_same(out(), at(2));
}

TEST_F(FolderTraining, AnEngineThatRefusesKeepsItsVersionAndIsReported) {
  const EngineStub engine;
  engine.hurt({{"path", "/update_weights_from_disk"},
               {"status", 400},
               {"body", R"({"success": false, "message": "no memory"})"}});
  write(1, kFirst);
  BackgroundProgram publisher(publish({"--watch", watched()}));
  const std::string target = "sglang:" + engine.url();
  BackgroundProgram refused(
      follow(publisher.address(), {"--until", "1", "--notify", target, "--notify-timeout", "20"}));
  EXPECT_EQ(refused.exit_code(), 1);
  expect_same(out(), at(1));
  EXPECT_THAT(refused.err(),
              AllOf(HasSubstr("--notify " + target +
                              ": version 1: POST /update_weights_from_disk: "
                              "HTTP 400: no memory"),
                    HasSubstr("serves version initial"), HasSubstr("1 of 1 targets")));
  EXPECT_EQ(refused.line_with("notified_version", 1)["taken"], false);
  EXPECT_EQ(engine.state()["is_paused"], false);
  BackgroundProgram taken(follow(publisher.address(), {"--until", "1", "--notify", target}));
  EXPECT_EQ(taken.exit_code(), 0) << taken.err();
  EXPECT_EQ(engine.state()["version"], "1");
}

// The version before stays on the disk until the engine has taken the next one.
TEST_F(FolderTraining, AnEngineThatFailsMidwayReadsTheVersionBeforeAgain) {
  const EngineStub engine;
  write(1, kFirst);
  BackgroundProgram publisher(publish({"--watch", watched()}));
  BackgroundProgram subscriber(
      follow(publisher.address(), {"--until", "2", "--notify", "vllm:" + engine.url()}));
  ASSERT_FALSE(subscriber.line_with("notified_version", 1).is_null()) << subscriber.err();
  engine.hurt({{"path", "/collective_rpc"}, {"status", 500}});
  write(2, {{"config.json", "{}"}});
  EXPECT_EQ(subscriber.exit_code(), 1);
  EXPECT_THAT(subscriber.err(), HasSubstr("it has read version 1 again"));
  const json state = engine.state();
  EXPECT_EQ(state["version"], "1");
  EXPECT_EQ(state["files"]["config.json"], kFirst.at("config.json"));
  for (const auto& each : fs::directory_iterator(folder_.path()))
    EXPECT_FALSE(each.path().filename().string().starts_with(".out.")) << each.path();
}

}  // namespace
}  // namespace sparcl::test
