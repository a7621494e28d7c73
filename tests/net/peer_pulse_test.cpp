#include "src/net/heartbeat/peer_pulse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/seeded_random.hpp"
#include "src/net/heartbeat/heartbeat_message.hpp"

namespace sparcl::net {
namespace {

using Refusal = PeerPulse::Refusal;
using testing::ElementsAre;

const NetAddress kFirst = loopback_address(1001);
const NetAddress kSecond = loopback_address(1002);

PeerPulse two_paths(std::uint64_t first = UINT64_MAX) {
  return PeerPulse({kFirst, kSecond}, first);
}

TEST(PeerPulse, PingsAllPathsUntilOneAnswers) {
  PeerPulse pulse = two_paths();
  const std::uint64_t first = pulse.ping(5);
  EXPECT_THAT(pulse.ping_paths(), ElementsAre(0, 1));
  EXPECT_FALSE(pulse.has_answered());
  EXPECT_TRUE(pulse.pong(first, 1));
  EXPECT_TRUE(pulse.has_answered());
  pulse.ping(5);
  EXPECT_THAT(pulse.ping_paths(), ElementsAre(1));
  pulse.pass(2.6);
  pulse.ping(5);
  EXPECT_THAT(pulse.ping_paths(), ElementsAre(0, 1));
}

TEST(PeerPulse, TakesOnlyAnswersThatAreDue) {
  PeerPulse pulse = two_paths();  // whose numbers overflow
  EXPECT_FALSE(pulse.pong(UINT64_MAX, 0));
  EXPECT_FALSE(pulse.pong(0, 0));
  const std::uint64_t first = pulse.ping(5), second = pulse.ping(5), third = pulse.ping(5);
  EXPECT_FALSE(pulse.pong(third + 1, 0));
  EXPECT_FALSE(pulse.pong(first - 1, 0));
  EXPECT_FALSE(pulse.pong(second, 2));  // no such path
  EXPECT_TRUE(pulse.pong(second, 0));
  EXPECT_FALSE(pulse.pong(second, 0));  // twice
  EXPECT_FALSE(pulse.pong(first, 0));   // late
  EXPECT_TRUE(pulse.pong(third, 0));
}

TEST(PeerPulse, CountsSilenceWhilePingsAreOut) {
  PeerPulse pulse = two_paths(7);
  pulse.pass(100);
  EXPECT_EQ(pulse.silent_s(), 0);
  const std::uint64_t first = pulse.ping(5);
  pulse.pass(0.5);
  pulse.pass(0.25);
  EXPECT_EQ(pulse.silent_s(), 0.75);
  EXPECT_TRUE(pulse.pong(first, 0));
  EXPECT_EQ(pulse.silent_s(), 0);
  pulse.ping(5);
  pulse.pass(1);
  pulse.forget_silence();
  EXPECT_EQ(pulse.silent_s(), 0);
}

TEST(PeerPulse, TwoRefusalsOfThePathThatAnswered) {
  PeerPulse pulse = two_paths(7);
  pulse.ping(5);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(pulse.refuse(kFirst), Refusal::kMeansNothing);  // it never answered
  const std::uint64_t ping = pulse.ping(5);
  EXPECT_TRUE(pulse.pong(ping, 0));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pulse.refuse(kSecond), Refusal::kMeansNothing);
  EXPECT_EQ(pulse.refuse(kFirst), Refusal::kAskAgain);
  EXPECT_TRUE(pulse.pong(pulse.ping(5), 0));  // the peer was there all the same
  EXPECT_EQ(pulse.refuse(kFirst), Refusal::kAskAgain);
  EXPECT_EQ(pulse.refuse(kFirst), Refusal::kHasEnded);
}

TEST(HeartbeatMessage, BeatsComeBack) {
  const Beat beat{BeatKind::kOut, 3, 0x123456789abcdef0, 7, 8, 9};
  const std::optional<Beat> back = decode_beat(encode_beat(beat));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, beat.kind);
  EXPECT_EQ(back->path, beat.path);
  EXPECT_EQ(back->token, beat.token);
  EXPECT_EQ(back->from, beat.from);
  EXPECT_EQ(back->to, beat.to);
  EXPECT_EQ(back->sequence, beat.sequence);
}

TEST(HeartbeatMessage, OtherSizesAndKindsAreNone) {
  const BeatBytes good = encode_beat({});
  std::vector<std::byte> bytes(good.begin(), good.end());
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_FALSE(decode_beat(std::span(bytes).first(cut))) << cut;
  bytes.push_back({});
  EXPECT_FALSE(decode_beat(bytes));
  for (const std::size_t at : {0, 1, 2, 3, 4, 5, 7}) {
    BeatBytes wrong = good;
    wrong[at] = std::byte{0x77};
    EXPECT_FALSE(decode_beat(wrong)) << at;
  }
}

HeartbeatCard example_card() {
  HeartbeatCard card;
  card.process = own_identity();
  card.port_v4 = 4711;
  card.port_v6 = 4712;
  card.addresses = {loopback_address(), loopback_address()};
  card.addresses[1].family = NetAddress::Family::kIpv6;
  return card;
}

TEST(HeartbeatMessage, CardsComeBackWithPorts) {
  const std::optional<HeartbeatCard> back = decode_card(encode_card(example_card()));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->process.host, own_identity().host);
  EXPECT_EQ(back->process.pid, own_identity().pid);
  EXPECT_EQ(back->process.start, own_identity().start);
  ASSERT_EQ(back->addresses.size(), 2U);
  EXPECT_EQ(back->addresses[0].port, 4711);
  EXPECT_EQ(back->addresses[1].port, 4712);
}

TEST(HeartbeatMessage, TakesAnyCard) {
  SeededRandom random{5};
  const std::vector<std::byte> good = encode_card(example_card());
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    EXPECT_FALSE(decode_card(std::span(good).first(cut))) << cut;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = good;
    bytes.resize(random.below(bytes.size() + 8));
    for (int k = 0; k < 4 && !bytes.empty(); ++k)
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    const std::vector<std::byte> exact(bytes);
    const std::optional<HeartbeatCard> card = decode_card(exact);
    EXPECT_TRUE(!card || card->addresses.size() <= kMaxPaths);
  }
}

}  // namespace
}  // namespace sparcl::net
