// A root's desk and its branches: what they say, and what they must not say.
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <string>

#include "src/base/seeded_random.hpp"
#include "tests/elastic/desk_party.hpp"

namespace sparcl::elastic {
namespace {

using aggregate::Answer;
using replication::MessageType;
using replication::RawPeer;

// A branch with one worker.
struct Branch {
  explicit Branch(const Desk& desk, std::uint32_t number = 0) : peer(desk.connect()) {
    Enroll enroll{kWorkerProtocol, "m", {1, 2}, 0, 5000, "a branch", true, 0};
    peer.say(MessageType::kEnroll, enroll);
    EXPECT_EQ(peer.hear(), MessageType::kEnrolled);
    join(kWorker, number);
  }
  void join(aggregate::WorkerId worker, std::uint32_t number = 0) {
    peer.say(MessageType::kMember,
             MemberTold{worker, MemberTold::State::kAwaited, {number, 0}, "a worker"});
  }
  Verdict give(std::uint64_t round, double weight = 1) {
    peer.say(MessageType::kGiven, GivenTold{kWorker, {5, 0}, 2, {round, weight, 30}});
    EXPECT_EQ(peer.hear(), MessageType::kVerdict);
    return *parse_verdict(peer.link().content());
  }
  Collect hear_collect() {
    EXPECT_EQ(peer.hear(), MessageType::kCollect);
    return *parse_collect(peer.link().content());
  }
  SubtreeTold told(std::uint64_t round, std::uint32_t slot, const Packed& packed) const {
    return {round, false, 0, {slot, 0}, packed.offered.bytes, packed.offered.digest};
  }
  void send(const SubtreeTold& told, const Packed& packed) {
    peer.say(MessageType::kSubtree, told);
    peer.link().queue_chunk({told.round, 0}, packed.bytes);
    (void)peer.link().flush();
  }

