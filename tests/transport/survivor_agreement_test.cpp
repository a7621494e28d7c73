// Survivors must come to one end whoever dies when: seeded worlds in which ranks are killed between
// any two steps.

#include "src/transport/survivors/survivor_agreement.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <set>
#include <thread>

#include "src/transport/loopback/loopback_world.hpp"
#include "src/transport/loopback/sim_scheduler.hpp"
#include "src/transport/survivors/survivor_gather.hpp"
#include "tests/support/tier.hpp"

namespace sparcl {
namespace {

using testing::HasSubstr;

constexpr transport::Channel kAgreementChannel{UINT32_MAX, 0};

// Some ranks are dead from the beginning, others die on the way; each of the rest makes the same
// few agreements.
class Survivors {
 public:
  Survivors(std::uint64_t seed, int ranks, int rounds)
      : random_(mix64(seed)),
        rounds_(rounds),
        world_(ranks, {.deterministic = true, .seed = seed}),
        verdicts_(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) transports_.push_back(world_.make_transport(rank));
    for (int rank = 0; rank < ranks; ++rank)
      agreements_.push_back(std::make_unique<transport::SurvivorAgreement>(
          *transports_[static_cast<std::size_t>(rank)], kAgreementChannel));
    const std::uint64_t kills = random_.below(static_cast<std::uint64_t>(ranks));
    for (std::uint64_t i = 0; i < kills; ++i) {
      deaths_.emplace_back(random_.below(3) == 0 ? 0 : random_.below(60),
                           static_cast<int>(random_.below(static_cast<std::uint64_t>(ranks))));
    }
    for (int rank = 0; rank < ranks; ++rank) says_.push_back(random_.below(8) != 0);
  }

  transport::SimOutcome run(std::uint64_t seed) {
    transport::SimScheduler scheduler(world_, seed);
    for (std::size_t rank = 0; rank < transports_.size(); ++rank) {
      scheduler.add(
          {[this, rank] { return step(rank); }, {}, [this, rank] { return is_over(rank); }});
    }
    return scheduler.run();
  }

  // Empty, or what is wrong.
  std::string judge() const {
    for (int round = 0; round < rounds_; ++round) {
      const transport::Verdict* first = nullptr;
      for (std::size_t rank = 0; rank < verdicts_.size(); ++rank) {
        if (verdicts_[rank].size() <= static_cast<std::size_t>(round)) {
          if (world_.is_alive(static_cast<int>(rank)))
            return fmt::format("rank {} lives and came to no end in round {}", rank, round);
          continue;
        }
        const transport::Verdict& own = verdicts_[rank][static_cast<std::size_t>(round)];
        if (!world_.is_alive(static_cast<int>(rank)))
          continue;  // what it came to may have died with it
        if (first != nullptr && own != *first)
          return fmt::format("rank {} came to another end in round {}", rank, round);
        first = &own;
        if (own.all_said_yes && world_.is_alive(static_cast<int>(rank)) && !says_[rank])
          return fmt::format("the no of rank {} is lost", rank);
      }
      for (std::size_t rank = 0; first != nullptr && rank < verdicts_.size(); ++rank) {
        if (first->dead[rank] && world_.is_alive(static_cast<int>(rank)))
          return fmt::format("rank {} lives and is given up", rank);
      }
    }
    return {};
  }

  int died() const {
    int count = 0;
    for (int rank = 0; rank < world_.size(); ++rank) count += !world_.is_alive(rank);
    return count;
  }

 private:
  bool step(std::size_t rank) {
    ++steps_;
    for (const auto& [at, victim] : deaths_) {
      if (at < steps_ && world_.is_alive(victim) && died() + 1 < world_.size()) world_.kill(victim);
    }
    if (is_over(rank)) return true;
    transport::SurvivorAgreement& own = *agreements_[rank];
    if (!begun_.contains(rank)) {
      begun_.insert(rank);
      own.begin(says_[rank]);
    }
    own.step();
    if (!own.ended()) return false;
    verdicts_[rank].push_back(own.verdict());
    begun_.erase(rank);
    return true;
  }

