// A rank of a group is killed around the commit: the others say which rank it was, and what they
// show is a published version. The same group shows a common version again with a new communicator.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/process_party.hpp"
#include "tests/support/temp_folder.hpp"

namespace sparcl::test {
namespace {

using Json = nlohmann::json;

constexpr int kGroupRanks = 3, kVictim = 1;
constexpr std::uint64_t kVersions = 8;
constexpr double kPatience = 60;

// One publisher, and groups of ranks one after another: each rank keeps its weights.
class Group {
 public:
  ProcessParty& party() { return party_; }

  bool publish(std::uint64_t first, int interval_ms) {
    const auto text = [](auto number) { return fmt::to_string(number); };
    const int publisher =
        party_.start({{SPARCL_TEST_PUBLISHER, "--weights", folder_ / "publisher", "--elements",
                       "65536", "--first", text(first), "--versions", text(kVersions),
                       "--interval-ms", text(interval_ms), "--replicas", text(kGroupRanks)},
                      {}});
    return publisher >= 0 && wait([&] {
             for (const Json& each : said_by(publisher)) {
               if (each["event"] == "listening") address_ = each["address"];
               if (each["event"] == "version") published_[each["version"]] = each["hash"];
             }
             publisher_ = publisher;
             return !address_.empty();
           });
  }
  // The ranks' processes; empty: they have not started.
  std::vector<int> start(std::uint64_t until, const std::string& failpoint) {
    std::vector<int> ranks;
    std::string id;
    for (int rank = 0; rank < kGroupRanks; ++rank) {
      std::vector<std::string> arguments{SPARCL_TEST_GROUP,
                                         "--weights",
                                         folder_ / fmt::format("rank{}", rank),
                                         "--address",
                                         address_,
                                         "--elements",
                                         "65536",
                                         "--until",
                                         fmt::to_string(until),
                                         "--rank",
                                         fmt::to_string(rank),
                                         "--ranks",
                                         fmt::to_string(kGroupRanks)};
      if (rank > 0) arguments.insert(arguments.end(), {"--id", id});
      std::vector<std::pair<std::string, std::string>> environment{{"UCX_TLS", "tcp,self"}};
      if (rank == kVictim && !failpoint.empty())
        environment.emplace_back("SPARCL_TEST_FAILPOINT", failpoint);
      ranks.push_back(party_.start({arguments, environment}));
      if (ranks.back() < 0) return {};
      const bool has_met = rank > 0 || wait([&] {
                             for (const Json& each : said_by(ranks.front())) {
                               if (each["event"] == "id") id = each["id"];
                             }
                             return !id.empty();
                           });
      if (!has_met) return {};
    }
    return ranks;
  }
  bool wait(const std::function<bool()>& enough) {
    return party_.run_until(enough, party_.now_s() + kPatience);
  }
  bool wait_for_end(const std::vector<int>& ranks) {
    return wait([&] {
      return std::ranges::all_of(ranks, [&](int each) { return party_.record(each).ended; });
    });
  }
  std::vector<Json> said_by(int process) const {
    std::vector<Json> said;
    for (const ProcessLine& line : party_.record(process).lines) {
      Json each = Json::parse(line.text, nullptr, false);
      if (!each.is_discarded()) said.push_back(std::move(each));
    }
    return said;
  }
  // The last thing that it said; all that it has shown was published.
  Json check(int process) {
    for (const Json& each : said_by(publisher_)) {
      if (each["event"] == "version") published_[each["version"]] = each["hash"];
    }
    Json last;
    for (const Json& each : said_by(process)) {
      if (each["event"] == "id") continue;
      const std::uint64_t version = each["version"];
      EXPECT_TRUE(version == 0 || published_[version] == each["hash"]) << each;
      last = each;
    }
    return last;
  }

 private:
  TempFolder folder_;
  ProcessParty party_;
  std::string address_;
  int publisher_ = -1;
  std::map<std::uint64_t, std::string> published_;
};

struct KillPlace {
  const char* failpoint;
  bool may_be_shown;  // by the others: some may not have heard that the vote is over
};

class KilledInAGroup : public ::testing::TestWithParam<KillPlace> {};

INSTANTIATE_TEST_SUITE_P(Places, KilledInAGroup,
                         ::testing::Values(KillPlace{"allreduce.begin:1:kill", false},
                                           KillPlace{"group.voted:1:kill", true},
                                           KillPlace{"subscriber.applying:1:kill", true},
                                           KillPlace{"group.committed:1:kill", true}));

TEST_P(KilledInAGroup, TheOthersNameItAndARepeatConverges) {
  if (!SPARCL_TEST_HAS_FAILPOINTS) GTEST_SKIP() << "built without failpoints";
  Group group;
  ASSERT_TRUE(group.publish(1, 30)) << group.party().trouble();
  const std::vector<int> ranks = group.start(kVersions, GetParam().failpoint);
  ASSERT_EQ(ranks.size(), static_cast<std::size_t>(kGroupRanks)) << group.party().trouble();
  ASSERT_TRUE(group.wait_for_end(ranks));
  EXPECT_TRUE(group.party().record(ranks[kVictim]).died_of(SIGKILL));
  for (const int rank : {0, 2}) {
    const int process = ranks[static_cast<std::size_t>(rank)];
    const Json last = group.check(process);
    ASSERT_EQ(last["event"], "failed") << last << group.party().record(process).errors;
    EXPECT_EQ(last["code"], 6) << last;  // sparclRemoteError
    EXPECT_EQ(last["rank"], kVictim) << last << group.party().record(process).errors;
    EXPECT_NE(group.party().record(process).errors.find("rank 1"), std::string::npos)
        << group.party().record(process).errors;
    EXPECT_TRUE(last["version"] == 0 || GetParam().may_be_shown) << last;
  }
  const std::vector<int> again = group.start(kVersions, "");
  ASSERT_EQ(again.size(), static_cast<std::size_t>(kGroupRanks)) << group.party().trouble();
  ASSERT_TRUE(group.wait_for_end(again));
  for (const int process : again) {
    const Json last = group.check(process);
    EXPECT_EQ(last["event"], "holds") << last << group.party().record(process).errors;
    EXPECT_EQ(last["version"], kVersions);
  }
}

}  // namespace
}  // namespace sparcl::test
