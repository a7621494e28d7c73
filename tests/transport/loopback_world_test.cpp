#include "src/transport/loopback/loopback_world.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/tier.hpp"
#include "tests/transport/conformance.hpp"

namespace sparcl {
namespace {

using conformance::Limits;
using conformance::Party;

Limits limits_for(int ranks) {
  Limits limits;
  if (ranks > 2) limits = {.largest_bytes = std::size_t{1} << (ranks > 4 ? 18 : 20), .many = 60};
  return limits;
}

class LoopbackConformance : public testing::TestWithParam<int> {};

TEST_P(LoopbackConformance, WithThreads) {
  transport::LoopbackWorld world(GetParam());
  std::vector<std::string> troubles(static_cast<std::size_t>(GetParam()));
  std::vector<std::jthread> threads;
  std::vector<std::unique_ptr<transport::Transport>> transports;
  for (int rank = 0; rank < GetParam(); ++rank) transports.push_back(world.make_transport(rank));
  for (std::size_t rank = 0; rank < troubles.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Party party({transports[rank].get()});
      troubles[rank] = conformance::run_all(party, limits_for(GetParam()));
    });
  }
  threads.clear();
  for (const std::string& trouble : troubles) EXPECT_EQ(trouble, "");
}

TEST_P(LoopbackConformance, Deterministic) {
  for (std::uint64_t seed = 1; seed <= test::by_tier<std::uint64_t>(6, 40); ++seed) {
    transport::LoopbackWorld world(GetParam(), {.deterministic = true, .seed = seed});
    std::vector<std::unique_ptr<transport::Transport>> transports;
    std::vector<transport::Transport*> local;
    for (int rank = 0; rank < GetParam(); ++rank)
      local.push_back(transports.emplace_back(world.make_transport(rank)).get());
    Party party(local);
    Limits limits = limits_for(GetParam());
    if (seed > 1) limits = {.largest_bytes = 100'000, .many = 20};
    EXPECT_EQ(conformance::run_all(party, limits), "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, LoopbackConformance, testing::Values(1, 2, 3, 4, 5, 8));

// A pair of ranks driven by hand on this thread.
class LoopbackPair {
 public:
  explicit LoopbackPair(const transport::LoopbackOptions& options)
      : world(2, options), a(world.make_transport(0)), b(world.make_transport(1)) {}

  std::vector<transport::OperationRef> deliver_all_and_progress(transport::Transport& transport) {
    while (world.deliver_one(random)) {
    }
    std::vector<transport::OperationRef> completed;
    EXPECT_TRUE(transport.progress(completed).ok());
    return completed;
  }

  SeededRandom random{7};
  transport::LoopbackWorld world;
  std::unique_ptr<transport::Transport> a, b;
};

class LoopbackDeath : public testing::TestWithParam<bool> {
 protected:
  transport::LoopbackOptions options(bool announce = true) const {
    return {.deterministic = GetParam(), .announce_death = announce};
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, LoopbackDeath, testing::Bool());

TEST_P(LoopbackDeath, FailsPendingAndLaterOperationsAndNamesTheRank) {
  LoopbackPair pair(options());
  const transport::OperationRef receive = pair.a->receive(1, {1, 0}, Buffer::allocate(8));
  const transport::OperationRef send = pair.a->send(1, {1, 0}, Buffer::allocate(1'000'000));
  ASSERT_FALSE(receive->done);
  ASSERT_FALSE(send->done);
  pair.world.kill(1);
  EXPECT_EQ(pair.deliver_all_and_progress(*pair.a).size(), 2u);
  const transport::OperationRef later_receive = pair.a->receive(1, {2, 0}, Buffer::allocate(8));
  const transport::OperationRef later_send = pair.a->send(1, {2, 0}, Buffer::allocate(8));
  for (const transport::OperationRef& each : {receive, send, later_receive, later_send}) {
    ASSERT_TRUE(each->done);
    EXPECT_EQ(each->status.code(), Code::kRemoteError);
    EXPECT_NE(each->status.message().find("rank 1"), std::string::npos) << each->status.message();
  }
  EXPECT_FALSE(pair.world.is_alive(1));
}

TEST_P(LoopbackDeath, ASilentOneLeavesOperationsPending) {
  LoopbackPair pair(options(false));
  EXPECT_FALSE(pair.a->capabilities().knows_peer_death);
  const transport::OperationRef receive = pair.a->receive(1, {1, 0}, Buffer::allocate(8));
  const transport::OperationRef send = pair.a->send(1, {1, 0}, Buffer::allocate(1'000'000));
  pair.world.kill(1);
  EXPECT_TRUE(pair.deliver_all_and_progress(*pair.a).empty());
  EXPECT_FALSE(receive->done);
  EXPECT_FALSE(send->done);
}

TEST_P(LoopbackDeath, TheDeadRankItselfIsToldSo) {
  LoopbackPair pair(options());
  pair.world.kill(1);
  std::vector<transport::OperationRef> completed;
  EXPECT_EQ(pair.b->progress(completed).code(), Code::kSystemError);
  EXPECT_EQ(pair.b->send(0, {1, 0}, Buffer::allocate(8))->status.code(), Code::kSystemError);
  transport::Signal signal;
  pair.b->signal(0, signal);
  EXPECT_EQ(pair.world.in_flight_count(), GetParam() ? 1u : 0u);  // the news of the death alone
}

TEST_P(LoopbackDeath, AnOrderlyLeaveDeliversWhatWasSent) {
  LoopbackPair pair(options());
  const Buffer small = conformance::pattern_message(100, 1);
  const Buffer large = conformance::pattern_message(500'000, 2);
  EXPECT_NE(pair.b->send(0, {1, 0}, small), nullptr);
  EXPECT_NE(pair.b->send(0, {1, 0}, large), nullptr);
  pair.b.reset();
  pair.deliver_all_and_progress(*pair.a);
  const transport::OperationRef first = pair.a->receive(1, {1, 0}, Buffer::allocate(100));
  const transport::OperationRef second = pair.a->receive(1, {1, 0}, Buffer::allocate(500'000));
  const transport::OperationRef third = pair.a->receive(1, {1, 0}, Buffer::allocate(1));
  pair.deliver_all_and_progress(*pair.a);
  ASSERT_TRUE(first->done && second->done && third->done);
  EXPECT_TRUE(conformance::has_pattern(first->buffer.bytes(), 1));
  EXPECT_TRUE(conformance::has_pattern(second->buffer.bytes(), 2));
  EXPECT_EQ(third->status.code(), Code::kRemoteError);
}

TEST_P(LoopbackDeath, AKillLosesWhatWasStillInTheDeadRanksMemory) {
  LoopbackPair pair(options());
  EXPECT_FALSE(pair.b->send(0, {1, 0}, Buffer::allocate(500'000))->done);
  pair.world.kill(1);
  pair.deliver_all_and_progress(*pair.a);
  const transport::OperationRef receive = pair.a->receive(1, {1, 0}, Buffer::allocate(500'000));
  ASSERT_TRUE(receive->done);
  EXPECT_EQ(receive->status.code(), Code::kRemoteError);
}

TEST(LoopbackWorld, HoldsTheBufferOfACancelledSendUntilItIsTakenOrClosed) {
  LoopbackPair pair({.deterministic = true, .seed = 3, .eager_bytes = 0});
  for (const bool take : {true, false}) {
    auto storage = std::make_shared_for_overwrite<std::byte[]>(64);
    const std::weak_ptr<std::byte[]> alive = storage;
    transport::OperationRef send = pair.a->send(1, {1, 0}, Buffer(std::move(storage), 0, 64));
    pair.a->cancel(send);
    send.reset();
    EXPECT_FALSE(alive.expired());
    pair.deliver_all_and_progress(*pair.b);
    EXPECT_FALSE(alive.expired());
    transport::OperationRef receive;
    if (take) {
      receive = pair.b->receive(0, {1, 0}, Buffer::allocate(64));
    } else {
      pair.b->close({1, 0});
    }
    EXPECT_TRUE(pair.deliver_all_and_progress(*pair.a).empty());
    EXPECT_TRUE(alive.expired());
  }
}

TEST(LoopbackWorld, DropsLateArrivalsOnAClosedChannel) {
  LoopbackPair pair({.deterministic = true, .eager_bytes = 0});
  pair.b->close({4, 1});
  const transport::OperationRef send = pair.a->send(1, {4, 1}, Buffer::allocate(10));
  EXPECT_FALSE(send->done);
  EXPECT_EQ(pair.deliver_all_and_progress(*pair.a).size(), 1u);
  EXPECT_TRUE(send->status.ok());
}

// Which of two ranks' messages comes first is the seed's choice, and the same for the same seed.
TEST(LoopbackWorld, SeedPicksTheOrderAcrossPairs) {
  const auto arrival_order = [](std::uint64_t seed) {
    transport::LoopbackWorld world(4, {.deterministic = true, .seed = 1, .eager_bytes = 0});
    std::vector<std::unique_ptr<transport::Transport>> ranks;
    for (int rank = 0; rank < 4; ++rank) ranks.push_back(world.make_transport(rank));
    for (int from = 1; from < 4; ++from) {
      for (std::uint32_t i = 0; i < 3; ++i) {
        EXPECT_FALSE(ranks[0]->receive(from, {1, 0}, Buffer::allocate(4))->done);
        EXPECT_FALSE(
            ranks[static_cast<std::size_t>(from)]->send(0, {1, 0}, Buffer::allocate(i))->done);
      }
    }
    std::string order;
    std::map<int, std::uint64_t> next;
    SeededRandom random(seed);
    while (world.deliver_one(random)) {
      std::vector<transport::OperationRef> completed;
      EXPECT_TRUE(ranks[0]->progress(completed).ok());
      for (const transport::OperationRef& each : completed) {
        order += std::to_string(each->peer);
        EXPECT_EQ(each->bytes, next[each->peer]++) << "out of order from rank " << each->peer;
      }
    }
    return order;
  };
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::string order = arrival_order(seed);
    EXPECT_EQ(order.size(), 9u);
    EXPECT_EQ(order, arrival_order(seed));
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 30u);
}

TEST(LoopbackWorld, AThousandRanksCostLittle) {
  transport::LoopbackWorld world(1024, {.deterministic = true});
  std::vector<std::unique_ptr<transport::Transport>> ranks;
  std::vector<transport::Transport*> local;
  for (int rank = 0; rank < 1024; ++rank)
    local.push_back(ranks.emplace_back(world.make_transport(rank)).get());
  Party party(local);
  std::vector<transport::OperationRef> operations;
  for (int rank = 0; rank < 1024; ++rank) {
    operations.push_back(party.receive(*local[static_cast<std::size_t>(rank)], (rank + 1023) % 1024,
                                       {1, 0}, Buffer::allocate(8)));
    operations.push_back(party.send(*local[static_cast<std::size_t>(rank)], (rank + 1) % 1024,
                                    {1, 0}, Buffer::allocate(8)));
  }
  EXPECT_EQ(party.finish_well(operations), "");
}

TEST(LoopbackWorld, TransportsOutliveTheirWorld) {
  std::unique_ptr<transport::Transport> a, b;
  {
    transport::LoopbackWorld world(2);
    a = world.make_transport(0);
    b = world.make_transport(1);
  }
  const transport::OperationRef receive = b->receive(0, {1, 0}, Buffer::allocate(4));
  EXPECT_TRUE(a->send(1, {1, 0}, Buffer::allocate(4))->done);
  std::vector<transport::OperationRef> completed;
  EXPECT_TRUE(b->progress(completed).ok());
  EXPECT_TRUE(receive->done);
}

}  // namespace
}  // namespace sparcl
