// Workers and aggregators as processes that are killed and stopped: every contribution of a worker
// that lives counts once, and no contribution counts twice.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/base/seeded_random.hpp"
#include "src/net/socket.hpp"
#include "src/trust/role_secret.hpp"
#include "tests/support/process_party.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::test {
namespace {

constexpr const char* kProgram = SPARCL_TEST_ELASTIC_PROGRAM;

// Below the ports that the kernel chooses: a worker's own socket never has it.
std::string free_address() {
  static SeededRandom random(static_cast<std::uint64_t>(::getpid()));
  while (true) {
    net::NetAddress address = net::loopback_address();
    address.port = static_cast<std::uint16_t>(20'000 + random.below(10'000));
    if (net::listen_at(address, 1).ok()) return to_text(address);
  }
}

struct Story {
  const TempFolder temporary;  // ends after the processes
  ProcessParty party;
  const std::string folder = temporary / "rounds";
  std::string address = free_address();
  std::vector<int> roots;
  std::vector<std::pair<std::string, std::string>> root_environment, worker_environment;

  // failpoint: "name:count:kill"
  void start_root(const std::string& failpoint = "") {
    roots.push_back(start({kProgram, "root", folder, address}, failpoint));
  }
  int start_branch(const std::string& at, const std::string& failpoint = "") {
    return start({kProgram, "branch", address, at}, failpoint);
  }
  int start(std::vector<std::string> words, const std::string& failpoint) {
    ProcessCommand command{std::move(words), root_environment};
    if (!failpoint.empty()) command.environment.emplace_back("SPARCL_TEST_FAILPOINT", failpoint);
    const int process = party.start(command);
    wait_until_it_serves(process);
    return process;
  }
  void wait_until_it_serves(int process) {
    const auto serves = [&] {
      const ProcessRecord& record = party.record(process);
      return !record.lines.empty() || record.ended;
    };
    ASSERT_TRUE(party.run_until(serves, party.now_s() + 20));
    ASSERT_FALSE(party.record(process).ended) << party.record(process).errors;
  }
  // Until it has ended, it has its port.
  void kill(int process) {
    party.signal(process, SIGKILL);
    (void)party.run_until([&] { return party.record(process).ended; }, party.now_s() + 10);
  }
  void pass(double seconds) {
    (void)party.run_until([] { return false; }, party.now_s() + seconds);
  }
  int start_worker(int number, int rounds) { return start_worker_at(address, number, rounds); }
  int start_worker_at(const std::string& addresses, int number, int rounds) {
    return party.start(
        {{kProgram, "worker", addresses, std::to_string(number), std::to_string(rounds)},
         worker_environment});
  }
  bool wait_for(int process, const std::string& text, double seconds) {
    const auto has_it = [&] {
      for (const ProcessLine& line : party.record(process).lines) {
        if (line.text.starts_with(text)) return true;
      }
      return party.record(process).ended;
    };
    return party.run_until(has_it, party.now_s() + seconds);
  }
  // All of a survivor's contributions counted.
  void expect_counted(int process, int rounds) const {
    const ProcessRecord& record = party.record(process);
    ASSERT_TRUE(record.exited_with(0)) << record.describe_end() << "\n" << record.errors;
    const std::string all = "counted " + std::to_string(rounds) + " at";
    const bool is_there = std::any_of(
        record.lines.begin(), record.lines.end(),
        [&](const ProcessLine& line) { return line.text.find(all) != std::string::npos; });
    EXPECT_TRUE(is_there) << record.lines.back().text << "\n" << record.errors;
  }
  void expect_all_counted(const std::vector<int>& survivors, int rounds) {
    for (const int survivor : survivors)
      ASSERT_TRUE(wait_for(survivor, "committed", 60)) << party.record(survivor).errors;
    for (const int survivor : survivors) {
      (void)party.run_until([&] { return party.record(survivor).ended; }, party.now_s() + 20);
      expect_counted(survivor, rounds);
    }
  }
};

TEST(ElasticProcesses, ContributionsCountOnceWhoeverIsKilled) {
  const int seeds = by_tier(2, 40), rounds = 12;
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(static_cast<std::uint64_t>(seed));
    Story story;
    story.start_root();
    std::vector<int> survivors;
    for (int number = 0; number < 3; ++number)
      survivors.push_back(story.start_worker(number, rounds));
    int victim = story.start_worker(3, 1000);
    for (int kill = 0; kill < 4; ++kill) {
      story.pass(0.05 + 0.4 * random.unit());
      if (random.chance(0.5)) {
        story.party.signal(victim, SIGKILL);
        victim = story.start_worker(3 + kill + 1, 1000);
      } else {
        story.kill(story.roots.back());
        story.start_root();
      }
    }
    story.expect_all_counted(survivors, rounds);
  }
}

