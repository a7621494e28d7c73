#include "src/comm/engine/engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/support/sim_party.hpp"

namespace sparcl::comm {
namespace {

using test::SimParty;
using ::testing::HasSubstr;

constexpr transport::Channel kChannel{1, 0};

Buffer message(int value) {
  Buffer buffer = Buffer::allocate(sizeof value);
  std::memcpy(buffer.data(), &value, sizeof value);
  return buffer;
}

int value_of(const transport::OperationRef& operation) {
  int value = 0;
  std::memcpy(&value, operation->buffer.data(), sizeof value);
  return value;
}

// Passes a number once round the ring; each rank adds its own.
Task pass_round(Engine& engine, int& sum) {
  const int rank = engine.transport().rank(), size = engine.transport().size();
  if (rank != 0) {
    const transport::OperationRef heard =
        engine.receive(rank - 1, kChannel, Buffer::allocate(sizeof(int)));
    if (Status status = co_await engine.wait(heard, "the token"); !status.ok()) co_return status;
    sum = value_of(heard);
  }
  sum += rank;
  if (rank + 1 == size) co_return Status();
  const transport::OperationRef sent = engine.send(rank + 1, kChannel, message(sum));
  co_return co_await engine.wait(sent, "the next rank to take the token");
}

TEST(Engine, MovesATokenThroughAllRanksUnderAnySchedule) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimParty party(7, seed);
    std::vector<int> sums(7, 0);
    const transport::SimOutcome outcome = party.run([&](int rank) {
      return pass_round(party.engine(rank), sums[static_cast<std::size_t>(rank)]);
    });
    ASSERT_TRUE(outcome.ok()) << outcome.report;
    EXPECT_EQ(sums[6], 0 + 1 + 2 + 3 + 4 + 5 + 6);
  }
}

// What is looked for again comes last, leaves the core to others, and is looked for soon.
TEST(Engine, AnIdleTaskIsNoWork) {
  SimParty party(1, 1);
  Engine& engine = party.engine(0);
  int looks = 0, pieces = 0;
  const auto looking = [&]() -> Task {
    for (; looks < 3; ++looks) co_await engine.yield(true);
    co_return Status();
  };
  const auto working = [&]() -> Task {
    for (; pieces < 10; ++pieces) co_await engine.yield();
    co_return Status();
  };
  Task idle = looking(), busy = working();
  engine.start(idle);
  engine.start(busy);
  while (!busy.done()) EXPECT_TRUE(engine.step());
  EXPECT_EQ(looks, 0) << "there was work";
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_FALSE(engine.step());
    EXPECT_LT(engine.next_deadline(), party.engine(0).transport().now() + 0.01);
  }
  EXPECT_TRUE(engine.step()) << "it has found it";
  EXPECT_TRUE(idle.done());
}

Task count_down(Engine& engine, int n, int& deepest) {
  deepest = n;
  if (n == 0) co_return Status();
  Task next = count_down(engine, n - 1, deepest);
  co_return co_await next;
}

TEST(Engine, DeepCallChainsDoNotUseTheStack) {
  SimParty party(1, 1);
  int deepest = -1;
  party.run([&](int) { return count_down(party.engine(0), 100'000, deepest); });
  EXPECT_EQ(deepest, 0);
  EXPECT_TRUE(party.result(0).ok());
}

Task hear_from(Engine& engine, int peer) {
  const transport::OperationRef heard = engine.receive(peer, kChannel, Buffer::allocate(8));
  co_return co_await engine.wait(heard, "a word that never comes");
}

Task do_nothing() { co_return Status(); }

TEST(Engine, DeadlineNamesThePeerAndThePurposeAndPoisons) {
  SimParty party(2, 3, {.timeout_s = 4});
  party.run([&](int rank) { return rank == 0 ? hear_from(party.engine(0), 1) : do_nothing(); });
  EXPECT_EQ(party.result(0).code(), Code::kTimeout);
  EXPECT_THAT(party.result(0).message(), HasSubstr("rank 1"));
  EXPECT_THAT(party.result(0).message(), HasSubstr("a word that never comes"));
  EXPECT_EQ(party.engine(0).health().code(), Code::kTimeout);
}

TEST(Engine, PeersLearnOfAFailureByItsSignal) {
  SimParty party(3, 5, {.timeout_s = 1000});
  const transport::SimOutcome outcome = party.run([&](int rank) {
    if (rank == 0) party.engine(0).fail(Status(Code::kTimeout, "gave up on purpose"), -1);
    return rank == 0 ? do_nothing() : hear_from(party.engine(rank), 0);
  });
  EXPECT_LT(outcome.seconds, 100);
  for (const int rank : {1, 2}) {
    EXPECT_EQ(party.result(rank).code(), Code::kRemoteError);
    EXPECT_THAT(party.result(rank).message(), HasSubstr("rank 0"));
    EXPECT_THAT(party.result(rank).message(), HasSubstr("gave up on purpose"));
  }
}

TEST(Engine, ADeadPeerEndsTheWaitForItAndTheOtherRanksHearOfIt) {
  SimParty party(3, 7, {.timeout_s = 1000});
  party.world().kill(2);
  const transport::SimOutcome outcome = party.run([&](int rank) {
    return rank == 0   ? hear_from(party.engine(0), 2)
           : rank == 1 ? hear_from(party.engine(1), 0)
                       : do_nothing();
  });
  ASSERT_TRUE(outcome.ok()) << outcome.report;
  EXPECT_EQ(party.result(0).code(), Code::kRemoteError);
  EXPECT_THAT(party.result(0).message(), HasSubstr("rank 2"));
  EXPECT_EQ(party.result(1).code(), Code::kRemoteError);
}

// Rank 0 waits for rank 1, which waits for rank 2: both give up before rank 2 comes.
TEST(Engine, ALateRankIsToldThatTheOthersGaveItUp) {
  SimParty party(3, 5, {.timeout_s = 1000});
  const transport::SimOutcome outcome = party.run([&](int rank) {
    if (rank == 0)
      party.engine(0).fail(Status(Code::kTimeout, "rank 1 (host a, pid 1) did not answer"), 1);
    if (rank == 1)
      party.engine(1).fail(Status(Code::kTimeout, "rank 2 (host a, pid 2) did not answer"), 2);
    return rank == 2 ? hear_from(party.engine(2), 0) : do_nothing();
  });
  ASSERT_TRUE(outcome.ok()) << outcome.report;
  EXPECT_EQ(party.result(2).code(), Code::kTimeout);
  EXPECT_THAT(party.result(2).message(), HasSubstr("this rank was given up by the others: rank 2 "
                                                   "(host a, pid 2) did not answer (as rank 1 ("));
  EXPECT_EQ(party.engine(2).culprit(), 2);
}

TEST(Engine, TheFirstErrorWins) {
  SimParty party(1, 1);
  party.engine(0).fail(Status(Code::kTimeout, "first"), -1);
  party.engine(0).fail(Status(Code::kSystemError, "second"), -1);
  EXPECT_EQ(party.engine(0).health().message(), "first");
}

Task throw_bad_alloc() {
  throw std::bad_alloc();
  co_return Status();
}

TEST(Engine, AnExceptionBecomesTheResult) {
  SimParty party(1, 1);
  party.run([](int) { return throw_bad_alloc(); });
  EXPECT_EQ(party.result(0).code(), Code::kOutOfMemory);
}

}  // namespace
}  // namespace sparcl::comm
