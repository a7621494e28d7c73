// Subscribers of several ranks show versions together, or none of them does.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

constexpr std::uint64_t kRows = 64, kColumns = 512;

// A trainer's tensor. Version v has v in every element of some row, and other rows of versions
// before.
struct GroupTrainer {
  GroupTrainer() : weights(kRows * kColumns), publisher(make_state(), {.listen = "127.0.0.1:0"}) {}
  State make_state() {
    State made;
    made.add("weights", std::span(weights), {kRows, kColumns});
    return made;
  }
  void publish(std::uint64_t version) {
    const std::uint64_t row = version % kRows;
    std::fill_n(weights.begin() + static_cast<std::ptrdiff_t>(row * kColumns), kColumns,
                static_cast<float>(version));
    publisher.publish(version);
  }
  std::vector<float> weights;
  Publisher publisher;
};

// One rank's columns of it.
struct GroupWorker {
  GroupWorker(const std::string& address, int rank, int ranks, bool double_buffer = false)
      : width(kColumns / static_cast<std::uint64_t>(ranks)),
        first(static_cast<std::uint64_t>(rank) * width),
        held(kRows * width, -1.0F),
        state(make_state()),
        subscriber(state, address, {.double_buffer = double_buffer}) {}
  State make_state() {
    State made;
    made.add_slice("weights", std::span(held), {kRows, kColumns}, {0, first}, {kRows, width});
    return made;
  }
  // What a trainer that has published 1 to `version` has in these columns.
  bool holds(std::uint64_t version) const {
    const auto* shown = static_cast<const float*>(subscriber.tensor(0));
    for (std::uint64_t row = 0; row < kRows; ++row) {
      std::uint64_t last = 0;
      for (std::uint64_t each = 1; each <= version; ++each)
        last = each % kRows == row ? each : last;
      const float* const begin = shown + row * width;
      if (std::any_of(begin, begin + width,
                      [&](float each) { return each != static_cast<float>(last); }))
        return false;
    }
    return true;
  }
  sparclResult_t next_group(double seconds, sparclComm_t comm, std::uint64_t* version) {
    return sparclSubscriberNextGroup(subscriber.get(), seconds, version, comm);
  }

  std::uint64_t width, first;
  std::vector<float> held;
  State state;
  Subscriber subscriber;
};

class SubscriberGroup : public ::testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
  void open(const std::string& address, bool double_buffer = false) {
    workers_.clear();
    for (int rank = 0; rank < ranks(); ++rank)
      workers_.push_back(std::make_unique<GroupWorker>(address, rank, ranks(), double_buffer));
  }
  // Each rank has all columns: updates go from one rank to the next.
  void open_whole(const std::string& address) {
    workers_.clear();
    for (int rank = 0; rank < ranks(); ++rank)
      workers_.push_back(std::make_unique<GroupWorker>(address, 0, 1));
  }
  GroupWorker& worker(int rank) { return *workers_[static_cast<std::size_t>(rank)]; }

  // All ranks return this, and show this version afterwards.
  void expect_round(ThreadRanks& party, sparclResult_t expected, std::uint64_t shown,
                    double seconds = 20) {
    std::vector<std::uint64_t> told(static_cast<std::size_t>(ranks()), 0);
    std::vector<std::string> texts(told.size());
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      const auto at = static_cast<std::size_t>(rank);
      const sparclResult_t result = worker(rank).next_group(seconds, comm, &told[at]);
      if (result != sparclSuccess) texts[at] = sparclGetLastError(comm);
      return result;
    });
    for (int rank = 0; rank < ranks(); ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      EXPECT_EQ(results[at], expected) << rank << ": " << texts[at];
      EXPECT_EQ(told[at], expected == sparclSuccess ? shown : 0) << rank;
      EXPECT_EQ(worker(rank).subscriber.held(), shown) << rank;
      EXPECT_TRUE(shown == 0 || worker(rank).holds(shown)) << rank;
    }
    text_ = texts.back();
  }

  std::vector<std::unique_ptr<GroupWorker>> workers_;
  std::string text_;  // of the last rank
};

