// A desk and peers that are no workers: each is refused by name, and the others go on.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "src/base/bytes.hpp"
#include "src/base/checksum.hpp"
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
  expect_refusal(hello, "address of the results");
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
  ASSERT_EQ(twice.hear(), MessageType::kWanted);
  twice.say(MessageType::kContribution, packed.offered);
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

// One that has said who it is, and does not take part yet.
RawPeer joining(const Desk& own, aggregate::WorkerId worker) {
  RawPeer peer = own.connect();
  peer.say(MessageType::kEnroll, Enroll{kWorkerProtocol, "m", {1, 2}, worker, 5000, "a test"});
  EXPECT_EQ(peer.hear(), MessageType::kNonce);
  return peer;
}

TEST(ContributionDesk, PeersThatDoNotJoinHoldNobodyUp) {
  DeskOptions options = desk_options();
  options.silence_s = 1;
  const Desk own(options);
  RawPeer asks = joining(own, 1);
  asks.say(MessageType::kStatusQuery, std::span<const std::byte>());
  expect_refusal(asks, "out of place");
  std::vector<RawPeer> crowd;
  for (int i = 0; i < 80; ++i) crowd.push_back(joining(own, 100 + i));
  RawPeer worker = own.enrolled(7);
  expect_service(own, worker, 1);
  // A JOIN that comes byte by byte keeps no connection.
  RawPeer lively = joining(own, 8);
  lively.send_bytes(serialise(replication::MessageHead{MessageType::kJoin, 1000, 0}));
  bool is_dropped = false;
  for (int i = 0; i < 500 && !is_dropped; ++i) {
    lively.send_bytes(std::vector<std::byte>(1));
    is_dropped = lively.is_dropped(0.02);
  }
  EXPECT_TRUE(is_dropped);
}

DeskOptions patient() {
  DeskOptions options = desk_options();
  options.silence_s = 60;
  return options;
}

RawPeer saying_enroll(const Desk& own, aggregate::WorkerId worker) {
  RawPeer peer = own.connect();
  peer.say(MessageType::kEnroll, Enroll{kWorkerProtocol, "m", {1, 2}, worker, 5000, "a test"});
  return peer;
}

// More at once than there are places: the others connect again, as workers do.
TEST(ContributionDesk, ACrowdOfWorkersJoins) {
  const Desk own(patient());
  std::vector<RawPeer> crowd;
  for (int i = 0; i < 300; ++i) crowd.push_back(saying_enroll(own, i + 1));
  for (int i = 0; i < 300; ++i) {
    std::optional<MessageType> heard = crowd[i].hear();
    for (int again = 0; again < 100 && heard != MessageType::kNonce; ++again) {
      crowd[i] = saying_enroll(own, i + 1);
      heard = crowd[i].hear();
    }
    ASSERT_EQ(heard, MessageType::kNonce);
    crowd[i].say(MessageType::kJoin, Join{});
    ASSERT_EQ(crowd[i].hear(), MessageType::kEnrolled);
  }
}

// 127.0.0.2, for the aggregator another host.
RawPeer connect_from_elsewhere(const Desk& own) {
  net::NetAddress here = net::loopback_address();
  here.ip[3] = std::byte{2};
  const net::HostPort to = *net::parse_host_port(own.desk->address());
  const net::SocketAddress from = to_socket_address(here),
                           there = to_socket_address(net::resolve(to)->front());
  net::Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(socket.fd(), from.get(), from.bytes), 0);
  (void)::connect(socket.fd(), there.get(), there.bytes);
  pollfd entry{socket.fd(), POLLOUT, 0};
  (void)net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + RawPeer::kPatience);
  return RawPeer(std::move(socket));
}

TEST(ContributionDesk, AHostThatTakesAllPlacesKeepsNoOtherHostOut) {
  const Desk own(patient());
  std::vector<RawPeer> crowd;
  for (int i = 0; i < 256; ++i) crowd.push_back(own.connect());
  EXPECT_FALSE(crowd.front().is_dropped(0.2)) << "nobody waits";
  EXPECT_TRUE(own.connect().is_dropped()) << "one more of that host";
  EXPECT_FALSE(crowd.front().is_dropped(0.05));
  RawPeer other = connect_from_elsewhere(own);
  other.say(MessageType::kEnroll, Enroll{kWorkerProtocol, "m", {1, 2}, 7, 5000, "a test"});
  EXPECT_EQ(other.hear(), MessageType::kNonce);
  EXPECT_TRUE(crowd.front().is_dropped());
  EXPECT_FALSE(crowd.back().is_dropped(0.05));
}

