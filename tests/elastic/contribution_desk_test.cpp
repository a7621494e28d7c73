// A desk and peers that are no workers: each is refused by name, and the others go on.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "src/replication/query.hpp"
#include "tests/elastic/desk_party.hpp"

namespace sparcl::elastic {
namespace {

using replication::MessageType;
using replication::RawPeer;

TEST(ContributionDesk, PeersThatAreNoWorkersAreRefusedByName) {
  const Desk own;
  RawPeer other = own.connect();
  other.say(MessageType::kEnroll, Enroll{kWorkerProtocol + 1, "m", {1, 2}, 1, 5000, "a test"});
  expect_refusal(other, "version 4 of the protocol of workers");
  RawPeer model = own.connect();
  model.say(MessageType::kEnroll, Enroll{kWorkerProtocol, "n", {1, 2}, 1, 5000, "a test"});
  expect_refusal(model, "model \"n\"");
  RawPeer tensors = own.connect();
  tensors.say(MessageType::kEnroll, Enroll{kWorkerProtocol, "m", {1, 3}, 1, 5000, "a test"});
  expect_refusal(tensors, "tensors differ");
  RawPeer hello = own.connect();
  hello.say(MessageType::kHello, replication::Hello{});
  expect_refusal(hello, "out of place");
  RawPeer worker = own.enrolled(7);
  expect_service(own, worker, 1);
}

TEST(ContributionDesk, WrongContributionsEndTheirConnectionAlone) {
  const Desk own;
  RawPeer worker = own.enrolled(7);

  RawPeer large = own.enrolled(8);
  Packed packed = packed_entries(5, 1);
  packed.offered.bytes = std::uint64_t{1} << 40;
  large.say(MessageType::kContribution, packed.offered);
  expect_refusal(large, "at most");

  RawPeer forged = own.enrolled(9);
  packed = packed_entries(5, 1);
  packed.offered.digest[0] ^= std::byte{1};
  send_all(forged, packed);
  expect_refusal(forged, "do not match their digest");

  RawPeer outside = own.enrolled(10);
  packed = packed_entries(kElements, 1);
  send_all(outside, packed);
  expect_refusal(outside, "no part of the model");

  RawPeer unasked = own.enrolled(11);
  packed = packed_entries(5, 1);
  unasked.link().queue_chunk({1, 0}, packed.bytes);
  (void)unasked.link().flush();
  expect_refusal(unasked, "not offered");

  RawPeer twice = own.enrolled(12);
  twice.say(MessageType::kContribution, packed.offered);
  twice.say(MessageType::kContribution, packed.offered);
  ASSERT_EQ(twice.hear(), MessageType::kWanted);
  expect_refusal(twice, "while another one comes");

  expect_service(own, worker, 1);
}

TEST(ContributionDesk, AContributionThatComesAgainIsKnown) {
  const Desk own;
  RawPeer worker = own.enrolled(7);
  expect_service(own, worker, 1);
  worker.say(MessageType::kContribution, packed_entries(5, 1).offered);
  ASSERT_EQ(worker.hear(), MessageType::kFate);  // its bytes are not wanted again
  EXPECT_EQ(parse_fate(worker.link().content())->kind, aggregate::Answer::Kind::kCommitted);
  worker.say(MessageType::kContribution, packed_entries(5, 9).offered);
  ASSERT_EQ(worker.hear(), MessageType::kFate);
  EXPECT_EQ(parse_fate(worker.link().content())->kind, aggregate::Answer::Kind::kEarly);
}

TEST(ContributionDesk, AWorkerThatConnectsAgainReplacesItsOldConnection) {
  const Desk own;
  RawPeer old_one = own.enrolled(7);
  RawPeer worker = own.enrolled(7);
  EXPECT_TRUE(old_one.is_dropped());
  expect_service(own, worker, 1);
}

TEST(ContributionDesk, SilentPeersHoldNobodyUp) {
  DeskOptions options = desk_options();
  options.silence_s = 0.5;
  const Desk own(options);
  RawPeer mute = own.connect();
  RawPeer stops = own.enrolled(8);
  stops.say(MessageType::kContribution, packed_entries(5, 1).offered);  // and sends no byte
  std::vector<RawPeer> crowd;
  for (int i = 0; i < 80; ++i) crowd.push_back(own.connect());
  RawPeer worker = own.enrolled(7);
  EXPECT_TRUE(mute.is_dropped(5));
  EXPECT_TRUE(stops.is_dropped(5));
  RawPeer again = own.enrolled(7);  // it was silent, too
  expect_service(own, again, 1);
}

TEST(ContributionDesk, AnswersAQuestionAboutItsStatus) {
  const Desk own;
  const RawPeer worker = own.enrolled(7);
  const Result<std::string> status = replication::query_status(own.desk->address(), 5);
  ASSERT_TRUE(status.ok()) << status.status().message();
  EXPECT_NE(status->find("\"round\":1"), std::string::npos);
  EXPECT_NE(status->find("a test"), std::string::npos);
  EXPECT_EQ(status->find("0000000000000007"), std::string::npos);  // it would open its place
}

}  // namespace
}  // namespace sparcl::elastic