INSTANTIATE_TEST_SUITE_P(Ranks, SubscriberGroup, ::testing::Values(1, 2, 4));

TEST_P(SubscriberGroup, AllRanksShowTheSameVersion) {
  for (const bool double_buffer : {false, true}) {
    GroupTrainer trainer;
    ThreadRanks party(ranks());
    open(trainer.publisher.address(), double_buffer);
    for (std::uint64_t version = 1; version <= 3; ++version) {
      trainer.publish(version);
      expect_round(party, sparclSuccess, version);
    }
  }
}

TEST_P(SubscriberGroup, WithoutANewVersionTheTimeEndsOnAllRanks) {
  GroupTrainer trainer;
  ThreadRanks party(ranks());
  open(trainer.publisher.address());
  trainer.publish(1);
  expect_round(party, sparclSuccess, 1);
  expect_round(party, sparclTimeout, 1, 0.05);
  EXPECT_NE(text_.find("sparclSubscriberNextGroup: no newer version than 1 has come"),
            std::string::npos)
      << text_;
  trainer.publish(2);
  expect_round(party, sparclSuccess, 2);
}

// A rank that lags gets what it lacks, and the others wait for it.
TEST_P(SubscriberGroup, RanksThatHavePreparedOtherVersionsShowTheSame) {
  GroupTrainer trainer;
  ThreadRanks party(ranks());
  open(trainer.publisher.address());
  trainer.publish(1);
  expect_round(party, sparclSuccess, 1);
  trainer.publish(2);
  Subscriber& ahead = worker(ranks() - 1).subscriber;
  while (!ahead.prepare(20)) continue;
  ahead.commit(2);
  if (ranks() == 1) return;  // nothing is newer
  expect_round(party, sparclSuccess, 2);
  for (std::uint64_t version = 3; version <= 9; ++version) trainer.publish(version);
  workers_.front() = std::make_unique<GroupWorker>(trainer.publisher.address(), 0, ranks());
  std::uint64_t shown = 2;
  while (shown < 9) {
    std::vector<std::uint64_t> told(workers_.size());
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      return worker(rank).next_group(20, comm, &told[static_cast<std::size_t>(rank)]);
    });
    for (const sparclResult_t result : results) ASSERT_EQ(result, sparclSuccess);
    for (const std::uint64_t each : told) ASSERT_EQ(each, told.front());
    ASSERT_GT(std::exchange(shown, told.front()), 1U);
    for (int rank = 0; rank < ranks(); ++rank) EXPECT_TRUE(worker(rank).holds(shown)) << rank;
  }
}

