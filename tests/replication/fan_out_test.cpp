// The plan of who takes updates from whom: by itself, under random schedules.

#include "src/replication/fan_out.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace sparcl::replication {
namespace {

using Id = FanOut::Id;

// Served, and current: it may be placed.
void serve(FanOut& plan, Id id, std::uint64_t version, double now) {
  plan.begin(id, version, 1000, false, now);
  plan.sent(id, now);
  plan.staged(id, version, now);
}

// 1 takes from the publisher, 2 from 1, and so on.
FanOut chain(Id count) {
  FanOut plan(1);
  for (Id id = 1; id <= count; ++id) {
    plan.join(id, true);
    serve(plan, id, 1, 0);
    plan.assign_parent(id, 0, 0);
  }
  return plan;
}

TEST(FanOut, MakesAChainOfReplicasThatCome) {
  FanOut plan(0);
  for (Id id = 1; id <= 8; ++id) {
    plan.join(id, true);
    serve(plan, id, 1, 0);
    EXPECT_EQ(plan.assign_parent(id, 0, 0),
              id == 1 ? std::optional<Id>() : std::optional<Id>(id - 1));
  }
  EXPECT_EQ(plan.parent(1), FanOut::kPublisher);
  EXPECT_EQ(plan.parent(8), 7U);
}

TEST(FanOut, MakesATreeOfAGivenDegree) {
  FanOut plan(2);
  std::map<Id, int> children;
  for (Id id = 1; id <= 30; ++id) {
    plan.join(id, true);
    serve(plan, id, 1, 0);
    plan.assign_parent(id, 0, 0);
    EXPECT_LE(++children[plan.parent(id)], 2);
  }
  int steps = 0;
  for (Id at = 30; at != FanOut::kPublisher; at = plan.parent(at)) ++steps;
  EXPECT_LE(steps, 4);  // 2 + 4 + 8 + 16 places
}

TEST(FanOut, BeginsAnotherChainForEach32) {
  FanOut plan(0);
  int served = 0;
  for (Id id = 1; id <= 100; ++id) {
    plan.join(id, true);
    serve(plan, id, 1, 0);
    served += plan.assign_parent(id, 0, 0) ? 0 : 1;
  }
  EXPECT_EQ(served, 4);
}

TEST(FanOut, NobodyTakesFromOneThatPassesNothingOn) {
  FanOut plan(1);
  for (Id id = 1; id <= 4; ++id) {
    plan.join(id, false);
    serve(plan, id, 1, 0);
    EXPECT_FALSE(plan.assign_parent(id, 0, 0));
  }
}

TEST(FanOut, OneThatWaitsForAnAnchorIsPlacedWithOneThatIsBeingSentIt) {
  FanOut plan(1);
  plan.join(1, true);
  plan.join(2, true);
  EXPECT_FALSE(plan.assign_parent(2, 7, 0));  // 1 is there, but not being sent it
  plan.begin(1, 7, 1'000'000, true, 0);
  EXPECT_FALSE(plan.assign_parent(2, 0, 0));  // nor can it pass on anything else meanwhile
  EXPECT_EQ(plan.assign_parent(2, 7, 0), 1U);
  plan.join(3, true);
  EXPECT_EQ(plan.assign_parent(3, 7, 0), 2U);
}

TEST(FanOut, OneWhoseParentFailedIsServedAgainAndTheParentIsALeaf) {
  FanOut plan = chain(3);
  plan.come_back(3, FanOut::Blame::kParent, 0);
  EXPECT_EQ(plan.parent(3), FanOut::kPublisher);
  EXPECT_FALSE(plan.assign_parent(3, 0, 0.5));  // it stays for a while
  EXPECT_FALSE(plan.assign_parent(3, 0, 2));    // 2 is not to be trusted yet, and 1 has a child
  EXPECT_EQ(plan.assign_parent(3, 0, 60), 2U);
}

TEST(FanOut, OneThatFallsBehindLosesItsChildren) {
  FanOut plan = chain(3);
  serve(plan, 1, 2, 10);  // 2 takes it from 1, and does not say that it has it
  EXPECT_TRUE(plan.relieve(10.5).empty());
  EXPECT_EQ(plan.relieve(11.5), (std::vector<Id>{3, 2}));  // it may be the fault of 1
  EXPECT_TRUE(plan.relieve(11.6).empty());                 // it was told
  plan.come_back(3, FanOut::Blame::kNobody, 11.7);
  plan.come_back(2, FanOut::Blame::kNobody, 11.7);
  EXPECT_FALSE(plan.assign_parent(2, 0, 11.8));  // what it lacks comes from the publisher
  EXPECT_EQ(plan.assign_parent(3, 0, 11.8), 1U);
}

// Signs of life are none of a parent that has the bytes, by its own word, and gives none.
TEST(FanOut, AParentThatGivesNothingIsNoneAnyMore) {
  FanOut plan = chain(3);
  serve(plan, 1, 2, 10);
  EXPECT_EQ(plan.relieve(11.5), (std::vector<Id>{3, 2}));
  EXPECT_FALSE(plan.come_back(3, FanOut::Blame::kIdleParent, 11.6));  // 2 has nothing itself
  EXPECT_FALSE(plan.is_expelled(2));
  EXPECT_EQ(plan.come_back(2, FanOut::Blame::kIdleParent, 11.6), 1U);
  EXPECT_TRUE(plan.is_expelled(1));
  serve(plan, 2, 2, 11.7);
  serve(plan, 3, 2, 11.7);
  for (const double now : {100.0, 1e6}) {
    for (const Id id : {2U, 3U})
      EXPECT_NE(plan.assign_parent(id, 0, now), std::optional<Id>(1)) << now;
  }
}

// Its own parent gave it nothing, and the publisher has just made up for that.
TEST(FanOut, AParentThatHasGotItOnlyNowMayPassOnAgain) {
  FanOut plan = chain(3);
  serve(plan, 1, 2, 10);
  EXPECT_EQ(plan.relieve(11.5), (std::vector<Id>{3, 2}));
  plan.come_back(2, FanOut::Blame::kIdleParent, 11.5);
  serve(plan, 2, 2, 11.55);
  EXPECT_FALSE(plan.come_back(3, FanOut::Blame::kIdleParent, 11.6));
  EXPECT_FALSE(plan.is_expelled(2));
}

// It had the version before the replica was placed with it.
TEST(FanOut, AParentThatHadItAllAlongIsNoneAnyMore) {
  FanOut plan = chain(1);
  plan.join(2, true);
  serve(plan, 2, 1, 0);
  serve(plan, 1, 2, 10);
  ASSERT_EQ(plan.assign_parent(2, 0, 10.5), 1U);
  EXPECT_TRUE(plan.relieve(11).empty());
  EXPECT_EQ(plan.relieve(11.6), std::vector<Id>{2});
  EXPECT_EQ(plan.come_back(2, FanOut::Blame::kIdleParent, 11.7), 1U);
}

TEST(FanOut, AParentThatGivesOtherBytesIsNoneAnyMoreAndNeitherIsTheNextAtItsAddressForAWhile) {
  FanOut plan(1);
  const net::NetAddress address = net::loopback_address(1), other = net::loopback_address(2);
  plan.join(1, true, {}, address);
  serve(plan, 1, 1, 0);
  plan.join(2, true);
  serve(plan, 2, 1, 0);
  ASSERT_EQ(plan.assign_parent(2, 0, 0), 1U);
  EXPECT_EQ(plan.come_back(2, FanOut::Blame::kFalseParent, 1), 1U);
  plan.leave(1);
  plan.leave(2);
  plan.join(3, true, {}, other);
  serve(plan, 3, 1, 2);
  EXPECT_FALSE(plan.is_expelled(3));
  plan.join(4, true);
  serve(plan, 4, 1, 2);
  EXPECT_FALSE(plan.assign_parent(4, 0, 2));
  EXPECT_EQ(plan.assign_parent(4, 0, 40), 3U);
}

// Its parent need not say that it has anything.
TEST(FanOut, WhatIsAnnouncedComesInTimeOrFromThePublisher) {
  FanOut plan = chain(2);
  plan.awaits(2, 2, 1'000'000, 10);
  plan.awaits(2, 3, 1'000'000, 14);  // the first counts
  EXPECT_TRUE(plan.relieve(11.5).empty());
  EXPECT_EQ(plan.relieve(23), std::vector<Id>{2});
  EXPECT_FALSE(plan.come_back(2, FanOut::Blame::kIdleParent, 23));
  EXPECT_FALSE(plan.is_expelled(1));  // it has not said that it has it
  EXPECT_FALSE(plan.assign_parent(2, 0, 23.5));
}

TEST(FanOut, WhoTakesNoMoreIsNotMoved) {
  FanOut plan = chain(2);
  plan.set_full(2, true);
  plan.held_up(1, 5, 10);
  EXPECT_TRUE(plan.relieve(12).empty());
  plan.set_full(2, false);
  EXPECT_EQ(plan.relieve(12), std::vector<Id>{2});
}

// 1 and 2 do not come to apply what they have: 3, behind both, must not wait for that.
TEST(FanOut, BehindSeveralWhoTakeNoMoreOthersAreMoved) {
  FanOut plan = chain(3);
  plan.set_full(1, true);
  plan.set_full(2, true);
  plan.held_up(1, 5, 10);
  EXPECT_EQ(plan.relieve(12), std::vector<Id>{3});
  plan.come_back(3, FanOut::Blame::kNobody, 12.1);
  EXPECT_FALSE(plan.assign_parent(3, 0, 12.2));  // nobody takes from those two for a while
}

TEST(FanOut, OneThatIsTooFarBehindForAParentDoesNotSpoilItsName) {
  FanOut plan = chain(2);
  plan.come_back(2, FanOut::Blame::kReplica, 0);
  EXPECT_FALSE(plan.assign_parent(2, 0, 0.5));
  EXPECT_EQ(plan.assign_parent(2, 0, 2), 1U);
}

// Whatever happens: no rings, no more children than allowed, and all who are placed lead up to the
// publisher, or are told to come back.
TEST(FanOut, StaysATreeWhateverHappens) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const int degree = static_cast<int>(random() % 4);
    FanOut plan(degree);
    std::set<Id> there;
    Id last = 0;
    double now = 0;
    std::uint64_t version = 1;
    for (int step = 0; step < 300; ++step) {
      now += 0.3 * static_cast<double>(random() % 10);
      const auto any = [&] {
        return *std::next(there.begin(), static_cast<std::ptrdiff_t>(random() % there.size()));
      };
      switch (random() % 6) {
        case 0:
          plan.join(++last, random() % 8 != 0);
          there.insert(last);
          break;
        case 1:
          if (!there.empty() && random() % 3 == 0) {
            const Id gone = any();
            plan.leave(gone);
            there.erase(gone);
          }
          break;
        case 2:
          if (!there.empty()) plan.come_back(any(), static_cast<FanOut::Blame>(random() % 5), now);
          break;
        case 3:
          for (const Id id : plan.relieve(now)) plan.come_back(id, FanOut::Blame::kNobody, now);
          break;
        default:
          version += random() % 2;
          if (!there.empty()) {
            const Id id = any();
            if (plan.parent(id) == FanOut::kPublisher) serve(plan, id, version, now);
            plan.staged(id, version, now);
            plan.assign_parent(id, 0, now);
          }
      }
      std::map<Id, int> children;
      for (const Id id : there) {
        Id at = id;
        int steps = 0;
        while (at != FanOut::kPublisher && there.contains(at) && ++steps <= 1000)
          at = plan.parent(at);
        ASSERT_LE(steps, 1000) << "a ring, seed " << seed;
        if (plan.parent(id) != FanOut::kPublisher) ++children[plan.parent(id)];
      }
      for (const auto& [id, count] : children) {
        if (there.contains(id)) {
          ASSERT_LE(count, degree > 0 ? degree : 1) << "seed " << seed;
        }
      }
    }
  }
}

