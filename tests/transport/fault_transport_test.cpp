#include "src/transport/fault/fault_transport.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <thread>

#include "src/transport/loopback/loopback_world.hpp"
#include "src/transport/loopback/sim_scheduler.hpp"
#include "tests/support/tier.hpp"
#include "tests/transport/conformance.hpp"

namespace sparcl {
namespace {

using conformance::has_pattern;
using conformance::Party;
using conformance::pattern_message;

// Ranks of a deterministic world, each behind the same plan, driven by hand.
class FaultyWorld {
 public:
  FaultyWorld(int ranks, transport::FaultPlan plan,
              transport::LoopbackOptions options = {.deterministic = true})
      : world(ranks, options) {
    for (int rank = 0; rank < ranks; ++rank) {
      transports.push_back(
          std::make_unique<transport::FaultTransport>(world.make_transport(rank), plan));
      transports.back()->on_kill([this, rank] { world.kill(rank); });
    }
  }

  transport::FaultTransport& operator[](std::size_t rank) { return *transports[rank]; }

  // Until nothing moves at the present time.
  std::vector<transport::OperationRef> settle() {
    std::vector<transport::OperationRef> completed;
    for (bool moved = true; moved;) {
      const std::size_t before = completed.size();
      for (const auto& transport : transports)
        EXPECT_TRUE(transport->is_killed() || transport->progress(completed).ok());
      const bool delivered = world.deliver_one(random);
      moved = delivered || completed.size() > before;
    }
    return completed;
  }