// Versions come all the time: each round shows one of them, on all ranks alike.
TEST_P(SubscriberGroup, FollowsAFastPublisher) {
  constexpr std::uint64_t kLast = 60;
  for (const bool is_whole : {false, true}) {
    GroupTrainer trainer;
    ThreadRanks party(ranks());
    is_whole ? open_whole(trainer.publisher.address()) : open(trainer.publisher.address());
    std::thread training([&] {
      for (std::uint64_t version = 1; version <= kLast; ++version) {
        trainer.publish(version);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
    std::vector<std::vector<std::uint64_t>> told(static_cast<std::size_t>(ranks()));
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      std::uint64_t version = 0;
      while (version < kLast) {
        const sparclResult_t result = worker(rank).next_group(20, comm, &version);
        EXPECT_EQ(result, sparclSuccess) << sparclGetLastError(comm);
        if (result != sparclSuccess) return result;
        told[static_cast<std::size_t>(rank)].push_back(version);
        EXPECT_TRUE(worker(rank).holds(version)) << version;
      }
      return sparclSuccess;
    });
    training.join();
    for (const sparclResult_t result : results) EXPECT_EQ(result, sparclSuccess);
    for (const auto& each : told) EXPECT_EQ(each, told.front());
    EXPECT_TRUE(std::ranges::is_sorted(told.front()));
  }
}

// A rank has prepared two updates and is sent no more; another one has come with a later version.
TEST_P(SubscriberGroup, ARankThatTakesUpdatesFromAnotherCatchesUp) {
  GroupTrainer trainer;
  ThreadRanks party(ranks());
  open_whole(trainer.publisher.address());
  trainer.publish(1);
  expect_round(party, sparclSuccess, 1);
  for (std::uint64_t version = 2; version <= 9; ++version) trainer.publish(version);
  Subscriber& ahead = worker(ranks() - 1).subscriber;
  while (ahead.held() < 9) (void)ahead.next(20);
  if (ranks() > 1) expect_round(party, sparclSuccess, 9);
}

TEST_P(SubscriberGroup, ARankWithoutAPublisherEndsTheCallOnAllRanks) {
  GroupTrainer trainer;
  ThreadRanks party(ranks());
  open(trainer.publisher.address());
  trainer.publish(1);
  expect_round(party, sparclSuccess, 1);
  const std::string gone = GroupTrainer().publisher.address();
  const int alone = ranks() - 1;
  workers_.back() = std::make_unique<GroupWorker>(gone, alone, ranks());
  trainer.publish(2);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    const sparclResult_t result = worker(rank).next_group(0.5, comm, nullptr);
    const std::string text = sparclGetLastError(comm);
    EXPECT_NE(text.find("publisher " + gone), std::string::npos) << text;
    EXPECT_NE(text.find("rank " + std::to_string(alone)), std::string::npos) << text;
    EXPECT_TRUE(ranks() == 1 || text.find("version 2, which another rank has, has not come to "
                                          "this rank") != std::string::npos)
        << text;
    return result;
  });
  for (int rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(results[static_cast<std::size_t>(rank)], sparclRemoteError);
    EXPECT_EQ(worker(rank).subscriber.held(), rank == alone ? 0U : 1U);
  }
  workers_.back() = std::make_unique<GroupWorker>(trainer.publisher.address(), alone, ranks());
  expect_round(party, sparclSuccess, 2);
}

// The numbers of two publishers say nothing of each other.
TEST_P(SubscriberGroup, RanksOfTwoPublishersHaveNoCommonVersion) {
  if (ranks() == 1) GTEST_SKIP() << "it has one publisher";
  GroupTrainer trainer, later;
  ThreadRanks party(ranks());
  open(trainer.publisher.address());
  workers_.back() = std::make_unique<GroupWorker>(later.publisher.address(), ranks() - 1, ranks());
  trainer.publish(1);
  later.publish(1);
  expect_round(party, sparclTimeout, 0, 0.3);
  EXPECT_NE(text_.find("version 1 of another publisher"), std::string::npos) << text_;
}

TEST_P(SubscriberGroup, WrongArgumentsAreAnErrorOfAllRanks) {
  GroupTrainer trainer;
  ThreadRanks party(ranks());
  open(trainer.publisher.address());
  trainer.publish(1);
  const int odd = ranks() / 2;
  const double no_number = std::numeric_limits<double>::quiet_NaN();
  for (const bool is_handle : {true, false}) {
    std::uint64_t version = 7;
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      const bool is_odd = rank == odd;
      const sparclResult_t result = sparclSubscriberNextGroup(
          is_odd && is_handle ? nullptr : worker(rank).subscriber.get(),
          is_odd && !is_handle ? no_number : 20.0, is_odd ? &version : nullptr, comm);
      const std::string text = sparclGetLastError(comm);
      EXPECT_NE(text.find(is_handle ? "subscriber is NULL" : "seconds is NaN"), std::string::npos)
          << text;
      EXPECT_NE(text.find("rank " + std::to_string(odd)), std::string::npos) << text;
      return result;
    });
    for (const sparclResult_t result : results) EXPECT_EQ(result, sparclInvalidArgument);
    EXPECT_EQ(version, 7U);
  }
  expect_round(party, sparclSuccess, 1);
  EXPECT_EQ(sparclSubscriberNextGroup(worker(0).subscriber.get(), 1, nullptr, nullptr),
            sparclInvalidArgument);
}

