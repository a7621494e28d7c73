// Rounds: who counts, when a round ends, and that each contribution counts once.
#include "src/aggregate/round/round.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "src/base/seeded_random.hpp"

namespace sparcl::aggregate {
namespace {

using Kind = Answer::Kind;

constexpr double kNeverComes = std::numeric_limits<double>::infinity();

RoundOptions quorum_of(std::uint32_t quorum, GraceOptions grace = {}) {
  RoundOptions options;
  options.mode = RoundMode::kQuorum;
  options.quorum = quorum;
  options.deadline_s = 10;
  options.grace = grace;
  return options;
}

RoundOptions asynchronous(std::uint32_t quorum) {
  RoundOptions options = quorum_of(quorum);
  options.mode = RoundMode::kAsynchronous;
  return options;
}

RoundOptions synchronous() {
  RoundOptions options;
  options.deadline_s = 10;
  return options;
}

// Workers 0 to `workers` - 1 in slots of the same numbers.
class Workers {
 public:
  Workers(const RoundOptions& options, WorkerId workers) : round(options) {
    for (WorkerId each = 0; each < workers; ++each) round.join(each);
  }
  Answer offer(WorkerId worker, std::uint64_t number, double now = 0, double weight = 1) {
    return round.offer({{worker, number}, static_cast<std::uint32_t>(worker), weight}, now);
  }
  std::vector<ContributionId> listed() const {
    std::vector<ContributionId> ids;
    for (const Listed& each : round.closing().listed) ids.push_back(each.id);
    return ids;
  }
  Round round;
};

TEST(SynchronousRound, WaitsForAllAndListsThemByTheirSlots) {
  Workers all(synchronous(), 3);
  EXPECT_EQ(all.offer(2, 0).kind, Kind::kListed);
  EXPECT_EQ(all.offer(0, 0).kind, Kind::kListed);
  EXPECT_FALSE(all.round.is_closed());
  EXPECT_TRUE(all.offer(1, 0).is_new);
  ASSERT_TRUE(all.round.is_closed());
  EXPECT_EQ(all.listed(), (std::vector<ContributionId>{{0, 0}, {1, 0}, {2, 0}}));
  EXPECT_EQ(all.round.closing().active, 3u);
  all.round.committed();
  EXPECT_EQ(all.round.number(), 1u);
  EXPECT_FALSE(all.round.is_closed());
}

// Forgather: a retry after a lost answer counts in the next round. Hypha: as another worker.
TEST(SynchronousRound, ARetryDoesNotCountAgain) {
  Workers all(synchronous(), 2);
  EXPECT_TRUE(all.offer(0, 0).is_new);
  EXPECT_EQ(all.offer(0, 0).kind, Kind::kListed);
  EXPECT_FALSE(all.offer(0, 0).is_new);
  all.offer(1, 0);
  EXPECT_EQ(all.listed().size(), 2u);
  EXPECT_EQ(all.offer(0, 0).kind, Kind::kListed) << "closed, not committed";
  all.round.committed();
  EXPECT_EQ(all.offer(0, 0).kind, Kind::kCommitted);
  EXPECT_EQ(all.offer(0, 0).round, 0u);
  all.offer(0, 1);
  all.offer(1, 1);
  EXPECT_EQ(all.listed(), (std::vector<ContributionId>{{0, 1}, {1, 1}}));
}

TEST(SynchronousRound, AKilledWorkerIsNotWaitedFor) {
  Workers all(synchronous(), 3);
  all.offer(0, 0);
  all.offer(2, 0);
  all.round.leave(1);
  ASSERT_TRUE(all.round.is_closed());
  EXPECT_EQ(all.listed(), (std::vector<ContributionId>{{0, 0}, {2, 0}}));
  EXPECT_EQ(all.round.closing().active, 3u) << "a mean over workers divides by those at its begin";
  all.round.committed();
  all.offer(0, 1);
  all.offer(2, 1);
  EXPECT_EQ(all.round.closing().active, 2u);
}

// Forgather drops the finished work of a worker that dies behind it.
TEST(SynchronousRound, WhatAWorkerHasSentCountsAfterItsDeath) {
  Workers all(synchronous(), 2);
  all.offer(1, 0);
  all.round.leave(1);
  all.offer(0, 0);
  EXPECT_EQ(all.listed(), (std::vector<ContributionId>{{0, 0}, {1, 0}}));
}

TEST(SynchronousRound, ASilentWorkerCostsOneDeadline) {
  Workers all(synchronous(), 3);
  EXPECT_EQ(all.round.wakes_at(), kNeverComes) << "before the first contribution";
  all.offer(0, 0, 100);
  all.offer(1, 0, 105);
  EXPECT_EQ(all.round.wakes_at(), 110);
  all.round.advance(109.9);
  EXPECT_FALSE(all.round.is_closed());
  all.round.advance(110);
  ASSERT_TRUE(all.round.is_closed());
  EXPECT_EQ(all.round.closing().expelled, std::vector<WorkerId>{2});
  all.round.committed();
  all.offer(0, 1, 111);
  all.offer(1, 1, 112);
  EXPECT_TRUE(all.round.is_closed()) << "the next round does not wait for it";
}

TEST(SynchronousRound, ALateContributionCountsInTheNextRound) {
  RoundOptions options = synchronous();
  options.late_factor = 0.5;
  Workers all(options, 2);
  all.offer(0, 0, 0);
  all.round.advance(10);
  EXPECT_EQ(all.offer(1, 0, 11, 8).round, 1u) << "while the round is closed";
  all.round.committed();
  all.round.join(1);
  EXPECT_EQ(all.offer(1, 0, 12).kind, Kind::kListed);
  EXPECT_FALSE(all.offer(1, 0, 12).is_new);
  all.offer(0, 1, 12);
  ASSERT_TRUE(all.round.is_closed());
  EXPECT_EQ(all.listed(), (std::vector<ContributionId>{{0, 1}, {1, 0}}));
  EXPECT_EQ(all.round.closing().listed[1].weight, 4);
  EXPECT_EQ(all.round.closing().listed[1].rounds_late, 1u);
}

TEST(SynchronousRound, AWorkerThatJoinsIsWaitedForFromTheNextRoundOn) {
  Workers all(synchronous(), 2);
  all.offer(0, 0);
  EXPECT_EQ(all.round.join(7), 2u);
  all.offer(1, 0);
  ASSERT_TRUE(all.round.is_closed());
  all.round.committed();
  all.offer(0, 1);
  all.offer(1, 1);
  EXPECT_FALSE(all.round.is_closed());
  EXPECT_EQ(all.round.offer({{7, 1}, 2, 1}, 0).kind, Kind::kListed);
  EXPECT_TRUE(all.round.is_closed());
}

TEST(SynchronousRound, ASlotIsFreeOnceItsRoundIsOver) {
  Workers all(synchronous(), 3);
  all.round.leave(1);
  EXPECT_EQ(all.round.join(8), 3u) << "slot 1 is taken in this round";
  all.offer(0, 0);
  all.offer(2, 0);
  all.round.offer({{8, 0}, 3, 1}, 0);
  all.round.committed();
  EXPECT_EQ(all.round.join(9), 1u);
  EXPECT_EQ(all.round.join(9), 1u);
}

TEST(QuorumRound, EndsWithItsGraceWindow) {
  Workers all(quorum_of(2, {1, 5}), 4);
  all.offer(0, 0, 0);
  all.offer(3, 0, 2);
  EXPECT_EQ(all.round.wakes_at(), 7) << "nothing is known of other rounds: the longest window";
  all.offer(1, 0, 3);
  all.round.advance(7);
  ASSERT_TRUE(all.round.is_closed());
  EXPECT_EQ(all.listed(), (std::vector<ContributionId>{{0, 0}, {1, 0}, {3, 0}}));
}

TEST(QuorumRound, EndsAtOnceIfAllAreThere) {
  Workers all(quorum_of(2, {1, 5}), 3);
  for (const WorkerId each : {0, 1, 2}) all.offer(each, 0);
  EXPECT_TRUE(all.round.is_closed());
}

TEST(QuorumRound, TheGraceWindowFollowsTheLastWorkers) {
  Workers all(quorum_of(1, {0.1, 5}), 2);
  double now = 0;
  for (std::uint64_t number = 0; number < 12; ++number, now += 100) {
    all.offer(0, number, now);
    all.offer(1, number, now + 2);
    ASSERT_TRUE(all.round.is_closed());
    all.round.committed();
  }
  EXPECT_NEAR(all.round.grace_s(), 2.5, 0.01);
  all.offer(0, 12, now);
  all.round.advance(now + 2.6);
  all.round.committed();
  all.offer(1, 12, now + 6);
  EXPECT_NEAR(all.round.grace_s(), 1.25 * (0.75 * 2 + 0.25 * 6), 0.01)
      << "one that came too late counts, too";
}

TEST(QuorumRound, FailsByNameWithoutItsQuorum) {
  Workers all(quorum_of(2), 3);
  all.offer(0, 0, 0);
  all.round.advance(10);
  ASSERT_TRUE(all.round.is_closed());
  EXPECT_TRUE(all.round.closing().is_short);
  all.round.failed("1 of 2 contributions after 10 s");
  const Answer answer = all.offer(0, 0, 11);
  EXPECT_EQ(answer.kind, Kind::kRefused);
  EXPECT_EQ(answer.reason, "1 of 2 contributions after 10 s");
  EXPECT_EQ(all.offer(1, 0, 11).kind, Kind::kListed) << "it was not in the round that failed";
}

TEST(AsynchronousRound, EndsWithEachQuorumOfContributionsAndTakesStaleOnes) {
  RoundOptions options = asynchronous(2);
  options.max_rounds_late = 1;
  Workers all(options, 4);
  all.offer(0, 0);
  all.offer(1, 0);
  ASSERT_TRUE(all.round.is_closed());
  all.round.committed();
  all.offer(0, 1);
  all.offer(2, 0);
  ASSERT_TRUE(all.round.is_closed());
  EXPECT_EQ(all.listed(), (std::vector<ContributionId>{{0, 1}, {2, 0}}));
  all.round.committed();
  const Answer answer = all.offer(3, 0);
  EXPECT_EQ(answer.kind, Kind::kRefused);
  EXPECT_EQ(answer.reason, "it is 2 rounds late, at most 1 are allowed");
}

TEST(AsynchronousRound, ContributionsBesideAClosedRoundMayCloseTheNextOne) {
  Workers all(asynchronous(2), 4);
  for (const WorkerId each : {0, 1, 2, 3}) all.offer(each, 0);
  EXPECT_EQ(all.listed(), (std::vector<ContributionId>{{0, 0}, {1, 0}}));
  all.round.committed();
  ASSERT_TRUE(all.round.is_closed());
  EXPECT_EQ(all.listed(), (std::vector<ContributionId>{{2, 0}, {3, 0}}));
}

// Otherwise the last contributions of a training would wait for ever.
TEST(AnyRound, LateContributionsEndARoundForWhichNobodyIsAwaited) {
  Workers all(quorum_of(1), 2);
  all.offer(0, 0);
  all.round.advance(1);  // the quorum, and no grace
  ASSERT_TRUE(all.round.is_closed());
  all.round.committed();
  EXPECT_EQ(all.offer(1, 0, 2).kind, Kind::kListed);
  EXPECT_FALSE(all.round.is_closed());
  all.round.leave(0);
  all.round.leave(1);
  ASSERT_TRUE(all.round.is_closed());
  EXPECT_FALSE(all.round.closing().is_short);
  EXPECT_EQ(all.listed(), (std::vector<ContributionId>{{1, 0}}));
}

TEST(AnyRound, LateContributionsAloneCountAtTheDeadline) {
  Workers all(quorum_of(2), 3);
  all.offer(0, 0);
  all.offer(1, 0);
  all.round.advance(1);
  ASSERT_TRUE(all.round.is_closed());
  all.round.committed();
  EXPECT_EQ(all.offer(2, 0, 2).kind, Kind::kListed);
  EXPECT_EQ(all.round.wakes_at(), 12);
  all.round.advance(12);
  ASSERT_TRUE(all.round.is_closed());
  EXPECT_FALSE(all.round.closing().is_short);
}

TEST(AnyRound, IsNotHeldUpByARefusedContribution) {
  Workers all(synchronous(), 2);
  EXPECT_EQ(all.offer(0, 0, 0, std::nan("")).kind, Kind::kRefused);
  EXPECT_FALSE(all.round.is_closed());
  EXPECT_EQ(all.offer(1, 0).kind, Kind::kListed);
  ASSERT_TRUE(all.round.is_closed());
  EXPECT_FALSE(all.round.closing().is_short);
  all.round.committed();
  // With refused ones alone it fails, and the next one begins.
  EXPECT_EQ(all.offer(0, 1, 0, -1).kind, Kind::kRefused);
  EXPECT_EQ(all.offer(1, 1, 0, -1).kind, Kind::kRefused);
  ASSERT_TRUE(all.round.is_closed());
  EXPECT_TRUE(all.round.closing().is_short);
}

TEST(AnyRound, AWorkerThatConnectsAgainAfterARefusalIsNotAwaited) {
  Round round(RoundOptions{}, 1);
  const std::uint32_t first = *round.join(1), second = *round.join(2);
  EXPECT_EQ(round.offer({{1, 1}, first, -1}, 0).kind, Answer::Kind::kRefused);
  round.leave(1);
  (void)round.join(1);
  EXPECT_EQ(round.offer({{2, 1}, second, 1}, 0).kind, Answer::Kind::kListed);
  ASSERT_TRUE(round.is_closed());
  EXPECT_EQ(round.closing().active, 2u) << "a worker counts once, however often it connects";
}

TEST(AnyRound, RefusedContributionsAloneFailAtTheDeadline) {
  Round round(RoundOptions{}, 1);
  const std::uint32_t slot = *round.join(1);
  (void)round.join(2);
  EXPECT_EQ(round.offer({{1, 1}, slot, -1}, 0).kind, Answer::Kind::kRefused);
  round.advance(1e6);
  ASSERT_TRUE(round.is_closed());
  EXPECT_TRUE(round.closing().is_short);
}

TEST(AnyRound, RefusesWhatItCannotCount) {
  Workers all(synchronous(), 3);
  EXPECT_EQ(all.offer(0, 0, 0, std::nan("")).kind, Kind::kRefused);
  EXPECT_EQ(all.offer(0, 0).kind, Kind::kRefused) << "the worker has it in its residual by now";
  EXPECT_EQ(all.round.offer({{1, 0}, 0, 1}, 0).reason,
            "it names slot 0, but its worker has slot 1");
  EXPECT_EQ(all.round.offer({{5, 0}, 5, 1}, 0).reason, "worker 5 has not joined");
  EXPECT_EQ(all.offer(1, 1).kind, Kind::kEarly);
}

TEST(AnyRound, ForgetsWhatIsVeryOld) {
  Workers all(synchronous(), 1);
  for (std::uint64_t number = 0; number < kMaxRoundsLate + 2; ++number) {
    ASSERT_EQ(all.offer(0, number).kind, Kind::kListed);
    all.round.committed();
  }
  EXPECT_EQ(all.offer(0, 0).kind, Kind::kForgotten);
  EXPECT_EQ(all.offer(0, 3).kind, Kind::kCommitted);
}

TEST(RoundOptions, ThatMakeNoSenseAreRefused) {
  EXPECT_TRUE(check_round_options(synchronous()).ok());
  EXPECT_FALSE(check_round_options(quorum_of(0)).ok());
  EXPECT_FALSE(check_round_options(quorum_of(1, {2, 1})).ok());
  EXPECT_FALSE(check_round_options(quorum_of(1, {0, kNeverComes})).ok());
  RoundOptions options;
  for (const double wrong : {0.0, -1.0, std::nan("")}) {
    options.deadline_s = wrong;
    EXPECT_FALSE(check_round_options(options).ok()) << wrong;
  }
  options = {};
  options.late_factor = 1.5;
  EXPECT_FALSE(check_round_options(options).ok());
  options = {};
  options.max_rounds_late = kMaxRoundsLate + 1;
  EXPECT_FALSE(check_round_options(options).ok());
}

TEST(Round, AWorkerHasTheSlotThatItAsksFor) {
  Membership members;
  EXPECT_EQ(members.join(1, {.number = 6}), kNumberedSlots + 5);
  EXPECT_EQ(members.join(2, {}), 0u);
  EXPECT_EQ(members.join(3, {.number = 6}), std::nullopt) << "another one has it";
  EXPECT_EQ(members.join(3, {.number = 1}), kNumberedSlots);
  EXPECT_EQ(members.join(4, {}), 1u);
  EXPECT_TRUE(members.leave(1));
  EXPECT_EQ(members.join(5, {.number = 6}), kNumberedSlots + 5) << "its number is free at once";
  members.end_round();
  EXPECT_EQ(members.slot_of(5), kNumberedSlots + 5);
}

TEST(Round, WorkersOfAGroupHaveSlotsBesideEachOther) {
  Membership members;
  for (WorkerId worker = 0; worker < 100; ++worker)
    EXPECT_EQ(members.join(2 * worker, {.group = 7}), worker);
  EXPECT_EQ(members.join(1, {.group = 8}), 2 * kGroupSlots) << "behind the second block";
}

// A contributes what is refused, and so no more to this round; B's is lost; then both leave.
TEST(Round, EndsWhenNobodyIsAwaitedAnyMore) {
  for (const bool is_withdrawn : {false, true}) {
    Workers all(synchronous(), 3);
    EXPECT_EQ(all.offer(0, 0, 0, -1).kind, Kind::kRefused);
    if (is_withdrawn) {
      EXPECT_TRUE(all.offer(1, 0).is_new);
      all.round.withdraw({1, 0});
    }
    all.round.leave(1);
    EXPECT_FALSE(all.round.is_closed());
    EXPECT_EQ(all.round.wakes_at(), 10);
    all.round.leave(2);
    ASSERT_TRUE(all.round.is_closed());
    EXPECT_TRUE(all.round.closing().is_short);
  }
}

TEST(Round, WhatIsWithdrawnCountsWhenItComesAgain) {
  Workers all(quorum_of(2, {}), 3);
  EXPECT_TRUE(all.offer(0, 0).is_new);
  all.round.withdraw({0, 0});
  EXPECT_TRUE(all.offer(1, 0).is_new);
  EXPECT_FALSE(all.round.is_closed()) << "one is fewer than the quorum";
  EXPECT_TRUE(all.offer(2, 0).is_new);
  all.round.advance(0);
  ASSERT_TRUE(all.round.is_closed());
  all.round.withdraw({1, 0});
  EXPECT_TRUE(all.round.closing().is_short);
  EXPECT_EQ(all.round.closing().listed.size(), 1u);
  all.round.failed("a test");
  EXPECT_EQ(all.offer(2, 0).kind, Kind::kRefused);
  const Answer late = all.offer(1, 0);
  EXPECT_TRUE(late.is_new);
  EXPECT_EQ(late.listed.rounds_late, 1u);
}

// A worker as it should be: it keeps a contribution until its fate is known, offers it again, and
// dies and comes back now and then. Messages and answers get lost.
class RandomRun {
 public:
  explicit RandomRun(std::uint64_t seed) : random_(seed), round_(options()) {
    for (WorkerId worker = 0; worker < 6; ++worker) slots_[worker] = *round_.join(worker);
  }