// The bytes of a contribution in one chunk, as they go over the connection.
std::vector<std::byte> chunk_of(const Packed& packed) {
  ByteWriter content;
  content.write(packed.offered.round);
  content.write(std::uint64_t{0});
  content.write_bytes(packed.bytes.bytes());
  const std::vector<std::byte> all = content.take();
  ByteWriter message;
  const auto head = serialise(replication::MessageHead{
      MessageType::kChunk, static_cast<std::uint32_t>(all.size()), crc32c(all)});
  message.write_bytes(head);
  message.write_bytes(all);
  return message.take();
}

// Two slow uploads have all memory, and a third worker waits: one of them ends, not both.
TEST(ContributionDesk, OneSlowUploadEndsForOneThatWaits) {
  DeskOptions options = desk_options();
  options.silence_s = 1;
  options.round.deadline_s = 0.2;
  options.round.mode = aggregate::RoundMode::kAsynchronous;
  const Packed packed = packed_many(kElements, 1);
  options.held_bytes = 2 * packed.offered.bytes;
  const Desk own(options);
  RawPeer slow[] = {own.enrolled(1), own.enrolled(2)};
  for (RawPeer& each : slow) {
    each.say(MessageType::kContribution, packed.offered);
    ASSERT_EQ(each.hear(), MessageType::kWanted);
  }
  RawPeer waits = own.enrolled(3);
  waits.say(MessageType::kContribution, packed.offered);
  RawPeer late = own.enrolled(4);  // it waits shorter
  late.say(MessageType::kContribution, packed.offered);
  const std::vector<std::byte> chunk = chunk_of(packed);
  std::size_t sent = 0;
  bool is_wanted = false;
  for (int i = 0; i < 40 && !is_wanted; ++i) {
    const std::size_t part = WorkerPeer::kMinMove / 2;
    for (RawPeer& each : slow) each.send_bytes(std::span(chunk).subspan(sent, part));
    sent += part;
    waits.say(MessageType::kAlive, replication::Alive{});
    is_wanted = waits.hear(0.1) == MessageType::kWanted;
  }
  EXPECT_TRUE(is_wanted);
  slow[1].send_bytes(std::span(chunk).subspan(sent));
  EXPECT_EQ(slow[1].hear(), MessageType::kFate);
  expect_refusal(slow[0], "others wait");
}

// Those that have said who they are give way after half the time of silence.
TEST(ContributionDesk, PlacesOfWorkersThatDoNotJoinBecomeFree) {
  DeskOptions options = desk_options();
  options.silence_s = 4;
  const Desk own(options);
  std::vector<RawPeer> crowd;
  for (int i = 0; i < 256; ++i) crowd.push_back(joining(own, 100 + i));
  RawPeer early = saying_enroll(own, 7);
  expect_refusal(early, "too many connect at once");
  std::this_thread::sleep_for(std::chrono::milliseconds(2800));
  RawPeer worker = own.enrolled(7);
  EXPECT_TRUE(crowd.front().is_dropped());
  EXPECT_FALSE(crowd.back().is_dropped(0.05));
  expect_service(own, worker, 1);
}

// There is no room for a large one, which waits, and for a small one there is.
TEST(ContributionDesk, SmallContributionsPassALargeOneForSomeTime) {
  DeskOptions options = patient();
  options.round.mode = aggregate::RoundMode::kAsynchronous;
  options.round.deadline_s = 8;
  const Packed large = packed_many(kElements, 1), small = packed_entries(5, 1);
  options.held_bytes = large.offered.bytes + 10 * small.offered.bytes;
  const Desk own(options);
  RawPeer slow = own.enrolled(1), waits = own.enrolled(2), first = own.enrolled(3),
          second = own.enrolled(4);
  slow.say(MessageType::kContribution, large.offered);
  ASSERT_EQ(slow.hear(), MessageType::kWanted);
  waits.say(MessageType::kContribution, large.offered);
  EXPECT_FALSE(waits.hear(0.1).has_value());
  first.say(MessageType::kContribution, small.offered);
  EXPECT_EQ(first.hear(), MessageType::kWanted);
  EXPECT_FALSE(waits.hear(3).has_value());  // more than a quarter of deadline_s
  second.say(MessageType::kContribution, small.offered);
  EXPECT_FALSE(second.hear(0.3).has_value());
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
