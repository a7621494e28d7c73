// A desk that takes signed contributions alone: what is not signed, or was signed for something
// else, counts nowhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "tests/elastic/desk_party.hpp"

namespace sparcl::elastic {
namespace {

using replication::MessageType;
using replication::RawPeer;

class TrustedContributorsTest : public testing::Test {
 protected:
  void SetUp() override { trust({&mine_, &other_of_mine_}); }
  void TearDown() override { std::filesystem::remove(path_); }

  void trust(std::vector<const trust::SigningKey*> keys) const {
    const std::string whole = path_ + ".new";
    {
      std::ofstream file(whole);
      for (const trust::SigningKey* each : keys)
        file << trust::public_key_line(each->public_key()) << '\n';
    }
    std::filesystem::permissions(whole, std::filesystem::perms(0600));
    std::filesystem::rename(whole, path_);
  }
  DeskOptions options() const {
    DeskOptions made = desk_options();
    made.contributors = std::move(*TrustedContributors::load(path_));
    return made;
  }

  // One that has enrolled, but not joined yet. Its nonce, too.
  static RawPeer enrolled_at(const Desk& own, aggregate::WorkerId worker, RootNonce& nonce) {
    RawPeer peer = own.connect();
    peer.say(MessageType::kEnroll,
             Enroll{kWorkerProtocol, "m", {1, 2}, worker, 5000, "a test", false, 0});
    EXPECT_EQ(peer.hear(), MessageType::kNonce);
    nonce = parse_nonce(peer.link().content())->nonce;
    return peer;
  }
  static RawPeer branch_at(const Desk& own, RootNonce& nonce) {
    RawPeer peer = own.connect();
    peer.say(MessageType::kEnroll,
             Enroll{kWorkerProtocol, "m", {1, 2}, 0, 5000, "a branch", true, 0});
    EXPECT_EQ(peer.hear(), MessageType::kEnrolled);
    nonce = parse_enrolled(peer.link().content())->nonce;
    return peer;
  }
  static Join joining(const trust::SigningKey& key, const RootNonce& nonce,
                      aggregate::WorkerId worker, std::uint32_t number = 0,
                      std::uint64_t count = 1) {
    const std::string model = "m";
    const Hash128 schema{1, 2};
    const WorkerClaim claim{nonce, model, schema, worker};
    return {count, {{key.public_key(), key.sign(signed_bytes(claim, number, count))}}};
  }
  RawPeer joined_with(const Desk& own, aggregate::WorkerId worker, const trust::SigningKey& key,
                      RootNonce& nonce) {
    RawPeer peer = enrolled_at(own, worker, nonce);
    peer.say(MessageType::kJoin, joining(key, nonce, worker, 0, ++joins_));
    EXPECT_EQ(peer.hear(), MessageType::kEnrolled);
    return peer;
  }
  static Offered signed_by(const trust::SigningKey& key, const RootNonce& nonce,
                           aggregate::WorkerId worker, Offered offered) {
    const std::string model = "m";
    const Hash128 schema{1, 2};
    const WorkerClaim claim{nonce, model, schema, worker};
    offered.signatures = {{key.public_key(), key.sign(signed_bytes(claim, offered))}};
    return offered;
  }

  // Worker 7 contributes, and the round waits for nobody else.
  void expect_end(const Desk& own, RawPeer& worker, const RootNonce& nonce) const {
    Packed packed = packed_entries(5, 1);
    packed.offered = signed_by(mine_, nonce, 7, packed.offered);
    send_all(worker, packed);
    bool is_closed = false;
    for (int i = 0; i < 100 && !is_closed; ++i) is_closed = own.desk->wait(0.1).is_closed;
    EXPECT_TRUE(is_closed);
  }