  void run() {
    for (int event = 0; event < 400; ++event) {
      now_ += random_.unit();
      if (random_.chance(0.03)) rejoin(random_.below(6));
      if (random_.chance(0.03)) round_.withdraw({random_.below(6), round_.number()});
      work(random_.below(6));
      round_.advance(now_);
      if (round_.is_closed() && random_.chance(0.5)) end_round();
    }
    for (int turn = 0; turn < 60; ++turn) {  // everything is delivered in the end
      now_ += 20;
      for (WorkerId worker = 0; worker < 6; ++worker) deliver(worker);
      round_.advance(now_);
      while (round_.is_closed()) end_round();
    }
  }

  void check() const {
    std::size_t fates = 0;
    for (const ContributionId& id : made_) {
      const bool is_kept = kept_.contains(id.worker) && kept_.at(id.worker) == id.round;
      EXPECT_EQ(counted_.count(id) + refused_.count(id) + (is_kept ? 1 : 0), 1u)
          << id.worker << " in round " << id.round;
      fates += counted_.count(id);
    }
    EXPECT_EQ(counted_.size(), fates) << "only what was made counts";
    EXPECT_GT(fates, 20u);
  }

 private:
  RoundOptions options() {
    RoundOptions options = quorum_of(1 + static_cast<std::uint32_t>(random_.below(4)), {0, 2});
    options.mode = static_cast<RoundMode>(random_.below(3));
    options.max_rounds_late = 1 + random_.below(6);
    return options;
  }