  static constexpr aggregate::WorkerId kWorker = 77;
  RawPeer peer;
};

// The closed round.
aggregate::Closing closing_of(const Desk& own) {
  for (int i = 0; i < 100; ++i) {
    RootDesk::Turn turn = own.desk->wait(0.1);
    if (turn.is_closed) return turn.closing;
  }
  ADD_FAILURE() << "the round does not end";
  return {};
}

TEST(RootDeskAndBranches, SumsOfABranchCountOnceTheyAreThere) {
  const Desk own;
  Branch branch(own);
  const Verdict verdict = branch.give(1, 2.5);
  EXPECT_TRUE(verdict.is_new);
  EXPECT_EQ(verdict.fate.kind, Answer::Kind::kListed);
  EXPECT_EQ(verdict.weight, 2.5F);
  EXPECT_EQ(closing_of(own).listed.size(), 1u);
  auto sums = std::async(std::launch::async, [&] { return own.desk->collect_sums({}); });
  const Collect collect = branch.hear_collect();
  ASSERT_EQ(collect.spans.size(), 1u);
  EXPECT_EQ(collect.spans[0].slots.end, aggregate::kAllSlots.end) << "nobody else has slots";
  const Packed packed = packed_entries(5, 1);
  branch.send(branch.told(1, verdict.slot, packed), packed);
  branch.peer.say(MessageType::kCollected, Collected{1});
  const RootDesk::Sums got = sums.get();
  ASSERT_EQ(got.sums.size(), 1u);
  EXPECT_EQ(got.sums[0].told.subtree.first, verdict.slot);
  EXPECT_EQ(got.closing.listed.size(), 1u);
  own.desk->committed();
  ASSERT_EQ(branch.peer.hear(), MessageType::kVerdict);
  EXPECT_EQ(parse_verdict(branch.peer.link().content())->fate.kind, Answer::Kind::kCommitted);
}

TEST(RootDeskAndBranches, AWorkerThatIsTurnedAwayIsNotAwaited) {
  DeskOptions options = desk_options();
  options.silence_s = 60;
  const Desk own(options);
  RawPeer other = own.enrolled(5);
  auto branch = std::make_unique<Branch>(own);
  EXPECT_TRUE(branch->give(1).is_new);
  {
    RawPeer moved = own.enrolled(Branch::kWorker);
    branch.reset();
    ASSERT_EQ(moved.hear(), MessageType::kRefusal) << "its contribution is lost";
  }  // and it dies
  send_all(other, packed_entries(5, 1));
  EXPECT_EQ(other.hear(), MessageType::kFate);
  EXPECT_EQ(closing_of(own).listed.size(), 1u);
}

TEST(RootDeskAndBranches, SumsHaveContributions) {
  for (const std::uint32_t other_slot : {1000U, 2'000'000'000U}) {
    const Desk own;
    Branch branch(own);
    const Verdict verdict = branch.give(1);
    EXPECT_EQ(closing_of(own).listed.size(), 1u);
    auto sums = std::async(std::launch::async, [&] { return own.desk->collect_sums({}); });
    (void)branch.hear_collect();
    const Packed packed = packed_entries(5, 1);
    branch.send(branch.told(1, verdict.slot, packed), packed);
    branch.send(branch.told(1, other_slot, packed), packed);
    EXPECT_TRUE(sums.get().sums.empty());
    expect_refusal(branch.peer, "was not asked for");
  }
}

TEST(RootDeskAndBranches, NothingIsWithdrawnAmongSums) {
  const Desk own;
  Branch branch(own);
  const Verdict verdict = branch.give(1);
  EXPECT_EQ(closing_of(own).listed.size(), 1u);
  auto sums = std::async(std::launch::async, [&] { return own.desk->collect_sums({}); });
  (void)branch.hear_collect();
  const Packed packed = packed_entries(5, 1);
  branch.peer.say(MessageType::kSubtree, branch.told(1, verdict.slot, packed));
  branch.peer.say(MessageType::kWithdrawn, Withdrawn{{Branch::kWorker, 1}});
  expect_refusal(branch.peer, "withdrawn among its sums");
  EXPECT_TRUE(sums.get().sums.empty()) << "nor is that sum one of a later round";
}

TEST(RootDeskAndBranches, ContributionsOfADyingBranchAreWithdrawn) {
  const Desk own;
  auto branch = std::make_unique<Branch>(own);
  EXPECT_TRUE(branch->give(1).is_new);
  EXPECT_EQ(closing_of(own).listed.size(), 1u);
  auto sums = std::async(std::launch::async, [&] { return own.desk->collect_sums({}); });
  (void)branch->hear_collect();
  branch.reset();
  const RootDesk::Sums got = sums.get();
  EXPECT_TRUE(got.sums.empty());
  EXPECT_TRUE(got.closing.listed.empty());
  EXPECT_TRUE(got.closing.is_short);
  own.desk->failed("a test");
  Branch again(own);
  EXPECT_TRUE(again.give(1).is_new) << "it counts, late";
}

TEST(RootDeskAndBranches, WrongSumsEndTheBranchAndTakeItsContributionsBack) {
  const Packed packed = packed_entries(5, 1), outside = packed_entries(kElements, 1);
  const struct {
    const char* text;
    std::function<void(Branch&, const Verdict&)> act;
  } kWrong[] = {
      {"was not asked for",
       [&](Branch& branch, const Verdict& verdict) {
         SubtreeTold told = branch.told(1, verdict.slot, packed);
         told.rounds_late = 1;
         branch.send(told, packed);
       }},
      {"was not asked for",
       [&](Branch& branch, const Verdict& verdict) {
         SubtreeTold told = branch.told(1, verdict.slot, packed);
         told.bytes = std::uint64_t{1} << 40;
         branch.send(told, packed);
       }},
      {"was not asked for",
       [&](Branch& branch, const Verdict& verdict) {
         SubtreeTold told = branch.told(1, verdict.slot, packed);
         told.is_of_weights = true;
         branch.send(told, packed);
       }},
      {"is not wanted now",
       [&](Branch& branch, const Verdict& verdict) {
         branch.send(branch.told(2, verdict.slot, packed), packed);
       }},
      {"no part of the model",
       [&](Branch& branch, const Verdict& verdict) {
         branch.send(branch.told(1, verdict.slot, outside), outside);
       }},
      {"do not match their digest",
       [&](Branch& branch, const Verdict& verdict) {
         SubtreeTold told = branch.told(1, verdict.slot, packed);
         told.digest[3] ^= std::byte{1};
         branch.send(told, packed);
       }},
      {"not awaited",
       [](Branch& branch, const Verdict& /*verdict*/) {
         branch.peer.say(MessageType::kCollected, Collected{7});
       }},
      {"out of place",
       [&](Branch& branch, const Verdict& /*verdict*/) {
         branch.peer.say(MessageType::kContribution, packed.offered);
       }},
  };
  for (const auto& wrong : kWrong) {
    SCOPED_TRACE(wrong.text);
    const Desk own;
    Branch branch(own);
    const Verdict verdict = branch.give(1);
    (void)closing_of(own);
    auto sums = std::async(std::launch::async, [&] { return own.desk->collect_sums({}); });
    (void)branch.hear_collect();
    wrong.act(branch, verdict);
    expect_refusal(branch.peer, wrong.text);
    EXPECT_TRUE(sums.get().closing.listed.empty());
    own.desk->failed("a test");
    RawPeer worker = own.enrolled(7);
    expect_service(own, worker, 2);
  }
}

TEST(RootDeskAndBranches, ABranchThatSendsNoSumHoldsNobodyUpForGood) {
  DeskOptions options = desk_options();
  options.round.deadline_s = 0.5;
  const Desk own(options);
  Branch branch(own);
  EXPECT_TRUE(branch.give(1).is_new);
  (void)closing_of(own);
  EXPECT_TRUE(own.desk->collect_sums({}).closing.listed.empty());
  EXPECT_TRUE(branch.peer.is_dropped());
}

TEST(RootDeskAndBranches, AWorkerHasOnePlaceWhereverItConnects) {
  const Desk own;
  Branch first(own, 4), second(own, 4);  // the same worker: it has moved
  ASSERT_EQ(first.peer.hear(), MessageType::kTurnedAway);
  EXPECT_NE(parse_turned_away(first.peer.link().content())->text.find("connected again"),
            std::string::npos);
  EXPECT_EQ(second.give(1).slot, aggregate::kNumberedSlots + 3);
  second.join(78, 4);  // another one with its number
  ASSERT_EQ(second.peer.hear(), MessageType::kTurnedAway);
  EXPECT_NE(parse_turned_away(second.peer.link().content())->text.find("number 4"),
            std::string::npos);
}

TEST(RootDeskAndBranches, WithdrawnContributionsCountWhenTheyComeAgain) {
  DeskOptions options = desk_options();
  options.round.mode = aggregate::RoundMode::kQuorum;
  options.round.quorum = 2;
  const Desk own(options);
  Branch branch(own);
  EXPECT_TRUE(branch.give(1).is_new);
  EXPECT_FALSE(branch.give(1).is_new) << "it is listed already";
  branch.peer.say(MessageType::kWithdrawn, Withdrawn{{Branch::kWorker, 1}});
  EXPECT_TRUE(branch.give(1).is_new);
}

// --- who has which slots

TEST(BranchBook, SpansHoldTheSlotsOfOneBranchAndOfNobodyElse) {
  SeededRandom random(3);
  for (int run = 0; run < 200; ++run) {
    BranchBook book;
    std::map<std::pair<std::uint64_t, std::uint32_t>, BranchId> places;
    const std::size_t entries = random.below(20);
    for (std::size_t i = 0; i < entries; ++i) {
      const std::uint64_t late = random.below(3);
      const auto slot = static_cast<std::uint32_t>(random.below(30));
      const BranchId branch = random.below(3);
      if (!places.emplace(std::pair(late, slot), branch).second) continue;
      book.note({{i, 5 - late}, slot, late, 1}, branch);
    }
    for (BranchId branch = 1; branch < 3; ++branch) {
      std::size_t own = 0, covered = 0;
      const std::vector<Collect::Span> spans = book.spans_of(5, branch);
      for (const auto& [place, has] : places) {
        own += has == branch ? 1 : 0;
        for (const Collect::Span& span : spans) {
          if (span.rounds_late != place.first || place.second < span.slots.first ||
              place.second >= span.slots.end)
            continue;
          EXPECT_EQ(has, branch);
          ++covered;
        }
      }
      EXPECT_EQ(covered, own) << "each of its slots is in one span";
    }
  }
}

}  // namespace
}  // namespace sparcl::elastic