// Two branches below a root, of which each may be killed at any time.
TEST(ElasticProcesses, ContributionsCountOnceThroughBranchesThatAreKilled) {
  const int seeds = by_tier(2, 40), rounds = 12;
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(static_cast<std::uint64_t>(seed));
    Story story;
    story.start_root();
    const std::string at[] = {free_address(), free_address()};
    int branches[] = {story.start_branch(at[0]), story.start_branch(at[1])};
    std::vector<int> survivors;
    for (int number = 0; number < 4; ++number)
      survivors.push_back(
          story.start_worker_at(at[number % 2] + "," + at[1 - number % 2], number, rounds));
    int victim = story.start_worker_at(at[0], 4, 1000);
    for (int kill = 0; kill < 4; ++kill) {
      story.pass(0.05 + 0.4 * random.unit());
      const std::uint64_t what = random.below(4);
      if (what == 0) {
        story.party.signal(victim, SIGKILL);
        victim = story.start_worker_at(at[1], 5 + kill % 3, 1000);
      } else if (what == 1) {
        story.kill(story.roots.back());
        story.start_root();
      } else {
        story.kill(branches[what - 2]);
        branches[what - 2] = story.start_branch(at[what - 2]);
      }
    }
    story.expect_all_counted(survivors, rounds);
  }
}

// Between the steps of a round's end: the log, the version, and what workers are told.
TEST(ElasticProcesses, AggregatorsMayDieBetweenAnyTwoSteps) {
  if (SPARCL_TEST_HAS_FAILPOINTS == 0) GTEST_SKIP() << "skipped: built with SPARCL_FAILPOINTS=OFF";
  for (const std::string where : {"aggregate.logged", "aggregate.published"}) {
    SCOPED_TRACE(where);
    Story story;
    story.start_root(where + ":2:kill");
    const std::vector<int> survivors{story.start_worker(0, 5), story.start_worker(1, 5)};
    const int root = story.roots.back();
    ASSERT_TRUE(story.party.run_until([&] { return story.party.record(root).ended; },
                                      story.party.now_s() + 30));
    story.start_root();
    story.expect_all_counted(survivors, 5);
  }
  Story story;
  story.start_root();
  const std::string at = free_address();
  const int branch = story.start_branch(at, "aggregate.branch_summed:2:kill");
  const std::vector<int> survivors{story.start_worker_at(at, 0, 5), story.start_worker(1, 5)};
  ASSERT_TRUE(story.party.run_until([&] { return story.party.record(branch).ended; },
                                    story.party.now_s() + 30));
  (void)story.start_branch(at);
  story.expect_all_counted(survivors, 5);
}

TEST(ElasticProcesses, OverEncryptedConnections) {
  Story story;
  const std::string secret = story.temporary / "secret";
  Result<trust::RoleSecret> made = trust::RoleSecret::generate();
  ASSERT_TRUE(made.ok() && made->save(secret).ok());
  story.root_environment = {{"SPARCL_SECRET", secret}};
  story.start_root();
  const int without = story.start_worker(7, 3);  // gets nothing
  story.worker_environment = {{"SPARCL_SECRET", secret + ".replicate"}};
  const int first = story.start_worker(0, 4), second = story.start_worker(1, 4);
  for (const int each : {first, second}) {
    ASSERT_TRUE(story.wait_for(each, "committed", 60)) << story.party.record(each).errors;
    (void)story.party.run_until([&] { return story.party.record(each).ended; },
                                story.party.now_s() + 20);
    story.expect_counted(each, 4);
  }
  EXPECT_TRUE(story.party.record(without).lines.empty());
}

// A root that was stopped while another one took over publishes nothing, and ends when it goes on.
TEST(ElasticProcesses, ARootThatComesBackIsFenced) {
  ASSERT_EQ(::setenv("SPARCL_LIVENESS_S", "1", 1), 0);  // a stopped root is found sooner
  Story story;
  story.start_root();
  const int first = story.start_worker(0, 6), second = story.start_worker(1, 6);
  ASSERT_TRUE(story.wait_for(story.roots[0], "round 2", 20));
  story.party.signal(story.roots[0], SIGSTOP);
  const std::string old_address = story.address;
  story.address = free_address();
  story.start_root();
  // Workers with both addresses: the old one is silent.
  const std::string both = old_address + "," + story.address;
  story.address = both;
  const int third = story.start_worker(2, 6), fourth = story.start_worker(3, 6);
  for (const int each : {third, fourth}) {
    ASSERT_TRUE(story.wait_for(each, "committed", 60)) << story.party.record(each).errors;
  }
  story.party.signal(story.roots[0], SIGCONT);
  story.party.run_until([&] { return story.party.record(story.roots[0]).ended; },
                        story.party.now_s() + 20);
  EXPECT_NE(story.party.record(story.roots[0]).errors.find("taken over"), std::string::npos)
      << story.party.record(story.roots[0]).errors;
  for (const int each : {first, second}) story.party.signal(each, SIGKILL);
  (void)story.party.run_until([&] { return story.party.record(third).ended; },
                              story.party.now_s() + 20);
  story.expect_counted(third, 6);
}

}  // namespace
}  // namespace sparcl::test