  void rejoin(WorkerId worker) {
    round_.leave(worker);
    if (random_.chance(0.7)) slots_[worker] = *round_.join(worker);
  }

  void work(WorkerId worker) {
    if (!kept_.contains(worker) && !made_.contains({worker, round_.number()})) {
      kept_[worker] = round_.number();
      slots_[worker] = *round_.join(worker);
      kept_slot_[worker] = slots_[worker];
      made_.insert({worker, round_.number()});
    }
    if (random_.chance(0.7)) deliver(worker);
  }

  void deliver(WorkerId worker) {
    if (!kept_.contains(worker)) return;
    const ContributionId id{worker, kept_[worker]};
    const Answer answer = round_.offer({id, kept_slot_[worker], 1}, now_);
    if (random_.chance(0.2)) return;  // the answer is lost
    if (answer.kind == Kind::kCommitted || answer.kind == Kind::kRefused) kept_.erase(worker);
    if (answer.kind == Kind::kRefused) {
      EXPECT_TRUE(refused_.insert(id).second);
    }
  }

  // An aggregator below was lost, and its entries with it: its workers offer them again.
  void lose_some() {
    const std::vector<Listed> listed = round_.closing().listed;
    for (const Listed& each : listed) {
      if (random_.chance(0.1)) round_.withdraw(each.id);
    }
  }

  void end_round() {
    if (random_.chance(0.2)) lose_some();
    const bool fails = round_.closing().is_short || random_.chance(0.1);
    for (const Listed& each : round_.closing().listed) {
      if (fails) continue;
      EXPECT_TRUE(counted_.insert(each.id).second) << "twice";
    }
    fails ? round_.failed("a test") : round_.committed();
  }

  SeededRandom random_;
  Round round_;
  double now_ = 0;
  std::map<WorkerId, std::uint32_t> slots_, kept_slot_;
  std::map<WorkerId, std::uint64_t> kept_;
  std::set<ContributionId> made_, counted_, refused_;
};

TEST(AnyRound, EachContributionHasOneFateInRandomRuns) {
  for (std::uint64_t seed = 0; seed < 1'000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomRun run(seed);
    run.run();
    run.check();
  }
}

}  // namespace
}  // namespace sparcl::aggregate