  bool is_over(std::size_t rank) const {
    return !world_.is_alive(static_cast<int>(rank)) ||
           verdicts_[rank].size() == static_cast<std::size_t>(rounds_);
  }

  SeededRandom random_;
  int rounds_;
  transport::LoopbackWorld world_;
  std::vector<std::unique_ptr<transport::Transport>> transports_;
  std::vector<std::unique_ptr<transport::SurvivorAgreement>> agreements_;
  std::vector<std::pair<std::uint64_t, int>> deaths_;  // at which step of all, and who
  std::vector<bool> says_;
  std::set<std::size_t> begun_;
  std::vector<std::vector<transport::Verdict>> verdicts_;
  std::uint64_t steps_ = 0;
};

TEST(SurvivorAgreement, AllWhoComeToAnEndComeToTheSame) {
  const std::uint64_t seeds = test::by_tier<std::uint64_t>(20'000, 1'000'000);
  int died = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SeededRandom random(mix64(seed ^ 0x51de));
    const int ranks = static_cast<int>(1 + random.below(8));
    Survivors survivors(seed, ranks, 3);
    const transport::SimOutcome outcome = survivors.run(seed);
    died += survivors.died();
    ASSERT_TRUE(outcome.ok()) << "seed " << seed << ", " << ranks << " ranks: " << outcome.report;
    ASSERT_EQ(survivors.judge(), "") << "seed " << seed << ", " << ranks << " ranks";
  }
  EXPECT_GT(died, static_cast<int>(seeds / 2)) << "hardly anybody died: this tests little";
}

// Threads, as the blocking calls are used.
template <class Program>
void run_threads(transport::LoopbackWorld& world, const Program& program) {
  std::vector<std::unique_ptr<transport::Transport>> transports;
  for (int rank = 0; rank < world.size(); ++rank) transports.push_back(world.make_transport(rank));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world.size(); ++rank) {
    threads.emplace_back([&, rank] { program(*transports[static_cast<std::size_t>(rank)]); });
  }
}

// A rank's transport that takes some peers for dead, though they live.
class Suspicious final : public transport::Transport {
 public:
  Suspicious(transport::Transport& inner, std::set<int> lost)
      : inner_(inner), lost_(std::move(lost)) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string_view name() const override { return inner_.name(); }
  const transport::Capabilities& capabilities() const override { return inner_.capabilities(); }
  std::string describe_peer(int peer) const override { return inner_.describe_peer(peer); }
  transport::OperationRef send(int peer, transport::Channel channel, Buffer message) override {
    return lost_.contains(peer) ? lost_operation(peer)
                                : inner_.send(peer, channel, std::move(message));
  }
  transport::OperationRef receive(int peer, transport::Channel channel, Buffer space) override {
    return lost_.contains(peer) ? lost_operation(peer)
                                : inner_.receive(peer, channel, std::move(space));
  }
  void cancel(const transport::OperationRef& operation) override {
    if (operation != nullptr && !operation->done) inner_.cancel(operation);
  }
  Status progress(std::vector<transport::OperationRef>& completed) override {
    return inner_.progress(completed);
  }
  void idle(std::uint64_t turns, double until_seconds) override {
    inner_.idle(turns, until_seconds);
  }
  double now() override { return inner_.now(); }
  void signal(int peer, const transport::Signal& signal) override { inner_.signal(peer, signal); }
  bool poll_signal(transport::Signal& signal) override { return inner_.poll_signal(signal); }
  void close(transport::Channel channel) override { inner_.close(channel); }

 private:
  transport::OperationRef lost_operation(int peer) const {
    const auto operation = std::make_shared<transport::Operation>();
    operation->peer = peer;
    operation->done = true;
    operation->status = Status(Code::kRemoteError, fmt::format("rank {} does not answer", peer));
    return operation;
  }

  transport::Transport& inner_;
  std::set<int> lost_;
};

