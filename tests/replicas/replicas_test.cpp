// Replicas are killed, stopped, started again; publishers, too: every version that a replica ever
// shows is one that was published, bit for bit, and the others go on.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "src/model/model_hash.hpp"
#include "src/replication/query.hpp"
#include "tests/replication/lying_parent.hpp"
#include "tests/support/process_party.hpp"
#include "tests/support/tier.hpp"
#include "tests/support/virtual_hosts.hpp"

namespace sparcl::test {
namespace {

using Json = nlohmann::json;

struct Scale {
  std::uint64_t elements;
  std::uint64_t versions;
  int interval_ms;
};

// The processes of one publisher and its replicas, and what they have said so far.
class Service {
 public:
  Service(int replicas, const Scale& scale, std::uint64_t seed)
      : scale_(scale), seed_(seed), replica_(static_cast<std::size_t>(replicas), -1) {
    folder_ = std::filesystem::path(std::filesystem::exists("/dev/shm") ? "/dev/shm"
                                                                        : ::testing::TempDir()) /
              fmt::format("sparcl_replicas_{}_{}", getpid(), seed);
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Service() {
    party_.kill_rest();
    std::filesystem::remove_all(folder_);
  }

  ProcessParty& party() { return party_; }
  // Updates go over connections alone, from one replica to the next.
  void share_no_memory() { shares_memory_ = false; }
  // The publisher on the first virtual host, each replica on one of its own.
  void use_hosts() {
    uses_hosts_ = true;
    address_ = VirtualHosts::address(0) + ":4711";
  }
  std::uint64_t last_version() const { return scale_.versions; }

  // first: of the versions that it publishes, up to the last.
  bool start_publisher(std::uint64_t first = 1) {
    std::vector<std::string> arguments = on_host(0);
    arguments.insert(
        arguments.end(),
        {SPARCL_TEST_PUBLISHER, "--weights", path("publisher"), "--elements",
         fmt::to_string(scale_.elements), "--first", fmt::to_string(first), "--versions",
         fmt::to_string(scale_.versions + 1 - first), "--interval-ms",
         fmt::to_string(scale_.interval_ms), "--seed", fmt::to_string(seed_ + first), "--replicas",
         fmt::to_string(replica_.size() + static_cast<std::size_t>(liars_))});
    if (!address_.empty()) arguments.insert(arguments.end(), {"--listen", address_});
    publisher_ = party_.start({arguments, {}});
    if (publisher_ < 0) return false;
    return wait([&] {
      for (const Json& each : said_by(publisher_)) {
        if (each["event"] == "listening") address_ = each["address"];
      }
      return !address_.empty() && !said_by(publisher_).empty();
    });
  }
  int publisher() const { return publisher_; }
  // These say that they hold each version, too: the publisher waits for as many more.
  void expect_liars(int count) { liars_ = count; }
  std::unique_ptr<replication::LyingParent> start_liar(replication::Lie lie) const {
    const Result<replication::ModelReply> model = replication::query_model(address_, 20);
    if (!model.ok()) return nullptr;
    const Result<model::Schema> schema = model::parse_schema(model->schema);
    return std::make_unique<replication::LyingParent>(address_, model::schema_hash(*schema), lie,
                                                      "a liar", model->model_id);
  }

  void start_replica(std::size_t which, const std::string& failpoint = "", int serve_ms = 0) {
    ProcessCommand command{on_host(static_cast<int>(which) + 1), {}};
    command.arguments.insert(
        command.arguments.end(),
        {SPARCL_TEST_REPLICA, "--weights", path(fmt::format("replica_{}", which)), "--elements",
         fmt::to_string(scale_.elements), "--address", address_, "--until",
         fmt::to_string(scale_.versions), "--serve-ms", fmt::to_string(serve_ms)});
    if (!shares_memory_) command.environment.emplace_back("SPARCL_SHARED_MEMORY", "off");
    if (!failpoint.empty()) command.environment.emplace_back("SPARCL_TEST_FAILPOINT", failpoint);
    replica_[which] = party_.start(command);
    lives_.push_back(replica_[which]);
    ASSERT_GE(replica_[which], 0) << party_.trouble();
  }
  int replica(std::size_t which) const { return replica_[which]; }
  // Its weights are no version: it needs all bytes.
  void spoil_weights(std::size_t which) const {
    std::ofstream file(path(fmt::format("replica_{}", which)), std::ios::binary);
    file << std::string(scale_.elements * 2, '\x3c');
  }

  bool wait(const std::function<bool()>& enough, double seconds = 60) {
    return party_.run_until(enough, party_.now_s() + seconds);
  }
  void pause(double seconds) {
    (void)wait([] { return false; }, seconds);
  }

  std::vector<Json> said_by(int process) const {
    std::vector<Json> said;
    for (const ProcessLine& line : party_.record(process).lines) {
      Json each = Json::parse(line.text, nullptr, false);
      if (!each.is_discarded()) said.push_back(std::move(each));
    }
    return said;
  }
  std::uint64_t newest_of(int process, const char* event) const {
    std::uint64_t newest = 0;
    for (const Json& each : said_by(process)) {
      if (each["event"] == event) newest = each["version"];
    }
    return newest;
  }

  // Everything that any life of any replica has shown, against what was published.
  void expect_published_versions_only() const {
    std::map<std::uint64_t, std::string> published;
    for (int process = 0; process < party_.size(); ++process) {
      for (const Json& each : said_by(process)) {
        if (each["event"] == "version") published[each["version"]] = each["hash"];
      }
    }
    std::uint64_t shown = 0;
    for (const int life : lives_) {
      std::uint64_t before = 0;
      for (const Json& each : said_by(life)) {
        if (each["event"] != "holds") continue;
        const std::uint64_t version = each["version"];
        ASSERT_TRUE(published.contains(version)) << version;
        EXPECT_EQ(each["hash"], published[version]) << "version " << version;
        EXPECT_GT(version, before);
        before = version;
        ++shown;
      }
    }
    EXPECT_GT(shown, 0U);
  }
  void expect_all_reach_the_end() {
    ASSERT_TRUE(wait([&] { return party_.record(publisher_).ended; }, 180)) << describe();
    ASSERT_TRUE(party_.finish(party_.now_s() + 30)) << describe();
    for (std::size_t i = 0; i < replica_.size(); ++i) {
      EXPECT_TRUE(party_.record(replica_[i]).exited_with(0))
          << i << ": " << party_.record(replica_[i]).describe_end() << describe();
      EXPECT_EQ(newest_of(replica_[i], "holds"), last_version());
    }
    EXPECT_TRUE(party_.record(publisher_).exited_with(0))
        << party_.record(publisher_).describe_end() << describe();
    EXPECT_EQ(party_.left_behind(), "");
  }
  std::string describe() const {
    std::string text = fmt::format("\nSPARCL_TEST_SEED={}\n", seed_);
    for (int process = 0; process < party_.size(); ++process) {
      const ProcessRecord& record = party_.record(process);
      text += fmt::format("process {} (pid {}): {}, {} lines, the last: {}\n{}", process,
                          record.pid, record.describe_end(), record.lines.size(),
                          record.lines.empty() ? "" : record.lines.back().text,
                          record.errors.substr(0, 2000));
    }
    return text;
  }

 private:
  std::vector<std::string> on_host(int host) const {
    return uses_hosts_ ? VirtualHosts::on(host) : std::vector<std::string>();
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Scale scale_;
  std::uint64_t seed_;
  bool uses_hosts_ = false;
  bool shares_memory_ = true;
  int liars_ = 0;
  std::filesystem::path folder_;
  ProcessParty party_;
  int publisher_ = -1;
  std::string address_;
  std::vector<int> replica_;  // the process that is it now
  std::vector<int> lives_;    // of all replicas
};

std::uint64_t first_seed() {
  const char* text = std::getenv("SPARCL_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

// They share memory with the publisher, or are a chain.
class ReplicasOfAMachine : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Replicas, ReplicasOfAMachine, testing::Bool(),
                         [](const auto& each) { return each.param ? "ByMemory" : "InAChain"; });

TEST_P(ReplicasOfAMachine, AreKilledStoppedAndStartedAgain) {
  const Scale scale = long_tier() ? Scale{std::uint64_t{64} << 20, 200, 450}
                                  : Scale{std::uint64_t{1} << 20, 60, 40};
  const int kills_wanted = by_tier(12, 200);
  std::mt19937_64 random(first_seed());
  Service service(by_tier(4, 8), scale, first_seed());
  if (!GetParam()) service.share_no_memory();
  ASSERT_TRUE(service.start_publisher()) << service.describe();
  const std::size_t replicas = by_tier<std::size_t>(4, 8);
  for (std::size_t i = 0; i < replicas; ++i) service.start_replica(i, "", i == 0 ? 100 : 0);
  int kills = 0;
  std::map<std::size_t, double> stopped;  // since when
  while (kills < kills_wanted &&
         service.newest_of(service.publisher(), "version") < service.last_version()) {
    service.pause(0.001 * static_cast<double>(random() % (long_tier() ? 500 : 200)));
    const std::size_t which = random() % replicas;
    if (stopped.contains(which)) {
      service.party().signal(service.replica(which), SIGCONT);
      stopped.erase(which);
    } else if (random() % 4 == 0) {
      service.party().signal(service.replica(which), SIGSTOP);
      stopped[which] = service.party().now_s();
    } else {
      service.party().signal(service.replica(which), SIGKILL);
      ASSERT_TRUE(service.wait([&] {
        return service.party().record(service.replica(which)).ended;
      })) << service.describe();
      service.start_replica(which);
      ++kills;
    }
  }
  for (const auto& [which, since] : stopped)
    service.party().signal(service.replica(which), SIGCONT);
  service.expect_all_reach_the_end();
  service.expect_published_versions_only();
  fmt::print("{} kills\n", kills);
  EXPECT_GE(kills, by_tier(3, 200));
  // Neither memory nor descriptors of the publisher grow with what has come and gone.
  std::vector<Json> sizes;
  for (const Json& each : service.said_by(service.publisher())) {
    if (each["event"] == "size") sizes.push_back(each);
  }
  ASSERT_GE(sizes.size(), 3U);
  EXPECT_LE(sizes.back()["descriptors"].get<long>(), 16 + 2 * static_cast<long>(replicas));
  const long model_kib = static_cast<long>(scale.elements * 2 / 1024);
  EXPECT_LE(sizes.back()["resident_kib"].get<long>(),
            sizes[sizes.size() / 2]["resident_kib"].get<long>() + model_kib + 65536)
      << sizes.back().dump();
}

TEST_P(ReplicasOfAMachine, DieAtAnyStageOfAnUpdate) {
  if (!SPARCL_TEST_HAS_FAILPOINTS)
    GTEST_SKIP() << "skipped: built without failpoints (SPARCL_FAILPOINTS is OFF)";
  const Scale scale{std::uint64_t{1} << 20, 20, 30};
  for (int round = 0; round < by_tier(1, 20); ++round) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(round);
    std::mt19937_64 random(seed);
    Service service(4, scale, seed);
    if (!GetParam()) service.share_no_memory();
    ASSERT_TRUE(service.start_publisher()) << service.describe();
    service.start_replica(0);
    const char* places[3] = {"subscriber.receiving", "subscriber.staged", "subscriber.applying"};
    for (std::size_t i = 0; i < 3; ++i)
      service.start_replica(i + 1, fmt::format("{}:{}:kill", places[i], 1 + random() % 4));
    for (std::size_t i = 1; i < 4; ++i) {
      ASSERT_TRUE(service.wait([&] { return service.party().record(service.replica(i)).ended; }))
          << service.describe();
      EXPECT_TRUE(service.party().record(service.replica(i)).died_of(SIGKILL))
          << service.describe();
      service.start_replica(i);
    }
    service.expect_all_reach_the_end();
    service.expect_published_versions_only();
  }
}

// The last of the chain gives all bytes to each one that joins.
TEST(Replicas, GiversDieWhileTheyGive) {
  if (!SPARCL_TEST_HAS_FAILPOINTS)
    GTEST_SKIP() << "skipped: built without failpoints (SPARCL_FAILPOINTS is OFF)";
  const Scale scale{std::uint64_t{1} << 20, 15, 80};
  for (int round = 0; round < by_tier(1, 20); ++round) {
    Service service(3, scale, first_seed() + static_cast<std::uint64_t>(round));
    service.share_no_memory();
    ASSERT_TRUE(service.start_publisher()) << service.describe();
    for (std::size_t i = 0; i < 3; ++i) {
      service.spoil_weights(i);
      service.start_replica(i, i == 1 ? "subscriber.giving:1:kill" : "");
      ASSERT_TRUE(service.wait([&] { return service.newest_of(service.replica(i), "holds") > 0; }))
          << service.describe();
      service.pause(0.1);  // the others learn that it holds a version
    }
    ASSERT_TRUE(service.wait([&] { return service.party().record(service.replica(1)).ended; }, 10))
        << service.describe();
    EXPECT_TRUE(service.party().record(service.replica(1)).died_of(SIGKILL)) << service.describe();
    service.start_replica(1);
    service.expect_all_reach_the_end();
    service.expect_published_versions_only();
  }
}

// Parents that say that they are alive and have it all; some replicas are killed meanwhile.
TEST(Replicas, AreServedWhateverParentsSay) {
  using replication::Lie;
  for (const Lie lie : {Lie::kGivesNothing, Lie::kGivesSlowly, Lie::kGivesGarbage}) {
    const int liars = by_tier(1, 4);
    const Scale scale = long_tier() ? Scale{std::uint64_t{1} << 20, 150, 100}
                                    : Scale{std::uint64_t{1} << 18, 40, 50};
    std::mt19937_64 random(first_seed());
    Service service(3, scale, first_seed());
    service.share_no_memory();
    service.expect_liars(liars);
    ASSERT_TRUE(service.start_publisher()) << service.describe();
    ASSERT_TRUE(service.wait([&] { return service.newest_of(service.publisher(), "version") > 0; }))
        << service.describe();
    std::vector<std::unique_ptr<replication::LyingParent>> lying;
    for (int i = 0; i < liars; ++i) {
      lying.push_back(service.start_liar(lie));
      ASSERT_NE(lying.back(), nullptr);
    }
    for (std::size_t i = 0; i < 3; ++i) service.start_replica(i);
    for (int round = 0; round < by_tier(1, 6); ++round) {
      service.pause(0.001 * static_cast<double>(200 + random() % 500));
      const std::size_t which = random() % 3;
      if (service.party().record(service.replica(which)).ended) continue;
      service.party().signal(service.replica(which), SIGKILL);
      ASSERT_TRUE(service.wait([&] {
        return service.party().record(service.replica(which)).ended;
      })) << service.describe();
      service.start_replica(which);
    }
    service.expect_all_reach_the_end();
    service.expect_published_versions_only();
  }
}

TEST_P(ReplicasOfAMachine, GoOnWithAPublisherThatIsStartedAgain) {
  const Scale scale{std::uint64_t{1} << 20, 40, 20};
  for (int round = 0; round < by_tier(1, 10); ++round) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(round);
    std::mt19937_64 random(seed);
    Service service(3, scale, seed);
    if (!GetParam()) service.share_no_memory();
    ASSERT_TRUE(service.start_publisher()) << service.describe();
    for (std::size_t i = 0; i < 3; ++i) service.start_replica(i);
    for (int life = 0; life < 3; ++life) {
      service.pause(0.001 * static_cast<double>(50 + random() % 200));
      const std::uint64_t newest = service.newest_of(service.publisher(), "version");
      if (newest + 2 >= scale.versions || service.party().record(service.publisher()).ended) break;
      service.party().signal(service.publisher(), SIGKILL);
      ASSERT_TRUE(service.wait([&] { return service.party().record(service.publisher()).ended; }));
      // A version that it was about to publish may be out or not: the next life takes the number
      // after it.
      ASSERT_TRUE(service.start_publisher(service.newest_of(service.publisher(), "version") + 1))
          << service.describe();
    }
    service.expect_all_reach_the_end();
    service.expect_published_versions_only();
  }
}

TEST_P(ReplicasOfAMachine, AStoppedOneHoldsNobodyUp) {
  const Scale scale{std::uint64_t{1} << 20, 40, 25};
  Service service(3, scale, first_seed());
  if (!GetParam()) service.share_no_memory();
  ASSERT_TRUE(service.start_publisher()) << service.describe();
  for (std::size_t i = 0; i < 3; ++i) service.start_replica(i);
  ASSERT_TRUE(service.wait([&] { return service.newest_of(service.replica(0), "holds") > 0; }))
      << service.describe();
  service.party().signal(service.replica(0), SIGSTOP);
  // The others reach the end while it stands still.
  for (std::size_t i = 1; i < 3; ++i) {
    ASSERT_TRUE(service.wait([&] {
      return service.newest_of(service.replica(i), "holds") == scale.versions;
    })) << service.describe();
  }
  service.party().signal(service.replica(0), SIGCONT);
  service.expect_all_reach_the_end();
  service.expect_published_versions_only();
}

// Cables are cut and mended, of replicas in a chain: those that have theirs go on, and all reach
// the end.
TEST(Replicas, LinksAreCutAndMended) {
  const int replicas = 4;
  const VirtualHosts hosts(replicas + 1);
  if (!hosts.are_up())
    GTEST_SKIP() << "no network namespaces here (the reason is on standard error)";
  for (int round = 0; round < by_tier(1, 10); ++round) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(round);
    std::mt19937_64 random(seed);
    const Scale scale{std::uint64_t{1} << 20, 60, 60};
    Service service(replicas, scale, seed);
    service.use_hosts();
    ASSERT_TRUE(service.start_publisher()) << service.describe();
    for (std::size_t i = 0; i < replicas; ++i) service.start_replica(i);
    for (std::size_t i = 0; i < replicas; ++i) {
      ASSERT_TRUE(service.wait([&] { return service.newest_of(service.replica(i), "holds") > 0; }))
          << service.describe();
    }
    const int victim = static_cast<int>(random() % replicas);
    ASSERT_TRUE(VirtualHosts::cut(victim + 1));
    const std::uint64_t at = service.newest_of(service.publisher(), "version");
    // Ten versions later than those that were on their way.
    for (std::size_t i = 0; i < replicas; ++i) {
      if (static_cast<int>(i) == victim) continue;
      const std::uint64_t wanted = std::min(at + 10, scale.versions);
      EXPECT_TRUE(service.wait([&] {
        return service.newest_of(service.replica(i), "holds") >= wanted;
      })) << i
          << service.describe();
    }
    EXPECT_LT(service.newest_of(service.replica(static_cast<std::size_t>(victim)), "holds"),
              std::min(at + 10, scale.versions));
    ASSERT_TRUE(VirtualHosts::mend(victim + 1));
    service.expect_all_reach_the_end();
    service.expect_published_versions_only();
  }
}

}  // namespace
}  // namespace sparcl::test