  std::uint64_t joins_ = 0;
  const std::string path_ = testing::TempDir() + "contributors_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() +
                            std::to_string(::getpid());
  const trust::SigningKey mine_ = std::move(*trust::SigningKey::generate());
  const trust::SigningKey other_of_mine_ = std::move(*trust::SigningKey::generate());
  const trust::SigningKey foreign_ = std::move(*trust::SigningKey::generate());
};

TEST_F(TrustedContributorsTest, OnlyWorkersThatProveATrustedKeyTakePart) {
  const Desk own(options());
  const Desk elsewhere(options());
  RootNonce nonce, other_nonce;
  (void)enrolled_at(elsewhere, 7, other_nonce);
  const std::function<Join()> kWrong[] = {
      [&] { return Join(); },
      [&] { return joining(foreign_, nonce, 7); },
      [&] { return joining(mine_, other_nonce, 7); },
      [&] { return joining(mine_, nonce, 8); },
      [&] { return joining(mine_, nonce, 7, 5); },
      [&] {
        return Join{1, {{mine_.public_key(), {}}}};
      },
  };
  for (const auto& wrong : kWrong) {
    RawPeer peer = enrolled_at(own, 7, nonce);
    const Join join = wrong();
    peer.say(MessageType::kJoin, join);
    expect_refusal(peer, join.signatures.empty() ? "it has no key" : "no contributor of this");
  }
  // Before it has joined nothing counts, and no round waits for it.
  RawPeer early = enrolled_at(own, 9, nonce);
  early.say(MessageType::kContribution, packed_entries(5, 1).offered);
  expect_refusal(early, "out of place");
  EXPECT_THAT(own.desk->status(), testing::HasSubstr("\"refused_connections\":7,"));
  RawPeer waits = enrolled_at(own, 9, nonce);
  RawPeer right = joined_with(own, 7, mine_, nonce);
  expect_end(own, right, nonce);
}

TEST_F(TrustedContributorsTest, OnlyWhatIsSignedForThisRootWorkerRoundAndBytesCounts) {
  const Desk own(options());
  const Desk elsewhere(options());
  RootNonce nonce, other_nonce;
  (void)enrolled_at(elsewhere, 7, other_nonce);
  const Packed packed = packed_entries(5, 1);
  const Offered& plain = packed.offered;
  const auto changed = [&](auto&& change) {
    Offered offered = signed_by(mine_, nonce, 7, plain);
    change(offered);
    return offered;
  };
  const std::function<Offered()> kWrong[] = {
      [&] { return plain; },
      [&] { return signed_by(foreign_, nonce, 7, plain); },
      [&] { return signed_by(mine_, other_nonce, 7, plain); },
      [&] { return signed_by(mine_, nonce, 8, plain); },
      [&] { return changed([](Offered& offered) { offered.weight = 1e9; }); },
      [&] { return changed([](Offered& offered) { offered.round = 0; }); },
      [&] { return changed([](Offered& offered) { offered.bytes += 1; }); },
      [&] { return changed([](Offered& offered) { offered.is_narrow = true; }); },
      [&] { return changed([](Offered& offered) { offered.digest[31] ^= std::byte{1}; }); },
  };
  for (const auto& wrong : kWrong) {
    RawPeer peer = joined_with(own, 7, mine_, nonce);
    peer.say(MessageType::kContribution, wrong());
    expect_refusal(peer, "the contribution to round");
  }
  RawPeer peer = joined_with(own, 7, other_of_mine_, nonce);
  Packed right = packed;
  right.offered = signed_by(other_of_mine_, nonce, 7, plain);
  send_all(peer, right);
  ASSERT_EQ(peer.hear(), MessageType::kFate);
  EXPECT_EQ(parse_fate(peer.link().content())->kind, aggregate::Answer::Kind::kListed);
}

TEST_F(TrustedContributorsTest, ABranchCannotMakeContributions) {
  const Desk own(options());
  RootNonce nonce;
  RawPeer branch = branch_at(own, nonce);
  const auto join = [&](aggregate::WorkerId worker, Join said) {
    branch.say(MessageType::kMember,
               MemberTold{worker, MemberTold::State::kAwaited, {}, "a worker", std::move(said)});
  };
  const auto expect_turned_away = [&](aggregate::WorkerId worker) {
    ASSERT_EQ(branch.hear(), MessageType::kTurnedAway);
    const TurnedAway away = *parse_turned_away(branch.link().content());
    EXPECT_EQ(away.worker, worker);
    EXPECT_EQ(away.code, Code::kUnauthorized);
  };
  join(7, {});
  expect_turned_away(7);
  join(7, joining(mine_, nonce, 8));
  expect_turned_away(7);
  join(8, joining(mine_, nonce, 8));
  const Offered offered = packed_entries(5, 1).offered;
  branch.say(MessageType::kGiven, GivenTold{8, {5, 0}, 2, offered});
  expect_turned_away(8);
  join(8, joining(mine_, nonce, 8, 0, 2));
  branch.say(MessageType::kGiven, GivenTold{8, {5, 0}, 2, signed_by(mine_, nonce, 8, offered)});
  ASSERT_EQ(branch.hear(), MessageType::kVerdict);
  EXPECT_TRUE(parse_verdict(branch.link().content())->is_new);
}

// A branch says again that a worker is there, which may take part no more.
TEST_F(TrustedContributorsTest, NoRoundWaitsForAMemberThatLosesItsProof) {
  const Desk own(options());
  RootNonce nonce;
  RawPeer right = joined_with(own, 7, mine_, nonce);
  RawPeer branch = branch_at(own, nonce);
  for (const Join& said : {joining(mine_, nonce, 8), Join()})
    branch.say(MessageType::kMember,
               MemberTold{8, MemberTold::State::kAwaited, {}, "a worker", said});
  ASSERT_EQ(branch.hear(), MessageType::kTurnedAway);
  expect_end(own, right, nonce);
}

// A branch keeps what a worker once said, and says it again when the worker is elsewhere.
TEST_F(TrustedContributorsTest, ARepeatedJoinMovesNobody) {
  const Desk own(options());
  RootNonce nonce;
  RawPeer branch = branch_at(own, nonce);
  const MemberTold old{7, MemberTold::State::kAwaited, {}, "a worker", joining(mine_, nonce, 7)};
  branch.say(MessageType::kMember, old);
  branch.say(MessageType::kMember, old);  // it is awaited again
  RootNonce same;
  RawPeer moved = enrolled_at(own, 7, same);
  moved.say(MessageType::kJoin, joining(mine_, nonce, 7, 0, 2));
  ASSERT_EQ(moved.hear(), MessageType::kEnrolled);
  const auto expect_turned_away = [&](const std::string& why) {
    ASSERT_EQ(branch.hear(), MessageType::kTurnedAway);
    const TurnedAway away = *parse_turned_away(branch.link().content());
    EXPECT_EQ(away.code, Code::kRemoteError);
    EXPECT_NE(away.text.find(why), std::string::npos) << away.text;
  };
  expect_turned_away("has connected again");
  branch.say(MessageType::kMember, old);
  expect_turned_away("a repeated one");
  expect_end(own, moved, nonce);
}

// One of two keys came into the list after its worker had signed by both.
TEST_F(TrustedContributorsTest, AKeyThatIsAddedMakesNoOldJoinCount) {
  trust({&mine_});
  const Desk own(options());
  RootNonce nonce;
  RawPeer branch = branch_at(own, nonce);
  const auto by_both = [&](std::uint64_t count) {
    Join join = joining(mine_, nonce, 7, 0, count);
    join.signatures.push_back(joining(other_of_mine_, nonce, 7, 0, count).signatures[0]);
    return join;
  };
  RootNonce same;
  RawPeer worker = enrolled_at(own, 7, same);
  worker.say(MessageType::kJoin, by_both(6));
  ASSERT_EQ(worker.hear(), MessageType::kEnrolled);
  trust({&mine_, &other_of_mine_});
  Join old = by_both(5);
  old.signatures.erase(old.signatures.begin());
  for (int i = 0; i < 20; ++i) {  // the file is read again within a second or two
    branch.say(MessageType::kMember,
               MemberTold{7, MemberTold::State::kAwaited, {}, "a worker", old});
    ASSERT_EQ(branch.hear(), MessageType::kTurnedAway);
    const TurnedAway away = *parse_turned_away(branch.link().content());
    if (away.text.find("a repeated one") != std::string::npos)
      return expect_end(own, worker, nonce);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  FAIL() << "the list is as before";
}

// Another contributor that knows the worker's number has its place once, and not for good.
TEST_F(TrustedContributorsTest, AWorkerTakesItsPlaceBack) {
  const Desk own(options());
  RootNonce nonce;
  RawPeer first = joined_with(own, 7, mine_, nonce);
  RawPeer thief = enrolled_at(own, 7, nonce);
  Join stolen = joining(other_of_mine_, nonce, 7, 0, ~std::uint64_t{0});
  stolen.signatures.push_back({foreign_.public_key(), {}});  // of the worker, and not in the list
  thief.say(MessageType::kJoin, stolen);
  ASSERT_EQ(thief.hear(), MessageType::kEnrolled);
  expect_refusal(first, "has connected again");
  RawPeer again = enrolled_at(own, 7, nonce);
  Join back = joining(mine_, nonce, 7, 0, 2);
  back.signatures.push_back(joining(foreign_, nonce, 7, 0, 2).signatures[0]);
  again.say(MessageType::kJoin, back);
  ASSERT_EQ(again.hear(), MessageType::kEnrolled);
  expect_refusal(thief, "has connected again");
  expect_end(own, again, nonce);
}

TEST_F(TrustedContributorsTest, JoinsOfWorkersThatAreGoneAreForgottenOnceThereAreManyOfThem) {
  TrustedContributors contributors = std::move(*TrustedContributors::load(path_));
  const Join join{1, {{mine_.public_key(), {}}, {foreign_.public_key(), {}}}};
  const auto is_there = [](aggregate::WorkerId worker) { return worker == 1; };
  const auto note = [&](aggregate::WorkerId worker) { contributors.note(worker, join, is_there); };
  note(1);
  note(2);
  EXPECT_FALSE(contributors.is_newer(1, join));
  EXPECT_FALSE(contributors.is_newer(2, join));
  EXPECT_TRUE(contributors.is_newer(1, {2, join.signatures}));
  EXPECT_TRUE(contributors.is_newer(1, {1, {{foreign_.public_key(), {}}}}));
  for (aggregate::WorkerId worker = 3; worker < 70'000; ++worker) note(worker);
  EXPECT_FALSE(contributors.is_newer(1, join));
  EXPECT_TRUE(contributors.is_newer(2, join));
  EXPECT_FALSE(contributors.is_newer(69'999, join));
}

TEST_F(TrustedContributorsTest, AKeyThatIsTakenFromTheFileEndsItsWorkers) {
  const Desk own(options());
  RootNonce nonce;
  RawPeer stays = joined_with(own, 7, mine_, nonce);
  RawPeer goes = joined_with(own, 8, other_of_mine_, nonce);
  trust({&mine_});
  expect_refusal(goes, "is not among the 1 of");
  expect_end(own, stays, nonce);
  own.desk->committed();
  ASSERT_EQ(stays.hear(), MessageType::kFate);
}

TEST_F(TrustedContributorsTest, AFileThatCannotBeUsedChangesNothing) {
  TrustedContributors contributors = std::move(*TrustedContributors::load(path_));
  const RootNonce nonce{};
  const std::string model = "m";
  const Hash128 schema{1, 2};
  const auto result = [&] {
    return contributors.check({nonce, model, schema, 7}, 0, joining(mine_, nonce, 7)).code();
  };
  std::ofstream(path_) << "no key\n";
  EXPECT_FALSE(contributors.look(100));
  EXPECT_EQ(result(), Code::kSuccess);
  std::filesystem::remove(path_);
  EXPECT_FALSE(contributors.look(101));
  EXPECT_EQ(result(), Code::kSuccess);
  trust({&foreign_});
  EXPECT_FALSE(contributors.look(101.5)) << "once a second";
  EXPECT_TRUE(contributors.look(103));
  EXPECT_EQ(result(), Code::kUnauthorized);
  trust({&mine_});
  EXPECT_TRUE(contributors.look(105));
  EXPECT_EQ(result(), Code::kSuccess);
  trust({});
  EXPECT_TRUE(contributors.look(107)) << "the last key is taken away";
  EXPECT_EQ(result(), Code::kUnauthorized);
  EXPECT_FALSE(TrustedContributors::load(path_).ok()) << "at the start that is a mistake";
  EXPECT_EQ(TrustedContributors::load(path_ + ".absent").status().code(), Code::kSystemError);
}

}  // namespace
}  // namespace sparcl::elastic
