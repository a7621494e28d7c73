// Engines are told of a version (--notify): the requests, and what an engine that fails leaves.
#include "tools/sparcl/engine_notice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/engine_stub.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::tool {
namespace {

using test::EngineStub;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class EngineNotices : public testing::Test {
 protected:
  void SetUp() override {
    test::write_shards(folder(), test::small_model(), 3);
    test::write_text(folder() + "/config.json", "{}");
  }
  std::string folder() const { return folder_ / "model"; }

  // Of one target: what it prints, and how many targets failed.
  struct Told {
    int failures = -1;
    std::string out, err;
  };
  Told tell(const std::string& target, std::uint64_t version, double timeout_s = 20) {
    if (notice_ == nullptr) {
      Result<std::unique_ptr<EngineNotice>> made =
          EngineNotice::open({{*EngineTarget::parse(target)}, timeout_s});
      EXPECT_TRUE(made.ok()) << made.status().message();
      notice_ = std::move(*made);
    }
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Told told;
    told.failures = notice_->tell_all({version, folder()}, previous_, true);
    told.out = testing::internal::GetCapturedStdout();
    told.err = testing::internal::GetCapturedStderr();
    return told;
  }

  test::TempFolder folder_;
  EngineStub engine_;
  std::unique_ptr<EngineNotice> notice_;
  std::optional<EngineNotice::Version> previous_;
};

TEST_F(EngineNotices, VllmPausesReadsTheFolderAndResumes) {
  const Told told = tell("vllm:" + engine_.url() + "/", 7);
  EXPECT_EQ(told.failures, 0) << told.err;
  EXPECT_THAT(engine_.asked(), ElementsAre("/pause?mode=wait", "/collective_rpc",
                                           "/update_weight_version", "/resume"));
  const nlohmann::json state = engine_.state();
  EXPECT_EQ(state["version"], "7");
  EXPECT_EQ(state["is_paused"], false);
  EXPECT_TRUE(state["wrong"].empty()) << state.dump();
  EXPECT_EQ(state["requests"][1][1]["kwargs"]["weights_path"], folder());
  const nlohmann::json line = nlohmann::json::parse(told.out);
  EXPECT_EQ(line["notified_version"], 7);
  EXPECT_EQ(line["taken"], true);
}

TEST_F(EngineNotices, VllmTakesItByItsTransferBackendWhereThatIsAsked) {
  const std::string target = "vllm:" + engine_.url() + "?update=transfer&mode=keep";
  EXPECT_EQ(tell(target, 7).failures, 0);
  EXPECT_THAT(engine_.asked(), ElementsAre("/pause?mode=keep", "/start_weight_update",
                                           "/update_weights", "/finish_weight_update", "/resume"));
  engine_.hurt({{"path", "/update_weights"}, {"status", 500}});
  EXPECT_EQ(tell(target, 8).failures, 1);
  EXPECT_EQ(engine_.state()["version"], "7");
  EXPECT_EQ(tell(target, 9).failures, 0) << "the update that failed is over";
  EXPECT_EQ(engine_.state()["version"], "9");
}

TEST_F(EngineNotices, SglangPausesReadsTheFolderAndContinues) {
  EXPECT_EQ(tell("sglang:" + engine_.url(), 3).failures, 0);
  EXPECT_THAT(engine_.asked(), ElementsAre("/pause_generation", "/update_weights_from_disk",
                                           "/continue_generation"));
  const nlohmann::json state = engine_.state();
  EXPECT_EQ(state["version"], "3");
  EXPECT_EQ(state["requests"][0][1]["mode"], "retract");
  EXPECT_EQ(state["requests"][1][1]["model_path"], folder());
}

// Whatever fails, the engine goes on, and the warning says what it serves.
TEST_F(EngineNotices, ARefusedUpdateLeavesTheOldVersionServing) {
  const std::string target = "sglang:" + engine_.url();
  EXPECT_EQ(tell(target, 3).failures, 0);
  engine_.hurt({{"path", "/update_weights_from_disk"},
                {"status", 200},
                {"body", R"({"success": false, "message": "no memory\u001b[31m\nforged"})"}});
  const Told told = tell(target, 4);
  EXPECT_EQ(told.failures, 1);
  EXPECT_EQ(notice_->failed(), 1U);
  EXPECT_THAT(told.err, AllOf(HasSubstr(target), HasSubstr("version 4: POST /update_weights_from"),
                              HasSubstr("HTTP 200: no memory\\x1b[31m\\x0aforged"),
                              HasSubstr("it says that it serves version 3"),
                              HasSubstr("told again with the next version")));
  EXPECT_EQ(nlohmann::json::parse(told.out)["taken"], false);
  EXPECT_EQ(engine_.state()["is_paused"], false);
  EXPECT_EQ(engine_.state()["version"], "3");
  EXPECT_EQ(tell(target, 5).failures, 0);
  EXPECT_EQ(engine_.state()["version"], "5");
}

// Engines keep no copy of their old weights.
TEST_F(EngineNotices, AnUpdateThatFailsMidwayIsUndoneFromTheDisk) {
  const std::string target = "vllm:" + engine_.url();
  fs::copy(folder(), folder_ / "previous");
  previous_ = {3, folder_ / "previous"};
  engine_.hurt({{"path", "/collective_rpc"}, {"status", 500}, {"body", "out of memory"}});
  EXPECT_THAT(tell(target, 4).err,
              AllOf(HasSubstr("HTTP 500: out of memory; it has read version 3 again"),
                    HasSubstr("it says that it serves version 3")));
  const nlohmann::json state = engine_.state();
  EXPECT_EQ(state["requests"][2][1]["kwargs"]["weights_path"], folder_ / "previous");
  EXPECT_EQ(state["is_paused"], false);
  engine_.hurt({{"path", "/collective_rpc"}, {"status", 500}, {"count", 2}});
  EXPECT_THAT(tell(target, 5).err, HasSubstr("not read version 3 again either"));
}

TEST_F(EngineNotices, ARequestThatHangsEndsAndTheEngineResumes) {
  engine_.hurt({{"path", "/collective_rpc"}, {"hang_s", 30}});
  const Told told = tell("vllm:" + engine_.url(), 4, 0.4);
  EXPECT_EQ(told.failures, 1);
  EXPECT_THAT(told.err, AllOf(HasSubstr("POST /collective_rpc"), HasSubstr("the limit is 0.4 s"),
                              HasSubstr("it says that it serves version initial")));
  EXPECT_EQ(engine_.asked().back(), "/resume");
  EXPECT_EQ(engine_.state()["is_paused"], false);
}

TEST_F(EngineNotices, AnEngineThatStaysPausedIsNamed) {
  engine_.hurt({{"path", "/resume"}, {"status", 503}, {"body", "busy"}});
  const Told told = tell("vllm:" + engine_.url(), 4);
  EXPECT_EQ(told.failures, 1);
  EXPECT_THAT(told.err, HasSubstr("it may stay paused until POST " + engine_.url() +
                                  "/resume is answered (POST /resume: HTTP 503: busy)"));
}

TEST_F(EngineNotices, AnEngineThatKeepsNoVersionsOrHasNoEndpointsIsTold) {
  const std::string target = "vllm:" + engine_.url();
  engine_.hurt({{"path", "/update_weight_version"}, {"status", 404}});
  EXPECT_EQ(tell(target, 4).failures, 0) << "older engines have no such endpoint";
  engine_.hurt({{"path", "/pause"}, {"status", 404}});
  EXPECT_THAT(tell(target, 5).err, HasSubstr("VLLM_SERVER_DEV_MODE=1"));
}

TEST_F(EngineNotices, ACommandIsRunAndMayFail) {
  const Told told =
      tell("exec:test \"$SUBSCRIBED_VERSION\" = 6 && test -e \"$SUBSCRIBED_FILE/config.json\"", 6);
  EXPECT_EQ(told.failures, 0) << told.err;
  EXPECT_EQ(tell("", 7).failures, 1);
}

TEST(EngineKey, IsSentAndNeverShown) {
  const EngineStub engine("key-of-the-test");
  const test::TempFolder folder;
  const std::string target = "sglang:" + engine.url();
  const auto tell = [&] {
    const Result<std::unique_ptr<EngineNotice>> notice =
        EngineNotice::open({{*EngineTarget::parse(target)}, 20});
    if (!notice.ok()) return notice.status().message();
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    (void)(*notice)->tell_all({1, folder / "none"}, {}, false);
    return testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(tell(), AllOf(HasSubstr("HTTP 401"), HasSubstr("SPARCL_ENGINE_API_KEY")));
  ::setenv("SPARCL_ENGINE_API_KEY", "key-of-the-test", 1);
  EXPECT_THAT(tell(), AllOf(HasSubstr("HTTP 400"), Not(HasSubstr("key-of-the-test"))));
  ::setenv("SPARCL_ENGINE_API_KEY", "two\r\nlines", 1);
  EXPECT_THAT(tell(), AllOf(HasSubstr("is no key"), Not(HasSubstr("lines"))));
  ::unsetenv("SPARCL_ENGINE_API_KEY");
}

TEST(EngineTargets, ThatDoNotFitAreUsageErrors) {
  const std::pair<const char*, const char*> cases[] = {
      {"http://h:1", "give vllm:URL, sglang:URL or exec:CMD"},
      {"vllm:h:1", "give http://HOST:PORT"},
      {"vllm:http://", "give http://HOST:PORT"},
      {"vllm:http://h:port", "names no host and port"},
      {"vllm:http://h:1/a b", "names no host and port"},
      {"sglang:http://user:word@h:1", "SPARCL_ENGINE_API_KEY"},
      {"sglang:http://h:1?mode=wait", "give one of retract, abort, in_place"},
      {"sglang:http://h:1?update=reload", "give mode=WORD"},
      {"vllm:http://h:1?mode", "has no value"},
      {"exec:", "has no command"}};
  for (const auto& [text, why] : cases) {
    const Result<EngineTarget> parsed = EngineTarget::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(parsed.status().message(), HasSubstr(why));
  }
  EXPECT_EQ(EngineTarget::parse("vllm:http://[::1]:80/base/")->url, "http://[::1]:80/base");
  EXPECT_EQ(EngineTarget::parse("vllm:https://h")->mode, "wait");
  const test::ProgramRun run =
      test::run_program({"subscribe", "h:1", "--out", "x", "--notify", "vllm:h:1"});
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("--notify"));
}

}  // namespace
}  // namespace sparcl::tool