TEST_P(SubscriberGroup, AnotherCallOfARankIsAMismatch) {
  if (ranks() == 1) GTEST_SKIP() << "one rank makes one call";
  GroupTrainer trainer;
  ThreadRanks party(ranks());
  open(trainer.publisher.address());
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    float weight = 0;
    const sparclResult_t result =
        rank == 0
            ? sparclBroadcastDelta(&weight, nullptr, 1, sparclFloat32, 0, nullptr, comm, nullptr)
            : worker(rank).next_group(20, comm, nullptr);
    const std::string text = sparclGetLastError(comm);
    EXPECT_NE(text.find("sparclSubscriberNextGroup"), std::string::npos) << text;
    EXPECT_NE(text.find("sparclBroadcastDelta"), std::string::npos) << text;
    return result;
  });
  for (const sparclResult_t result : results) EXPECT_EQ(result, sparclMismatch);
  trainer.publish(1);
  expect_round(party, sparclSuccess, 1);
}

TEST_P(SubscriberGroup, AChildOfForkIsRefused) {
  GroupTrainer trainer;
  ThreadRanks party(ranks());
  open(trainer.publisher.address());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool is_refused =
        worker(0).next_group(20, party.comm(0), nullptr) == sparclInvalidUsage &&
        sparclSubscriberPrepare(worker(0).subscriber.get(), 20, nullptr) == sparclInvalidUsage &&
        sparclSubscriberCommit(worker(0).subscriber.get(), 1) == sparclInvalidUsage;
    ::_exit(is_refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_P(SubscriberGroup, AnAbortedCommunicatorIsAnError) {
  GroupTrainer trainer;
  ThreadRanks party(ranks());
  open(trainer.publisher.address());
  trainer.publish(1);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    (void)sparclCommAbort(comm);
    return worker(rank).next_group(20, comm, nullptr);
  });
  for (const sparclResult_t result : results) EXPECT_NE(result, sparclSuccess);
  for (int rank = 0; rank < ranks(); ++rank) EXPECT_EQ(worker(rank).subscriber.held(), 0U);
  ThreadRanks again(ranks());
  expect_round(again, sparclSuccess, 1);
}

TEST(SubscriberPrepare, ShowsAVersionWhenItIsCommitted) {
  GroupTrainer trainer;
  std::vector<std::uint64_t> shown;
  std::vector<float> held(kRows * kColumns, -1.0F);
  State state;
  state.add("weights", std::span(held), {kRows, kColumns});
  Subscriber replica(state, trainer.publisher.address(),
                     {.on_swap = [&](std::uint64_t version) { shown.push_back(version); }});
  EXPECT_FALSE(replica.prepare(0).has_value());
  EXPECT_NE(replica.reason().find("sparclSubscriberPrepare: "), std::string::npos)
      << replica.reason();
  trainer.publish(1);
  std::optional<std::uint64_t> version;
  while (!version) version = replica.prepare(20);
  EXPECT_EQ(version, 1U);
  EXPECT_EQ(held[5], -1.0F);
  EXPECT_EQ(replica.held(), 0U);
  EXPECT_THROW(replica.commit(2), Error);
  EXPECT_TRUE(shown.empty());
  replica.commit(1);
  EXPECT_EQ(held, trainer.weights);
  EXPECT_EQ(replica.held(), 1U);
  replica.commit(1);
  EXPECT_EQ(shown, std::vector<std::uint64_t>{1});
  EXPECT_EQ(sparclSubscriberPrepare(replica.get(), std::nan(""), nullptr), sparclInvalidArgument);
}

TEST(SubscriberPrepare, RanksOfOneProgramShowVersionsTogether) {
  GroupTrainer trainer;
  std::vector<Comm> comms = Comm::local(2);
  std::atomic<int> same{0};
  trainer.publish(1);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      GroupWorker worker(trainer.publisher.address(), rank, 2);
      const Comm& comm = comms[static_cast<std::size_t>(rank)];
      if (worker.subscriber.next_group(20, comm) == 1U && worker.holds(1)) ++same;
      EXPECT_FALSE(worker.subscriber.next_group(0.01, comm).has_value());
      EXPECT_FALSE(worker.subscriber.reason().empty());
    });
  }
  for (std::thread& each : ranks) each.join();
  EXPECT_EQ(same, 2);
}

}  // namespace
}  // namespace sparcl::test