// --- replicas that share a machine ---

net::NetAddress machine(int number) {
  net::NetAddress address =
      net::loopback_address(static_cast<std::uint16_t>(1000 + number));  // ports differ
  address.ip[3] = static_cast<std::byte>(number);
  return address;
}

TEST(FanOut, OneOfEachMachineTakesFromAnother) {
  for (const int degree : {0, 1, 2}) {
    FanOut plan(degree);
    constexpr Id kCount = 24;
    std::map<Id, int> machine_of;
    for (Id id = 1; id <= kCount; ++id) {
      machine_of[id] = static_cast<int>(id % 4);
      plan.join(id, true, machine(machine_of[id]));
      serve(plan, id, 1, 0);
      plan.assign_parent(id, 0, 0);
    }
    std::map<int, int> downloads, uploads;
    int from_publisher = 0;
    for (Id id = 1; id <= kCount; ++id) {
      const Id parent = plan.parent(id);
      if (parent == FanOut::kPublisher) {
        ++from_publisher;
        ++downloads[machine_of[id]];
      } else if (machine_of[parent] != machine_of[id]) {
        ++downloads[machine_of[id]];
        ++uploads[machine_of[parent]];
      }
    }
    for (int each = 0; each < 4; ++each) {
      EXPECT_EQ(downloads[each], 1) << degree;
      EXPECT_LE(uploads[each], degree == 0 ? 1 : degree);
    }
    EXPECT_EQ(from_publisher, degree == 2 ? 2 : 1);
  }
}

