// `sparcl status` on processes that hang, are stopped, or were killed in the middle of a broadcast.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/own_shared_memory.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Turns until `done` says so; a test that waits in vain fails by what it asks next.
template <class Done>
bool eventually(Done&& done) {
  for (int i = 0; i < 600; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

class Victim {
 public:
  explicit Victim(const char* how = "", const std::vector<std::string>& environment = {}) {
    child_ = ::fork();
    if (child_ != 0) return;
    for (const std::string& each : environment) ::putenv(::strdup(each.c_str()));
    for (const char* tests_own : {"SPARCL_TRACE", "SPARCL_TEST_LONG"}) ::unsetenv(tests_own);
    const int out = ::open((folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err =
        ::open((folder_ / "err").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    ::execl(SPARCL_FLIGHT_VICTIM, "flight_victim", how, nullptr);
    ::_exit(127);
  }
  ~Victim() {
    if (child_ > 0 && !ended_) end_by(SIGKILL);
    (void)run_program({"status", pid(), "--remove"});
  }

  std::string pid() const { return std::to_string(child_); }
  std::string out() const { return read_text(folder_ / "out"); }
  std::string err() const { return read_text(folder_ / "err"); }
  void signal(int number) const { ::kill(child_, number); }
  int wait() {
    if (!ended_) ::waitpid(child_, &status_, 0);
    ended_ = true;
    return status_;
  }
  bool has_ended() {
    ended_ = ended_ || ::waitpid(child_, &status_, WNOHANG) == child_;
    return ended_;
  }
  int end_by(int number) {
    signal(number);
    return wait();
  }
  json look() const { return run_program({"status", pid(), "--json"}).json(); }

  // Until ranks 0 and 2 are seen to wait.
  bool hangs() const {
    return eventually([this] {
      const json seen = look();
      return seen.contains("comms") && seen["comms"].size() == 3 && waits(seen, 0) &&
             waits(seen, 2);
    });
  }
  static const json& last_operation(const json& seen, int rank) {
    static const json kNone = json::object();
    for (const json& comm : seen["comms"]) {
      if (comm["rank"] == rank && !comm["operations"].empty()) return comm["operations"].back();
    }
    return kNone;
  }
  static bool waits(const json& seen, int rank) {
    const json& last = last_operation(seen, rank);
    return last.contains("waits_for") && !last["waits_for"].is_null();
  }

 private:
  TempFolder folder_;
  pid_t child_ = -1;
  bool ended_ = false;
  int status_ = -1;
};

// Ranks 0 and 2 are in call 2 and wait for rank 1, whose last call is the one before.
void expect_hang_is_named(const json& seen) {
  for (const int rank : {0, 2}) {
    const json& last = Victim::last_operation(seen, rank);
    EXPECT_EQ(last["call"], 2) << seen.dump(1);
    EXPECT_EQ(last["operation"], "BroadcastDelta");
    EXPECT_EQ(last["state"], "running");
    EXPECT_EQ(last["count"], 1000);
    EXPECT_EQ(last["datatype"], "float32");
    EXPECT_EQ(last["root"], 0);
    EXPECT_EQ(last["waits_for"]["rank"], 1);
    EXPECT_EQ(last["waits_for"]["purpose"], "agreement on the call");
    EXPECT_THAT(last["waits_for"]["peer"].get<std::string>(), HasSubstr("pid"));
    EXPECT_GT(last["waits_for"]["seconds"], 0.0);
  }
  const json& culprit = Victim::last_operation(seen, 1);
  EXPECT_EQ(culprit["call"], 1);
  EXPECT_EQ(culprit["state"], "done");
}

bool is_listed(const json& list, const Victim& victim) {
  for (const json& each : list["processes"]) {
    if (std::to_string(each.value("pid", 0)) == victim.pid()) return true;
  }
  return false;
}

TEST(StatusCommand, NamesTheRankThatAHangIsAbout) {
  const Victim victim;
  ASSERT_TRUE(victim.hangs());
  const json seen = victim.look();
  EXPECT_EQ(seen["ok"], true);
  EXPECT_EQ(seen["process"], "running");
  EXPECT_EQ(seen["program"], "flight_victim");
  expect_hang_is_named(seen);
  const std::string text = run_program({"status", victim.pid()}).out;
  EXPECT_THAT(text,
              AllOf(HasSubstr("is running"), HasSubstr("comm 1: rank 0 of 3 over loopback, live"),
                    HasSubstr("calls 0 to 1 BroadcastDelta, 1000 float32, root 0: done"),
                    HasSubstr("call 2 BroadcastDelta, 1000 float32, root 0: RUNNING for "),
                    HasSubstr("waits for rank 1 (")));
}

// Anybody can put a file there that is named as a record is.
TEST(StatusCommand, AFileThatIsNoRecordHidesNone) {
  const Victim victim;
  ASSERT_TRUE(victim.hangs());
  const std::string junk = "/tmp/sparcl-flight-65534-" + victim.pid();
  { std::ofstream(junk) << "nothing"; }
  expect_hang_is_named(victim.look());
  std::filesystem::remove(junk);
}

TEST(StatusCommand, SaysWhoIsMissingWhereARankWaitsForTheOthersToCome) {
  Victim victim("alone", {"SPARCL_DEBUG=info"});
  const auto meets = [&] {
    const json seen = victim.look();
    return seen.contains("comms") && !seen["comms"].empty() &&
           seen["comms"][0]["state"] == "meeting" && seen["comms"][0]["message"] != "";
  };
  if (!eventually([&] { return meets() || victim.has_ended(); })) FAIL() << victim.look().dump(1);
  if (victim.has_ended()) {
    ASSERT_EQ(WEXITSTATUS(victim.wait()), 9) << victim.err();
    GTEST_SKIP() << "this library was built without UCX";
  }
  EXPECT_THAT(run_program({"status", victim.pid()}).out,
              AllOf(HasSubstr("rank 0 of 2 over ucx, meeting for "),
                    HasSubstr(": 1 of 2 ranks are here, missing: 1\n"),
                    HasSubstr("event CommInit (ranks meet at "), HasSubstr("): RUNNING for ")));
  EXPECT_THAT(run_program({"status"}).out, HasSubstr(", 1 of 2 ranks are here, missing: 1\n"));
  EXPECT_TRUE(eventually([&] {
    return victim.err().find("1 of 2 ranks are here, missing: 1\n") != std::string::npos;
  })) << victim.err();
}

TEST(StatusCommand, ReadsAProcessThatIsStopped) {
  const Victim victim;
  ASSERT_TRUE(victim.hangs());
  victim.signal(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return victim.look()["process"] == "stopped"; }));
  expect_hang_is_named(victim.look());
  EXPECT_THAT(run_program({"status", victim.pid()}).out, HasSubstr("STOPPED"));
  const ProgramRun refused = run_program({"status", victim.pid(), "--remove"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("only the record of a dead process"));
}

TEST(StatusCommand, ReadsAProcessThatWasKilledUntilItsRecordIsRemoved) {
  Victim victim;
  ASSERT_TRUE(victim.hangs());
  victim.end_by(SIGKILL);
  const json seen = victim.look();
  EXPECT_EQ(seen["process"], "dead");
  expect_hang_is_named(seen);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(victim.look()["comms"], seen["comms"]) << "its times stand still";
  EXPECT_TRUE(is_listed(run_program({"status", "--all", "--json"}).json(), victim));
  const json living = run_program({"status", "--json"}).json();
  EXPECT_FALSE(is_listed(living, victim)) << living;
  EXPECT_GE(living["dead_hidden"], 1);
  EXPECT_THAT(run_program({"status"}).out,
              HasSubstr("records of dead processes that are not shown: "));
  EXPECT_EQ(run_program({"status", victim.pid(), "--remove"}).exit_code, 0);
  const ProgramRun gone = run_program({"status", victim.pid()});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_THAT(gone.err, HasSubstr("left no flight record"));
}

TEST(StatusCommand, ListsTheLivingBeforeTheDead) {
  Victim first, second;
  ASSERT_TRUE(first.hangs() && second.hangs());
  first.end_by(SIGKILL);  // it has the smaller pid, most often
  const json all = run_program({"status", "--all", "--json"}).json();
  ASSERT_TRUE(is_listed(all, first) && is_listed(all, second)) << all;
  bool dead_seen = false;
  for (const json& each : all["processes"]) {
    const bool dead = each.value("process", "") == "dead";
    EXPECT_TRUE(dead || !dead_seen) << all;
    dead_seen = dead_seen || dead;
  }
  EXPECT_TRUE(is_listed(run_program({"status", "--json"}).json(), second));
}

TEST(StatusCommand, RemovesWhatAllOfTheDeadLeftAndNothingOfTheLiving) {
  if (const std::string reason = take_own_shared_memory(); !reason.empty())
    GTEST_SKIP() << "it would remove what is not the test's: no /dev/shm of its own: " << reason;
  Victim dead, living, stopped;
  ASSERT_TRUE(dead.hangs() && living.hangs() && stopped.hangs());
  dead.end_by(SIGKILL);
  stopped.signal(SIGSTOP);
  const json said = run_program({"status", "--remove", "--json"}).json();
  EXPECT_THAT(said["removed"].get<std::vector<int>>(), ::testing::Contains(std::stoi(dead.pid())));
  EXPECT_EQ(run_program({"status", dead.pid()}).exit_code, 1);
  EXPECT_EQ(run_program({"status", living.pid()}).exit_code, 0);
  EXPECT_EQ(run_program({"status", stopped.pid()}).exit_code, 0);
}

TEST(StatusCommand, AnEmptyRecordOfADeadProcessIsSaidToBeOneAndRemoved) {
  if (const std::string reason = take_own_shared_memory(); !reason.empty())
    GTEST_SKIP() << "it would remove what is not the test's: no /dev/shm of its own: " << reason;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const std::string path = fmt::format("/dev/shm/sparcl-flight-{}-{}", ::geteuid(), child),
                    pid = std::to_string(child);
  std::ofstream(path).close();
  EXPECT_EQ(run_program({"status", "--json"}).json()["dead_hidden"], 1);
  EXPECT_THAT(run_program({"status", "--all"}).out,
              AllOf(HasSubstr(pid), HasSubstr("dead"), HasSubstr("empty record")));
  EXPECT_THAT(run_program({"status", pid}).out, HasSubstr("is DEAD and left an empty record"));
  EXPECT_EQ(run_program({"status", pid, "--remove"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(path));
  std::ofstream(path).close();
  EXPECT_EQ(run_program({"status", "--remove", "--json"}).json()["removed"], json::array({child}));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(StatusCommand, ACrashLeavesTheRecordBehind) {
  Victim victim("crash");
  ASSERT_TRUE(WIFSIGNALED(victim.wait()));
  EXPECT_EQ(victim.look()["process"], "dead");
}

TEST(StatusCommand, ANormalEndLeavesNothing) {
  Victim victim("end");
  EXPECT_EQ(victim.wait(), 0);
  EXPECT_EQ(run_program({"status", victim.pid()}).exit_code, 1);
  EXPECT_EQ(victim.err(), "");
}

TEST(StatusCommand, AForkedChildDoesNotTouchItsParentsRecord) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP()
      << "LeakSanitizer takes what threads held that a child of fork() does not have for lost";
#endif
  const Victim victim("fork");
  ASSERT_TRUE(victim.hangs());
  const json seen = victim.look();
  expect_hang_is_named(seen);
  for (const json& comm : seen["comms"]) EXPECT_EQ(comm["state"], "live");
}

TEST(StatusCommand, OffMeansOff) {
  const Victim victim("", {"SPARCL_FLIGHT=off", "SPARCL_FLIGHT_SIGNAL=USR2"});
  ASSERT_TRUE(eventually([&] { return victim.out() == "ready\n"; }));
  EXPECT_EQ(run_program({"status", victim.pid()}).exit_code, 1);
}

TEST(StatusCommand, ASignalDumpsTheRecord) {
  const Victim victim("", {"SPARCL_FLIGHT_SIGNAL=USR2"});
  ASSERT_TRUE(victim.hangs());
  victim.signal(SIGUSR2);
  EXPECT_TRUE(eventually([&] {
    return victim.err().find("comm 3: rank 2 of 3") != std::string::npos;
  })) << victim.err();
  EXPECT_THAT(victim.err(), AllOf(HasSubstr("comm 1: rank 0 of 3 over loopback"),
                                  HasSubstr("RUNNING for "), HasSubstr("waits for rank 1 (")));
  EXPECT_EQ(victim.look()["process"], "running") << "the default action is not taken";
}

TEST(StatusCommand, AHandlerOfTheUsersIsCalledAfterTheDump) {
  for (const char* how : {"handler", "siginfo"}) {
    const Victim victim(how, {"SPARCL_FLIGHT_SIGNAL=USR2"});
    ASSERT_TRUE(victim.hangs());
    victim.signal(SIGUSR2);
    EXPECT_TRUE(eventually([&] {
      return victim.err().find("the user's handler ran") != std::string::npos;
    })) << victim.err();
    EXPECT_LT(victim.err().find("comm 1: rank 0 of 3"),
              victim.err().find("the user's handler ran"));
  }
}

TEST(StatusCommand, WithoutASignalTheUsersHandlerIsAlone) {
  const Victim victim("handler");
  ASSERT_TRUE(victim.hangs());
  victim.signal(SIGUSR2);
  EXPECT_TRUE(eventually([&] { return victim.err() == "the user's handler ran\n"; }))
      << victim.err();
}

TEST(StatusCommand, AnErrorThatPoisonsDumpsTheLastOperationsAtLevelInfo) {
  Victim victim("", {"SPARCL_TIMEOUT_S=0.5", "SPARCL_DEBUG=info"});
  EXPECT_TRUE(eventually([&] {
    return victim.err().find("waited for rank 1") != std::string::npos ||
           victim.err().find("waits for rank 1") != std::string::npos;
  })) << victim.err();
  EXPECT_THAT(victim.err(),
              AllOf(HasSubstr("did not answer for 0.5 s"), HasSubstr("its last operations"),
                    HasSubstr("calls 0 to 1 BroadcastDelta")));
  const json seen = victim.look();
  EXPECT_EQ(seen["comms"][0]["state"], "poisoned");
  EXPECT_THAT(seen["comms"][0]["message"].get<std::string>(), HasSubstr("rank"));
}

TEST(StatusCommand, AnErrorThatPoisonsIsOneLineARankAndLeavesTheRecord) {
  Victim victim("skip", {"SPARCL_TIMEOUT_S=0.5"});
  ASSERT_EQ(victim.wait(), 0) << victim.err();
  const std::string said = victim.err();
  for (const int rank : {0, 2}) {
    const std::size_t at = said.find("rank " + std::to_string(rank) + ": ");
    ASSERT_NE(at, std::string::npos) << said;
    EXPECT_THAT(said.substr(at, said.find('\n', at) - at),
                HasSubstr("(its last operations: `sparcl status " + victim.pid() + "` on "));
  }
  EXPECT_LE(std::count(said.begin(), said.end(), '\n'), 3) << said;
  const json seen = victim.look();
  EXPECT_EQ(seen["process"], "dead");
  EXPECT_THAT(seen["comms"][0]["message"].get<std::string>(), HasSubstr("rank"));
  EXPECT_THAT(run_program({"status", "--all"}).out, HasSubstr("; comm 1 ended: rank 1 (host "));
  EXPECT_EQ(run_program({"status", victim.pid(), "--remove"}).exit_code, 0);
  EXPECT_EQ(run_program({"status", victim.pid()}).exit_code, 1);
}

TEST(StatusCommand, UsageErrors) {
  for (const char* process :
       {"localhost:", "localhost:x", "x", "0", "-1", "1.5", "99999999999999999999"}) {
    const ProgramRun run = run_program({"status", process});
    EXPECT_EQ(run.exit_code, 2) << process << run.err;
  }
  EXPECT_THAT(run_program({"status", "x"}).err,
              HasSubstr("x is no process id, and no HOST:PORT of a publisher"));
  EXPECT_EQ(run_program({"status", "1", "--all"}).exit_code, 2);
  const ProgramRun none = run_program({"status", "1", "--json"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_EQ(none.json()["ok"], false);
}

}  // namespace
}  // namespace sparcl::test
