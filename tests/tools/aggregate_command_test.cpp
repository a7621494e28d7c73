// `sparcl aggregate`: its command line, what it says, and who takes over. Its rounds with workers:
// tests/elastic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/tools/training_program.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> aggregate(const std::string& model, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"aggregate", "--model", model});
  return more;
}

TEST(AggregateCommand, WrongOptionsAreNamed) {
  Training training;
  const std::string model = training.write_up_to(1)[0];
  const struct {
    std::vector<std::string> options;
    const char* text;
  } kBad[] = {
      {{"--mean", "median"}, "'median' is none of by-weight, contributors, sum, workers"},
      {{"--round", "fast"}, "'fast' is none of asynchronous, quorum, synchronous"},
      {{"--clip-l2", "-1"}, "'-1' is no finite number from 0 on"},
      {{"--outer", "sgd", "--momentum", "nan"}, "'nan' is no finite number from 0 on"},
      {{"--momentum", "0.9"}, "--momentum requires --outer"},
      {{"--quorum", "3"}, "--quorum requires --round"},
      {{"--listen", "0.0.0.0:0"}, "--insecure"},
      {{"--publish", "0.0.0.0:0"}, "--insecure"},
      {{"--state", ""}, "the name is empty"},
      {{"--rounds", "x"}, "--rounds: 'x' is no number"},
      {{"--deadline", "1e300"}, "at most 1e+08"},
      {{"--parent", "h:1,nowhere"}, "'nowhere' is no HOST:PORT"},
      {{"--parent", "h:1", "--state", "x"}, "--parent"},
  };
  for (const auto& bad : kBad) {
    const ProgramRun run = run_program(aggregate(model, bad.options));
    EXPECT_EQ(run.exit_code, 2) << bad.text;
    EXPECT_THAT(run.err, HasSubstr(bad.text));
  }
  EXPECT_THAT(run_program(aggregate(model, {"--outer", "sgd", "--momentum", "2"})).err,
              HasSubstr("less than 1"));
  EXPECT_THAT(run_program(aggregate(training / "none")).err, HasSubstr("cannot be opened"));
}

TEST(AggregateCommand, ServesItsModelAndSaysItsStatus) {
  Training training;
  const std::string model = training.write_up_to(1)[0];
  BackgroundProgram aggregator(
      aggregate(model, {"--output", training / "last", "--metrics", "127.0.0.1:0"}));
  const nlohmann::json first = aggregator.line_with("results", nullptr);
  ASSERT_TRUE(first.is_object()) << aggregator.err();
  EXPECT_EQ(first["round"], 1);
  EXPECT_TRUE(aggregator.says("metrics at http://127.0.0.1:"));
  const std::string address = first["address"];
  const ProgramRun status = run_program({"status", address});
  EXPECT_EQ(status.exit_code, 0) << status.err;
  EXPECT_THAT(status.out, AllOf(HasSubstr("round 1 is open"), HasSubstr("no worker is connected")));
  EXPECT_EQ(run_program({"status", address, "--json"}).json()["committed"], 0);
  BackgroundProgram replica(subscribe(first["results"], training / "copy", {"--until", "1"}));
  EXPECT_EQ(replica.exit_code(), 0) << replica.err();
  expect_same(training / "copy", model);
  EXPECT_EQ(aggregator.end_by(SIGTERM), 0) << aggregator.err();
  expect_same(training / "last", model);
}

// With a secret: a branch has the root's own.
TEST(AggregateCommand, OneWithAParentHasItsRound) {
  Training training;
  const std::string model = training.write_up_to(1)[0], secret = training / "run.secret";
  ASSERT_EQ(run_program({"secret", "-o", secret}).exit_code, 0);
  BackgroundProgram root(aggregate(model, {"--secret", secret}));
  const std::string parent = root.line_with("results", nullptr)["address"];
  BackgroundProgram branch(aggregate(model, {"--parent", parent, "--secret", secret}));
  const nlohmann::json first = branch.line_with("parent", nullptr);
  ASSERT_TRUE(first.is_object()) << branch.err();
  const auto status_with = [&](const std::string& text) {
    ProgramRun status;
    for (int i = 0; i < 100; ++i) {
      status = run_program({"status", first["address"], "--secret", secret + ".observe"});
      if (status.out.find(text) != std::string::npos) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return status.out;
  };
  EXPECT_THAT(status_with("round 1 is open"),
              AllOf(HasSubstr("round 1 is open"), HasSubstr("sums go to")));
  const ProgramRun weaker =
      run_program(aggregate(model, {"--parent", parent, "--secret", secret + ".replicate"}));
  EXPECT_EQ(weaker.exit_code, 3) << weaker.err;
  EXPECT_EQ(root.end_by(SIGTERM), 0) << root.err();
  EXPECT_THAT(status_with("no connection"), HasSubstr("no connection to the parent"));
  EXPECT_EQ(branch.end_by(SIGTERM), 0) << branch.err();
}

TEST(AggregateCommand, AnotherProcessTakesOver) {
  Training training;
  const std::string model = training.write_up_to(1)[0], state = training / "rounds";
  BackgroundProgram first(aggregate(model, {"--state", state}));
  ASSERT_TRUE(first.line_with("results", nullptr).is_object()) << first.err();
  const ProgramRun other = run_program(aggregate(model, {"--state", state, "--outer", "sgd"}));
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_THAT(other.err, HasSubstr("other options of the aggregator"));
  const ProgramRun renamed =
      run_program(aggregate(model, {"--state", state, "--model-id", "another"}));
  EXPECT_EQ(renamed.exit_code, 3);
  EXPECT_THAT(renamed.err, HasSubstr("its rounds are of the model '', and this one is 'another'"));
  EXPECT_FALSE(first.has_ended());
  BackgroundProgram second(aggregate(model, {"--state", state}));
  ASSERT_TRUE(second.line_with("results", nullptr).is_object()) << second.err();
  EXPECT_EQ(first.exit_code(), 1);
  EXPECT_THAT(first.err(), HasSubstr("another aggregator has taken over"));
  EXPECT_EQ(second.end_by(SIGTERM), 0) << second.err();
}

}  // namespace
}  // namespace sparcl::test