  SeededRandom random{1};
  transport::LoopbackWorld world;
  std::vector<std::unique_ptr<transport::FaultTransport>> transports;
};

transport::FaultPlan plan_of(transport::FaultRule rule, std::uint64_t seed = 5) {
  return {seed, {rule}};
}

constexpr transport::Channel kChannel{1, 1};

class FaultFreeConformance : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, FaultFreeConformance, testing::Values(1, 2, 3, 4));

TEST_P(FaultFreeConformance, Deterministic) {
  FaultyWorld world(GetParam(), {});
  std::vector<transport::Transport*> local;
  for (const auto& transport : world.transports) local.push_back(transport.get());
  Party party(local);
  EXPECT_EQ(conformance::run_all(party, {.largest_bytes = 200'000, .many = 40}), "");
}

// Delays and reordering across lines are legal: nothing may change but the order of events.
TEST_P(FaultFreeConformance, WithHarmlessFaults) {
  for (std::uint64_t seed = 0; seed < test::by_tier<std::uint64_t>(8, 60); ++seed) {
    const transport::FaultPlan plan{
        seed,
        {{.fault = transport::Fault::kDelay, .probability = 0.1, .seconds = 0.01},
         {.fault = transport::Fault::kReorder, .probability = 0.2}}};
    FaultyWorld world(GetParam(), plan, {.deterministic = true, .seed = seed});
    std::vector<transport::Transport*> local;
    for (const auto& transport : world.transports) local.push_back(transport.get());
    Party party(local);
    EXPECT_EQ(conformance::run_all(party, {.largest_bytes = 100'000, .many = 10}), "")
        << plan.describe();
    EXPECT_FALSE(world[0].trace().empty());
  }
}

TEST_P(FaultFreeConformance, WithHarmlessFaultsAndThreads) {
  const transport::FaultPlan plan{
      11,
      {{.fault = transport::Fault::kDelay, .probability = 0.02, .seconds = 0.0005},
       {.fault = transport::Fault::kReorder, .probability = 0.1}}};
  transport::LoopbackWorld world(GetParam());
  std::vector<std::unique_ptr<transport::FaultTransport>> transports;
  for (int rank = 0; rank < GetParam(); ++rank)
    transports.push_back(
        std::make_unique<transport::FaultTransport>(world.make_transport(rank), plan));
  std::vector<std::string> troubles(transports.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < transports.size(); ++rank) {
      threads.emplace_back([&, rank] {
        Party party({transports[rank].get()});
        troubles[rank] = conformance::run_all(party, {.largest_bytes = 200'000, .many = 40});
      });
    }
  }
  for (const std::string& trouble : troubles) EXPECT_EQ(trouble, "");
}

TEST(FaultTransport, DropLosesTheMessageAndItsSendSucceeds) {
  FaultyWorld world(2, plan_of({.fault = transport::Fault::kDrop, .at = 1}));
  const transport::OperationRef first = world[1].receive(0, kChannel, Buffer::allocate(100));
  const transport::OperationRef second = world[1].receive(0, kChannel, Buffer::allocate(100));
  const transport::OperationRef third = world[1].receive(0, kChannel, Buffer::allocate(100));
  for (std::uint64_t i = 0; i < 3; ++i) {
    const transport::OperationRef send = world[0].send(1, kChannel, pattern_message(100, i));
    world.settle();
    EXPECT_TRUE(send->done && send->status.ok());
  }
  EXPECT_TRUE(first->done && has_pattern(first->buffer.bytes(), 0));
  EXPECT_TRUE(second->done && has_pattern(second->buffer.bytes(), 2));
  EXPECT_FALSE(third->done);
}

TEST(FaultTransport, CutLosesWhatTwoRanksSendEachOtherFromAPointOn) {
  FaultyWorld world(3, plan_of({.fault = transport::Fault::kCut, .at = 1, .rank = 0, .peer = 1}));
  const transport::OperationRef before = world[1].receive(0, kChannel, Buffer::allocate(100));
  const transport::OperationRef after = world[1].receive(0, kChannel, Buffer::allocate(100));
  const transport::OperationRef back = world[0].receive(1, kChannel, Buffer::allocate(100));
  const transport::OperationRef beside = world[2].receive(1, kChannel, Buffer::allocate(100));
  world.settle();
  EXPECT_NE(world[0].send(2, kChannel, pattern_message(100, 0)), nullptr);
  EXPECT_NE(world[0].send(1, kChannel, pattern_message(100, 1)), nullptr);
  EXPECT_NE(world[1].send(0, kChannel, pattern_message(100, 2)), nullptr);
  EXPECT_NE(world[1].send(2, kChannel, pattern_message(100, 3)), nullptr);
  world[1].signal(0, transport::Signal{});
  world.settle();
  EXPECT_FALSE(before->done || after->done || back->done);
  EXPECT_TRUE(beside->done);
  transport::Signal signal;
  EXPECT_FALSE(world[0].poll_signal(signal));
  EXPECT_FALSE(world[0].holds_back() || world[1].holds_back());
}

TEST(FaultTransport, HalfOpenLosesOneWayFromATimeOn) {
  FaultyWorld world(
      2, plan_of({.fault = transport::Fault::kHalfOpen, .seconds = 5, .rank = 0, .peer = 1}));
  const transport::OperationRef early = world[1].receive(0, kChannel, Buffer::allocate(100));
  const transport::OperationRef late = world[1].receive(0, kChannel, Buffer::allocate(100));
  const transport::OperationRef back = world[0].receive(1, kChannel, Buffer::allocate(100));
  EXPECT_NE(world[0].send(1, kChannel, pattern_message(100, 0)), nullptr);
  world.settle();
  EXPECT_TRUE(early->done);
  world.world.advance_to(5);
  EXPECT_NE(world[0].send(1, kChannel, pattern_message(100, 1)), nullptr);
  EXPECT_NE(world[1].send(0, kChannel, pattern_message(100, 2)), nullptr);
  world.settle();
  EXPECT_FALSE(late->done);
  EXPECT_TRUE(back->done && has_pattern(back->buffer.bytes(), 2));
}

TEST(FaultTransport, SlowHoldsEveryMessageByAFactorOfItsOwn) {
  FaultyWorld world(2, plan_of({.fault = transport::Fault::kSlow, .probability = 1, .seconds = 2}));
  const transport::OperationRef received = world[1].receive(0, kChannel, Buffer::allocate(100));
  EXPECT_NE(world[0].send(1, kChannel, pattern_message(100, 0)), nullptr);
  world.settle();
  EXPECT_FALSE(received->done);
  const double due = world[0].next_wake(1e9);
  EXPECT_GE(due, 1.0);
  EXPECT_LE(due, 3.0);
  world.world.advance_to(due);
  world.settle();
  EXPECT_TRUE(received->done && has_pattern(received->buffer.bytes(), 0));
}

TEST(FaultTransport, DelayHoldsTheMessageAndWhatFollowsOnItsChannel) {
  FaultyWorld world(2, plan_of({.fault = transport::Fault::kDelay, .at = 0, .seconds = 4}));
  const transport::OperationRef delayed = world[1].receive(0, kChannel, Buffer::allocate(100));
  const transport::OperationRef behind = world[1].receive(0, kChannel, Buffer::allocate(100));
  const transport::OperationRef beside = world[1].receive(0, {1, 2}, Buffer::allocate(100));
  const transport::OperationRef send = world[0].send(1, kChannel, pattern_message(100, 0));
  EXPECT_NE(world[0].send(1, kChannel, pattern_message(100, 1)), nullptr);
  EXPECT_NE(world[0].send(1, {1, 2}, pattern_message(100, 2)), nullptr);
  world.settle();
  EXPECT_FALSE(send->done || delayed->done || behind->done);
  EXPECT_TRUE(beside->done);
  EXPECT_TRUE(world[0].holds_back());

  const double due = world[0].next_wake(1e9);
  EXPECT_GT(due, 0.0);
  EXPECT_LE(due, 4.0);
  world.world.advance_to(due);
  world.settle();
  EXPECT_TRUE(send->done && delayed->done && behind->done);
  EXPECT_TRUE(has_pattern(delayed->buffer.bytes(), 0) && has_pattern(behind->buffer.bytes(), 1));
  EXPECT_FALSE(world[0].holds_back());
  EXPECT_EQ(world[0].next_wake(1e9), 1e9);
}

TEST(FaultTransport, DuplicateArrivesTwiceAndIsReportedOnce) {
  FaultyWorld world(2, plan_of({.fault = transport::Fault::kDuplicate, .at = 0}),
                    {.deterministic = true, .eager_bytes = 0});
  std::vector<transport::OperationRef> receives;
  for (int i = 0; i < 3; ++i)
    receives.push_back(world[1].receive(0, kChannel, Buffer::allocate(100)));
  const transport::OperationRef send = world[0].send(1, kChannel, pattern_message(100, 0));
  EXPECT_NE(world[0].send(1, kChannel, pattern_message(100, 1)), nullptr);
  const std::vector<transport::OperationRef> completed = world.settle();
  EXPECT_EQ(std::count(completed.begin(), completed.end(), send), 1);
  EXPECT_EQ(completed.size(), 5u);
  EXPECT_TRUE(has_pattern(receives[0]->buffer.bytes(), 0) &&
              has_pattern(receives[1]->buffer.bytes(), 0));
  EXPECT_TRUE(has_pattern(receives[2]->buffer.bytes(), 1));
}

TEST(FaultTransport, ReorderLetsLaterMessagesToOthersPassAndKeepsTheChannelsOrder) {
  FaultyWorld world(3, plan_of({.fault = transport::Fault::kReorder, .at = 0, .seconds = 1}));
  const transport::OperationRef held = world[1].receive(0, kChannel, Buffer::allocate(10));
  const transport::OperationRef behind = world[1].receive(0, kChannel, Buffer::allocate(10));
  EXPECT_FALSE(world[0].send(1, kChannel, pattern_message(10, 0))->done);
  EXPECT_NE(world[0].send(2, kChannel, pattern_message(10, 1)), nullptr);
  const transport::OperationRef overtaking = world[2].receive(0, kChannel, Buffer::allocate(10));
  EXPECT_NE(world[0].send(1, kChannel, pattern_message(10, 2)), nullptr);
  world.settle();
  EXPECT_TRUE(overtaking->done);
  for (int i = 0; i < 4; ++i) EXPECT_NE(world[0].send(2, kChannel, Buffer()), nullptr);
  world.settle();
  EXPECT_TRUE(held->done && has_pattern(held->buffer.bytes(), 0));
  EXPECT_TRUE(behind->done && has_pattern(behind->buffer.bytes(), 2));
}

TEST(FaultTransport, CorruptFlipsOneToThreeBitsOfTheMessageOnly) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    FaultyWorld world(2, plan_of({.fault = transport::Fault::kCorrupt, .at = 0}, seed));
    const Buffer message = pattern_message(20, seed);
    const transport::OperationRef receive = world[1].receive(0, kChannel, Buffer::allocate(20));
    EXPECT_NE(world[0].send(1, kChannel, message), nullptr);
    world.settle();
    ASSERT_TRUE(receive->done);
    int flipped = 0;
    for (std::size_t i = 0; i < 20; ++i) {
      flipped +=
          std::popcount(std::to_integer<unsigned>(receive->buffer.data()[i] ^ message.data()[i]));
    }
    // Two flips of the same bit undo each other.
    EXPECT_LE(flipped, 3);
    EXPECT_TRUE(has_pattern(message.bytes(), seed)) << "the sender's own memory was changed";
    if (flipped == 0) continue;
    EXPECT_FALSE(has_pattern(receive->buffer.bytes(), seed));
  }
}

TEST(FaultTransport, TruncateLosesTheEnd) {
  FaultyWorld world(2, plan_of({.fault = transport::Fault::kTruncate, .probability = 1}));
  const transport::OperationRef receive = world[1].receive(0, kChannel, Buffer::allocate(100));
  const transport::OperationRef of_empty = world[1].receive(0, kChannel, Buffer::allocate(100));
  EXPECT_NE(world[0].send(1, kChannel, pattern_message(100, 3)), nullptr);
  EXPECT_NE(world[0].send(1, kChannel, Buffer()), nullptr);
  world.settle();
  ASSERT_TRUE(receive->done && of_empty->done);
  EXPECT_LT(receive->bytes, 100u);
  EXPECT_EQ(of_empty->bytes, 0u);
  EXPECT_TRUE(has_pattern(receive->buffer.bytes().first(receive->bytes / 8 * 8), 3));
}

TEST(FaultTransport, KilledRankDoesNothingAnyMoreAndItsPeersAreTold) {
  FaultyWorld world(2, plan_of({.fault = transport::Fault::kKill, .at = 2, .rank = 0}));
  const transport::OperationRef waiting = world[1].receive(0, {9, 0}, Buffer::allocate(10));
  EXPECT_NE(world[0].send(1, kChannel, Buffer::allocate(10)), nullptr);
  EXPECT_NE(world[0].send(1, kChannel, Buffer::allocate(10)), nullptr);
  EXPECT_FALSE(world[0].is_killed());
  const transport::OperationRef last = world[0].send(1, kChannel, Buffer::allocate(10));
  EXPECT_TRUE(world[0].is_killed());
  EXPECT_EQ(last->status.code(), Code::kSystemError);
  std::vector<transport::OperationRef> completed;
  EXPECT_EQ(world[0].progress(completed).code(), Code::kSystemError);
  world[0].signal(1, {});
  world.settle();
  transport::Signal signal;
  EXPECT_FALSE(world[1].poll_signal(signal));
  ASSERT_TRUE(waiting->done);
  EXPECT_EQ(waiting->status.code(), Code::kRemoteError);
  EXPECT_FALSE(world.world.is_alive(0));
}

TEST(FaultTransport, StoppedRankIsFrozenWithItsClockAndGoesOn) {
  FaultyWorld world(2,
                    plan_of({.fault = transport::Fault::kStop, .at = 0, .seconds = 30, .rank = 0}));
  const transport::OperationRef receive = world[1].receive(0, kChannel, Buffer::allocate(10));
  const transport::OperationRef own =
      world[0].receive(1, kChannel, Buffer::allocate(10));  // the stop begins here
  EXPECT_NE(world[1].send(0, kChannel, pattern_message(10, 1)), nullptr);
  EXPECT_NE(world[0].send(1, kChannel, pattern_message(10, 2)), nullptr);
  world[0].signal(1, {});
  world.settle();
  world.world.advance_to(29);
  world.settle();
  transport::Signal signal;
  EXPECT_FALSE(receive->done || own->done || world[1].poll_signal(signal));
  EXPECT_EQ(world[0].now(), 0.0);
  EXPECT_EQ(world[1].now(), 29.0);
  EXPECT_EQ(world[0].next_wake(5.0), 30.0);
  world.world.advance_to(30);
  world.settle();
  EXPECT_TRUE(receive->done && own->done && world[1].poll_signal(signal));
  EXPECT_EQ(world[0].now(), 30.0);
}

TEST(FaultTransport, CancelsWhatItHoldsBackAndWhatItHasPosted) {
  FaultyWorld world(2, plan_of({.fault = transport::Fault::kDelay, .probability = 1, .seconds = 1}),
                    {.deterministic = true, .eager_bytes = 0});
  const transport::OperationRef held = world[0].send(1, kChannel, pattern_message(10, 1));
  world[0].cancel(held);
  EXPECT_TRUE(held->done);
  EXPECT_EQ(held->status.code(), Code::kInProgress);
  const transport::OperationRef posted = world[0].send(1, {2, 0}, pattern_message(10, 2));
  world.world.advance_to(2);
  world.settle();
  EXPECT_FALSE(posted->done);  // nobody receives it
  world[0].cancel(posted);
  EXPECT_TRUE(posted->done);
  const transport::OperationRef receive = world[1].receive(0, kChannel, Buffer::allocate(10));
  EXPECT_TRUE(world.settle().empty() || receive->done);
  EXPECT_TRUE(has_pattern(receive->buffer.bytes(), 1));  // a cancelled send may still arrive
}

TEST(FaultTransport, RulesKeepToTheirRankPeerAndLane) {
  FaultyWorld world(
      3,
      plan_of(
          {.fault = transport::Fault::kDrop, .probability = 1, .rank = 0, .peer = 1, .lane = 1}));
  const auto arrives = [&](std::size_t from, std::size_t to, transport::Channel channel) {
    const transport::OperationRef receive =
        world[to].receive(static_cast<int>(from), channel, Buffer::allocate(4));
    EXPECT_NE(world[from].send(static_cast<int>(to), channel, Buffer::allocate(4)), nullptr);
    world.settle();
    return receive->done;
  };
  EXPECT_FALSE(arrives(0, 1, kChannel));
  EXPECT_TRUE(arrives(0, 1, {1, 2}));
  EXPECT_TRUE(arrives(0, 2, kChannel));
  EXPECT_TRUE(arrives(2, 1, kChannel));
}

// A little program under all faults at once: what happened is the same for the same seed, and
// differs between seeds.
std::string trace_under(std::uint64_t seed) {
  std::vector<transport::Fault> all;
  for (const transport::FaultRow& row : transport::fault_rows()) all.push_back(row.fault);
  FaultyWorld world(3, transport::FaultPlan::random(seed, 3, 60, all),
                    {.deterministic = true, .seed = seed});
  std::vector<transport::OperationRef> operations;
  for (std::uint32_t round = 0; round < 10; ++round) {
    for (int from = 0; from < 3; ++from) {
      for (int to = 0; to < 3; ++to) {
        operations.push_back(
            world[static_cast<std::size_t>(to)].receive(from, {round, 0}, Buffer::allocate(64)));
        operations.push_back(
            world[static_cast<std::size_t>(from)].send(to, {round, 0}, pattern_message(64, round)));
      }
    }
    world.settle();
    world.world.advance_to(world.world.now() + 0.05);
  }
  std::string text;
  for (const auto& transport : world.transports) text += transport->describe_trace() + "\n";
  for (const transport::OperationRef& each : operations) {
    text += fmt::format("{}{}:{:x} ", each->done, code_name(each->status.code()),
                        each->done && each->status.ok() && each->bytes > 0
                            ? std::to_integer<int>(each->buffer.data()[0])
                            : 0);
  }
  return text;
}

TEST(FaultTransport, TheSameSeedGivesTheSameTrace) {
  std::set<std::string> traces;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::string trace = trace_under(seed);
    EXPECT_EQ(trace, trace_under(seed)) << "seed " << seed;
    EXPECT_NE(trace.find(fmt::format("seed {}", seed)), std::string::npos);
    traces.insert(trace);
  }
  EXPECT_EQ(traces.size(), 200u);
}

TEST(FaultPlan, DescribesItsRules) {
  const transport::FaultPlan plan{
      17,
      {{.fault = transport::Fault::kDrop, .probability = 0.01, .lane = 1},
       {.fault = transport::Fault::kKill, .at = 57, .rank = 2},
       {.fault = transport::Fault::kStop, .at = 3, .seconds = 30, .rank = 0}}};
  EXPECT_EQ(plan.describe(),
            "seed 17: drop p=0.01 on lane 1; kill at 57 on rank 2; stop at 3 for 30 s on rank 0");
  EXPECT_EQ((transport::FaultPlan{4, {}}).describe(), "seed 4");
}

TEST(FaultPlan, RandomPlansUseTheAllowedFaultsOnly) {
  const std::array allowed{transport::Fault::kKill, transport::Fault::kDelay};
  std::set<transport::Fault> used;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (const transport::FaultRule& rule :
         transport::FaultPlan::random(seed, 4, 20, allowed).rules) {
      used.insert(rule.fault);
      EXPECT_LT(rule.rank, 4);
      if (rule.fault == transport::Fault::kKill) {
        EXPECT_LE(rule.at, 20u);
      }
    }
  }
  EXPECT_EQ(used, (std::set<transport::Fault>{allowed.begin(), allowed.end()}));
  EXPECT_TRUE(transport::FaultPlan::random(1, 4, 20, {}).rules.empty());
}

}  // namespace
}  // namespace sparcl
