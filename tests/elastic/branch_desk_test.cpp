// Messages that cross between workers, aggregators with a parent, and the parent: each contribution
// still has one fate, and its worker hears of it.
#include "src/elastic/branch_desk.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "src/elastic/contribution_sum.hpp"
#include "tests/elastic/desk_party.hpp"

namespace sparcl::elastic {
namespace {

using aggregate::Answer;
using replication::MessageType;
using replication::RawPeer;

constexpr aggregate::WorkerId kMoving = 77;

DeskOptions patient_options() {
  DeskOptions options = desk_options();
  options.silence_s = 60;
  return options;
}

RawPeer enrolled_at(const std::string& address, const Enroll& enroll) {
  RawPeer peer = RawPeer::connect(address, {});
  peer.say(MessageType::kEnroll, enroll);
  if (!enroll.is_aggregator) {
    EXPECT_EQ(peer.hear(), MessageType::kNonce);
    peer.say(MessageType::kJoin, Join{});
  }
  EXPECT_EQ(peer.hear(), MessageType::kEnrolled);
  return peer;
}
RawPeer branch_at(const std::string& address) {
  return enrolled_at(address, {kWorkerProtocol, "m", {1, 2}, 0, 60'000, "a branch", true, 0});
}
RawPeer worker_at(const std::string& address, aggregate::WorkerId worker,
                  std::uint32_t number = 0) {
  return enrolled_at(address,
                     {kWorkerProtocol, "m", {1, 2}, worker, 60'000, "a worker", false, number});
}
void say_member(RawPeer& branch, aggregate::WorkerId worker, std::uint32_t number = 0,
                MemberTold::State state = MemberTold::State::kAwaited) {
  branch.say(MessageType::kMember, MemberTold{worker, state, {number, 0}, "a worker"});
}
void say_given(RawPeer& branch, aggregate::WorkerId worker, std::uint64_t round) {
  branch.say(MessageType::kGiven, GivenTold{worker, {5, 0}, 2, {round, 1, 30}});
}
bool hear_new(RawPeer& branch) {
  EXPECT_EQ(branch.hear(), MessageType::kVerdict);
  const Result<Verdict> verdict = parse_verdict(branch.link().content());
  return verdict.ok() && verdict->is_new;
}
Answer::Kind hear_fate(RawPeer& worker) {
  EXPECT_EQ(worker.hear(), MessageType::kFate);
  const Result<FateTold> fate = parse_fate(worker.link().content());
  return fate.ok() ? fate->kind : Answer::Kind::kForgotten;
}
// Messages of other types may come before.
void hear_until(RawPeer& peer, MessageType type) {
  for (int i = 0; i < 20; ++i) {
    const std::optional<MessageType> heard = peer.hear();
    if (heard == type) return;
    ASSERT_TRUE(heard.has_value());
  }
  FAIL();
}
void wait_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(200)); }

std::unique_ptr<BranchDesk> branch_below(const std::string& parent) {
  UplinkOptions above;
  above.addresses = parent;
  std::unique_ptr<BranchDesk> desk = std::move(*BranchDesk::create(
      kernels::cpu_kernels(), patient_options(), above,
      std::move(*replication::Listener::open("", replication::Reach::kThisMachine))));
  return desk;
}
BranchDesk::Turn turn_with_collect(BranchDesk& desk, std::vector<Arrival>& arrivals) {
  BranchDesk::Turn turn;
  for (int i = 0; i < 100 && !turn.collect; ++i) {
    turn = desk.wait(0.1);
    for (Arrival& each : turn.arrivals) arrivals.push_back(std::move(each));
  }
  return turn;
}

// A parent that says what a test wants.
struct RawParent {
  std::string address() const { return to_text(*local_address(listener)); }
  RawPeer accept() const {
    pollfd entry{listener.fd(), POLLIN, 0};
    (void)net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + 10);
    RawPeer peer(
        net::Socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
    EXPECT_EQ(peer.hear(), MessageType::kEnroll);
    peer.say(MessageType::kEnrolled,
             Enrolled{kWorkerProtocol, 1, 60'000, "a root", "127.0.0.1:1", true, false});
    wait_a_little();
    return peer;
  }
  net::Socket listener = std::move(*net::listen_at(net::loopback_address(), 8));
};
void say_new(RawPeer& parent, aggregate::WorkerId worker) {
  parent.say(MessageType::kVerdict,
             Verdict{worker, true, 0, 1, 1, {1, Answer::Kind::kListed, 1, ""}});
}

TEST(BranchDesk, AParentWithoutAnAddressIsRefused) {
  UplinkOptions above;
  above.addresses = "nowhere";
  const auto desk = BranchDesk::create(
      kernels::cpu_kernels(), desk_options(), above,
      std::move(*replication::Listener::open("", replication::Reach::kThisMachine)));
  ASSERT_FALSE(desk.ok());
  EXPECT_NE(desk.status().message().find("nowhere"), std::string::npos);
}

// A branch below says what its worker signed once, or makes it up.
TEST(BranchDesk, NoBranchBelowTakesTheWorkerOfAnotherOne) {
  const RawParent parent;
  const auto desk = branch_below(parent.address());
  RawPeer above = parent.accept();
  const trust::SigningKey key = std::move(*trust::SigningKey::generate());
  const trust::SigningKey forged = std::move(*trust::SigningKey::generate());
  const auto join_of = [](const trust::SigningKey& by, std::uint64_t count) {
    const RootNonce nonce{};
    const std::string model = "m";
    const Hash128 schema{1, 2};
    const WorkerClaim claim{nonce, model, schema, kMoving};
    return Join{count, {{by.public_key(), by.sign(signed_bytes(claim, 0, count))}}};
  };
  RawPeer worker = RawPeer::connect(desk->address(), {});
  worker.say(MessageType::kEnroll,
             Enroll{kWorkerProtocol, "m", {1, 2}, kMoving, 60'000, "a worker"});
  ASSERT_EQ(worker.hear(), MessageType::kNonce);
  worker.say(MessageType::kJoin, join_of(key, 2));
  ASSERT_EQ(worker.hear(), MessageType::kEnrolled);
  RawPeer below = branch_at(desk->address());
  const auto claim = [&](const Join& join) {
    below.say(MessageType::kMember,
              MemberTold{kMoving, MemberTold::State::kAwaited, {}, "a worker", join});
  };
  Join changed = join_of(key, 2);
  changed.count = 3;
  for (const Join& wrong :
       {join_of(key, 1), join_of(key, 2), join_of(forged, 3), changed, Join{9}}) {
    claim(wrong);
    ASSERT_EQ(below.hear(), MessageType::kTurnedAway);
  }
  EXPECT_TRUE(worker.link().is_open());
  EXPECT_FALSE(worker.hear(0.1).has_value());
  EXPECT_TRUE(worker.link().is_open());
  ASSERT_EQ(above.hear(), MessageType::kMember);
  claim(join_of(key, 3));  // it has moved
  expect_refusal(worker, "has connected again");
  ASSERT_EQ(above.hear(), MessageType::kMember);
  EXPECT_EQ(parse_member(above.link().content())->join.count, 3U);
}

// The worker has offered it again at the root, where it was known. Then the branch dies.
TEST(BranchDesk, AMovedWorkerOffersAgainWhatItsOldAggregatorLost) {
  const Desk own(patient_options());
  const RawPeer other = worker_at(own.desk->address(), 5);  // awaited
  auto branch = std::make_unique<RawPeer>(branch_at(own.desk->address()));
  say_member(*branch, kMoving);
  say_given(*branch, kMoving, 1);
  EXPECT_TRUE(hear_new(*branch));
  RawPeer moved = worker_at(own.desk->address(), kMoving);
  moved.say(MessageType::kContribution, packed_entries(5, 1).offered);
  EXPECT_EQ(hear_fate(moved), Answer::Kind::kListed);
  branch.reset();
  ASSERT_EQ(moved.hear(), MessageType::kRefusal) << "it is to connect again";
  RawPeer again = worker_at(own.desk->address(), kMoving);
  send_all(again, packed_entries(5, 1));
  EXPECT_EQ(hear_fate(again), Answer::Kind::kListed);
}

TEST(BranchDesk, AWorkerThatMissedTheEndOfItsRoundLearnsItsFate) {
  const Desk root(patient_options());
  const std::unique_ptr<BranchDesk> desk = branch_below(root.desk->address());
  ASSERT_TRUE(desk->uplink().results_address(5).ok());
  wait_a_little();
  auto worker = std::make_unique<RawPeer>(worker_at(desk->address(), kMoving));
  send_all(*worker, packed_entries(5, 1));
  EXPECT_EQ(hear_fate(*worker), Answer::Kind::kListed);
  worker.reset();
  wait_a_little();
  for (int i = 0; i < 50 && !root.desk->wait(0.1).is_closed; ++i) {
  }
  auto sums = std::async(std::launch::async, [&] { return root.desk->collect_sums({}); });
  std::vector<Arrival> arrivals;
  const BranchDesk::Turn turn = turn_with_collect(*desk, arrivals);
  ASSERT_TRUE(turn.collect);
  BufferPool buffers;
  aggregate::WaitingParts waiting;
  ContributionSum sum(buffers, kernels::cpu_kernels(), run_of_model(), false, waiting);
  for (const Arrival& each : arrivals) ASSERT_TRUE(sum.add(each, 1).ok());
  desk->deliver(turn.life, 1, *sum.take(1, turn.collect->spans));
  EXPECT_EQ(sums.get().closing.listed.size(), 1u);
  root.desk->committed();
  wait_a_little();
  RawPeer again = worker_at(desk->address(), kMoving);
  send_all(again, packed_entries(5, 1));
  EXPECT_EQ(hear_fate(again), Answer::Kind::kCommitted);
}

// A and B are at the branch, C and D here; A, C and D have contributed. It must not close with A's.
TEST(BranchDesk, ALostBranchDoesNotEndARoundWithWhatIsLost) {
  DeskOptions options = patient_options();
  options.round.mode = aggregate::RoundMode::kQuorum;
  options.round.quorum = 3;
  options.round.grace = {100, 100};
  const Desk own(options);
  RawPeer c = worker_at(own.desk->address(), 1), d = worker_at(own.desk->address(), 2);
  auto branch = std::make_unique<RawPeer>(branch_at(own.desk->address()));
  say_member(*branch, kMoving);
  say_member(*branch, 78);
  say_given(*branch, kMoving, 1);
  EXPECT_TRUE(hear_new(*branch));
  for (RawPeer* each : {&c, &d}) {
    send_all(*each, packed_entries(5, 1));
    EXPECT_EQ(hear_fate(*each), Answer::Kind::kListed);
  }
  branch.reset();
  wait_a_little();
  EXPECT_FALSE(own.desk->wait(0.2).is_closed);
  RawPeer a = worker_at(own.desk->address(), kMoving);
  send_all(a, packed_entries(5, 1));
  EXPECT_EQ(hear_fate(a), Answer::Kind::kListed);
}

TEST(BranchDesk, ANumberThatIsTakenEndsNoOthersPlace) {
  const Desk own(patient_options());
  RawPeer branch = branch_at(own.desk->address());
  say_member(branch, kMoving, 4);
  say_member(branch, 78, 5);
  say_member(branch, kMoving, 4, MemberTold::State::kResting);
  wait_a_little();
  const RawPeer direct = worker_at(own.desk->address(), 1, 4);
  say_given(branch, kMoving, 1);  // without asking first
  ASSERT_EQ(branch.hear(), MessageType::kTurnedAway);
  say_given(branch, 78, 1);
  EXPECT_TRUE(hear_new(branch));
}

TEST(BranchDesk, SumsThatAreMissingOrDoubleAreRefused) {
  for (const int sums_sent : {0, 2}) {
    const Desk own(patient_options());
    RawPeer branch = branch_at(own.desk->address());
    say_member(branch, kMoving);
    say_given(branch, kMoving, 1);
    EXPECT_TRUE(hear_new(branch));
    for (int i = 0; i < 50 && !own.desk->wait(0.1).is_closed; ++i) {
    }
    auto sums = std::async(std::launch::async, [&] { return own.desk->collect_sums({}); });
    ASSERT_EQ(branch.hear(), MessageType::kCollect);
    const Packed packed = packed_entries(5, 1);
    for (int i = 0; i < sums_sent; ++i) {
      branch.say(MessageType::kSubtree,
                 SubtreeTold{1, false, 0, {0, 0}, packed.offered.bytes, packed.offered.digest});
      branch.link().queue_chunk({1, 0}, packed.bytes);
    }
    branch.say(MessageType::kCollected, Collected{1});
    expect_refusal(branch, sums_sent == 0 ? "in none of them" : "has come already");
    EXPECT_TRUE(sums.get().closing.listed.empty());
  }
}

// TURNED_AWAY and VERDICT cross with what the worker does.
TEST(BranchDesk, AVerdictOnWhatIsGoneWithdrawsIt) {
  const RawParent parent;
  const std::unique_ptr<BranchDesk> desk = branch_below(parent.address());
  RawPeer up = parent.accept();
  RawPeer worker = worker_at(desk->address(), kMoving), other = worker_at(desk->address(), 78);
  send_all(worker, packed_entries(5, 1));
  hear_until(up, MessageType::kGiven);
  up.say(MessageType::kTurnedAway, TurnedAway{kMoving, Code::kRemoteError, "it has moved"});
  say_new(up, kMoving);
  hear_until(up, MessageType::kWithdrawn);
  EXPECT_TRUE(worker.is_dropped());
  send_all(other, packed_entries(5, 1));  // it is still served
  hear_until(up, MessageType::kGiven);
}

// The owner is still busy with a COLLECT when the parent is another one, and its branches have
// contributed again.
TEST(BranchDesk, ACollectOfAnOldConnectionTakesNoSums) {
  const RawParent parent;
  const std::unique_ptr<BranchDesk> middle = branch_below(parent.address());
  const auto give_and_collect = [&](RawPeer& up, RawPeer& branch) {
    say_member(branch, kMoving);
    say_given(branch, kMoving, 1);
    hear_until(up, MessageType::kGiven);
    say_new(up, kMoving);
    EXPECT_TRUE(hear_new(branch));
    up.say(MessageType::kCollect, Collect{1, true, true, 5, {{0, aggregate::kAllSlots}}, {}});
    std::vector<Arrival> arrivals;
    return turn_with_collect(*middle, arrivals);
  };
  BranchDesk::Turn old;
  {
    RawPeer up = parent.accept();
    RawPeer branch = branch_at(middle->address());
    old = give_and_collect(up, branch);
    ASSERT_TRUE(old.collect);
  }
  RawPeer up = parent.accept();
  RawPeer branch = branch_at(middle->address());
  const BranchDesk::Turn now = give_and_collect(up, branch);
  ASSERT_TRUE(now.collect);
  EXPECT_TRUE(middle->collect_sums(old.life, *old.collect).empty());
  auto sums =
      std::async(std::launch::async, [&] { return middle->collect_sums(now.life, *now.collect); });
  ASSERT_EQ(branch.hear(), MessageType::kCollect);
  const Packed packed = packed_entries(5, 1);
  branch.say(MessageType::kSubtree,
             SubtreeTold{1, false, 0, {0, 0}, packed.offered.bytes, packed.offered.digest});
  branch.link().queue_chunk({1, 0}, packed.bytes);
  branch.say(MessageType::kCollected, Collected{1});
  EXPECT_EQ(sums.get().size(), 1u);
}

TEST(BranchDesk, AnEndOfSumsThatComesTooLateIsIgnored) {
  const Desk own(patient_options());
  RawPeer other = worker_at(own.desk->address(), 5);
  RawPeer branch = branch_at(own.desk->address());
  say_member(branch, kMoving);
  for (const std::uint64_t round : {1U, 2U}) {
    say_given(branch, kMoving, round);
    EXPECT_TRUE(hear_new(branch));
    send_all(other, packed_entries(9, round));
    EXPECT_EQ(hear_fate(other), Answer::Kind::kListed);
    for (int i = 0; i < 50 && !own.desk->wait(0.1).is_closed; ++i) {
    }
    auto sums = std::async(std::launch::async, [&] { return own.desk->collect_sums({}); });
    ASSERT_EQ(branch.hear(), MessageType::kCollect);
    branch.say(MessageType::kWithdrawn, Withdrawn{{kMoving, round}});
    if (round == 2) branch.say(MessageType::kCollected, Collected{1});
    EXPECT_EQ(sums.get().closing.listed.size(), 1u);
    own.desk->committed();
    EXPECT_EQ(hear_fate(other), Answer::Kind::kCommitted);
  }
  say_given(branch, kMoving, 2);
  EXPECT_TRUE(hear_new(branch)) << "the branch is still there";
}

}  // namespace
}  // namespace sparcl::elastic