// Rank 1 was stopped. Those who waited for it have given it up, and it them; rank 0 has heard of
// nothing.
TEST(SurvivorAgreement, WhoIsBackDoesNotTakeTheOthersWithIt) {
  for (const int ranks : {4, 5, 8}) {
    transport::LoopbackWorld world(ranks);
    run_threads(world, [&](transport::Transport& transport) {
      std::set<int> lost;
      for (int other = 2; transport.rank() == 1 && other < ranks; ++other) lost.insert(other);
      if (transport.rank() > 1) lost.insert(1);
      Suspicious own(transport, lost);
      transport::SurvivorAgreement agreement(own, kAgreementChannel);
      const Result<transport::Verdict> verdict = agreement.agree(true, 20);
      if (transport.rank() == 1) {
        EXPECT_EQ(verdict.status().code(), Code::kRemoteError) << verdict.status().message();
        return;
      }
      ASSERT_TRUE(verdict.ok()) << "rank " << transport.rank() << ": "
                                << verdict.status().message();
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(verdict->dead[static_cast<std::size_t>(rank)], rank == 1) << rank;
    });
  }
}

TEST(SurvivorAgreement, TheLateAreNamed) {
  transport::LoopbackWorld world(3);
  run_threads(world, [](transport::Transport& transport) {
    if (transport.rank() == 1) return;  // lives, and does not take part
    transport::SurvivorAgreement agreement(transport, kAgreementChannel);
    // Rank 2 waits for rank 0, which lives and takes part; that one knows for whom both wait.
    const Result<transport::Verdict> verdict =
        agreement.agree(true, transport.rank() == 0 ? 0.4 : 2);
    ASSERT_EQ(verdict.status().code(), Code::kTimeout);
    EXPECT_THAT(verdict.status().message(), testing::StartsWith("rank 1 ("));
    if (transport.rank() == 2) {
      EXPECT_THAT(verdict.status().message(), HasSubstr("(as rank 0 ("));
    }
  });
}

TEST(SurvivorGather, SurvivorsHearOfEachOtherAndOfNobodyElse) {
  transport::LoopbackWorld world(5);
  world.kill(0);
  world.kill(3);
  const std::vector<int> living{1, 2, 4};
  run_threads(world, [&](transport::Transport& transport) {
    if (!world.is_alive(transport.rank())) return;
    transport::SurvivorAgreement agreement(transport, kAgreementChannel);
    const Result<transport::Verdict> verdict = agreement.agree(transport.rank() != 2, 60);
    ASSERT_TRUE(verdict.ok()) << verdict.status().message();
    EXPECT_THAT(verdict->dead, testing::ElementsAre(true, false, false, true, false));
    EXPECT_FALSE(verdict->all_said_yes);
    const transport::Bytes own(static_cast<std::size_t>(1000 * transport.rank()),
                               std::byte(transport.rank()));
    const Result<std::vector<transport::Bytes>> all =
        survivor_gather(transport, {UINT32_MAX - 1, 0}, living, own, 60);
    ASSERT_TRUE(all.ok()) << all.status().message();
    ASSERT_EQ(all->size(), living.size());
    for (std::size_t i = 0; i < living.size(); ++i) {
      EXPECT_EQ((*all)[i],
                transport::Bytes(static_cast<std::size_t>(1000 * living[i]), std::byte(living[i])));
    }
  });
}

TEST(SurvivorGather, ADeathIsAnErrorAndKeepsNobodyWaiting) {
  transport::LoopbackWorld world(4);
  world.kill(2);
  const std::vector<int> thought_living{0, 1, 2, 3};
  run_threads(world, [&](transport::Transport& transport) {
    if (!world.is_alive(transport.rank())) return;
    const transport::Bytes own(10);
    const Result<std::vector<transport::Bytes>> all =
        survivor_gather(transport, {UINT32_MAX - 1, 0}, thought_living, own, 60);
    EXPECT_EQ(all.status().code(), Code::kRemoteError);
    EXPECT_THAT(all.status().message(), HasSubstr("rank 2"));
  });
}

}  // namespace
}  // namespace sparcl