TEST(FanOut, WhoSharesNoMemoryHasNoNeighbours) {
  FanOut plan(0);
  for (Id id = 1; id <= 4; ++id) {
    plan.join(id, true);
    serve(plan, id, 1, 0);
    plan.assign_parent(id, 0, 0);
  }
  EXPECT_EQ(plan.parent(4), 3U);
}

// A machine whose first replica dies has another one that takes updates over the network, and the
// rest from that one.
TEST(FanOut, AMachineWhoseFirstReplicaDiesHasAnother) {
  FanOut plan(0);
  for (Id id = 1; id <= 6; ++id) {
    plan.join(id, true, machine(id <= 3 ? 1 : 2));
    serve(plan, id, 1, 0);
    plan.assign_parent(id, 0, 0);
  }
  ASSERT_EQ(plan.parent(4), 1U);
  plan.leave(4);
  for (const Id id : {5U, 6U}) plan.come_back(id, FanOut::Blame::kParent, 1);
  for (const Id id : {5U, 6U}) serve(plan, id, 2, 2);
  for (const Id id : {1U, 2U, 3U}) plan.staged(id, 2, 2);
  for (const Id id : {5U, 6U}) plan.assign_parent(id, 0, 10);
  EXPECT_EQ(plan.parent(5), 1U);
  EXPECT_EQ(plan.parent(6), 5U);
}

}  // namespace
}  // namespace sparcl::replication
