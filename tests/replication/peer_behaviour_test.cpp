// Peers that misbehave, and holders of a secret that take more than their share: what a publisher
// refuses and counts, whom it backs off, and who is served all the same.

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/replication/peer_scores.hpp"
#include "src/replication/query.hpp"
#include "tests/replication/rogue_support.hpp"

namespace sparcl::replication {
namespace {

using ::testing::HasSubstr;
using Report = nlohmann::json;

constexpr const char* kStranger = "10.0.0.1";

net::NetAddress address_at(std::uint8_t last, std::uint16_t port = 1) {
  return {net::NetAddress::Family::kIpv4, port, {std::byte{10}, {}, {}, std::byte{last}}};
}

TEST(PeerScores, ABackOffDoublesUpToItsLimitAndIsForgotten) {
  PeerScores scores;
  double now = 1000, before = 0;
  const auto offend = [&] {
    for (int i = 0; i < 100 && scores.backed_off_s(kStranger, now) == 0; ++i)
      scores.note(kStranger, Offence::kMalformed, now);
    return scores.backed_off_s(kStranger, now);
  };
  for (const double expected : {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 64.0}) {
    EXPECT_EQ(offend(), expected);
    EXPECT_GE(expected, before);
    EXPECT_GT(scores.backed_off_s(kStranger, now + expected / 2), 0);
    EXPECT_EQ(scores.backed_off_s(kStranger, now + expected), 0);
    EXPECT_EQ(scores.backed_off_s("10.0.0.2", now), 0) << "another peer has done nothing";
    now += expected;
    before = expected;
  }
  now += 10 * PeerScores::kHalfLife;
  EXPECT_EQ(offend(), PeerScores::kFirstBackOff);
}

TEST(PeerScores, RareOffencesDoNotAddUp) {
  PeerScores scores;
  for (int i = 0; i < 1000; ++i) {
    const double now = i * PeerScores::kHalfLife;
    scores.note(kStranger, Offence::kMalformed, now);
    ASSERT_EQ(scores.backed_off_s(kStranger, now), 0) << i;
  }
}

TEST(PeerScores, TheTableIsBoundedAndKeepsThoseThatAreBackedOff) {
  PeerScores scores;
  for (int i = 0; i < 3; ++i) scores.note(kStranger, Offence::kMalformed, 0);
  ASSERT_GT(scores.backed_off_s(kStranger, 0), 0);
  for (std::size_t i = 0; i < 4 * PeerScores::kMaxPeers; ++i)
    scores.note(fmt::format("peer {}", i), Offence::kHandshake, 0);
  EXPECT_EQ(scores.size(), PeerScores::kMaxPeers);
  EXPECT_GT(scores.backed_off_s(kStranger, 0), 0);
}

TEST(PeerScores, APeerIsItsNetworkOrItsNameThere) {
  EXPECT_EQ(PeerScores::key_of(address_at(1, 5)), PeerScores::key_of(address_at(1, 6)));
  EXPECT_NE(PeerScores::key_of(address_at(1)), PeerScores::key_of(address_at(2)));
  EXPECT_NE(PeerScores::key_of(address_at(1), "a"), PeerScores::key_of(address_at(1), "b"));
  net::NetAddress one, other;
  one.family = other.family = net::NetAddress::Family::kIpv6;
  one.ip[0] = other.ip[0] = std::byte{0xfd};
  one.ip[15] = std::byte{1};
  EXPECT_EQ(PeerScores::key_of(one), PeerScores::key_of(other)) << "a host has 2^64 addresses";
  other.ip[7] = std::byte{1};
  EXPECT_NE(PeerScores::key_of(one), PeerScores::key_of(other));
}

TEST(CopyLimits, CopiesAreFreeUpToAShareThatGrowsWithTheReplicas) {
  CopyLimits copies;
  for (int i = 0; i < 8; ++i) {
    EXPECT_FALSE(copies.is_over(kStranger, 0, 0));
    copies.begin(kStranger, 0);
  }
  copies.begin(kStranger, 0);
  EXPECT_TRUE(copies.is_over(kStranger, 0, 0));
  EXPECT_FALSE(copies.is_over(kStranger, 1, 0)) << "a replica of the address may restart";
  EXPECT_FALSE(copies.is_over("10.0.0.2", 0, 0));
  EXPECT_FALSE(copies.is_over(kStranger, 0, CopyLimits::kHalfLife));
}

TEST(CopyLimits, BeyondThemBytesHaveARate) {
  CopyLimits copies;
  copies.begin(kStranger, 0);
  EXPECT_TRUE(copies.may_send("10.0.0.2", 0)) << "it has taken nothing";
  double sent = 0;
  constexpr std::uint64_t kTurn = 1 << 20;
  for (double now = 0; now < 10; now += 0.001) {
    if (!copies.may_send(kStranger, now)) continue;
    copies.sent(kStranger, kTurn);
    sent += kTurn;
  }
  EXPECT_GE(sent, 9 * CopyLimits::kMinRate);
  EXPECT_LE(sent, 10.5 * CopyLimits::kMinRate);
}

TEST(CopyLimits, TheTableIsBounded) {
  CopyLimits copies;
  for (int i = 0; i < 100; ++i) copies.begin(kStranger, 0);
  for (std::size_t i = 0; i < 4 * CopyLimits::kMaxAddresses; ++i)
    copies.begin(fmt::format("peer {}", i), 0);
  EXPECT_TRUE(copies.is_over(kStranger, 0, 0)) << "those that took most are kept";
}

// --- over sockets ---

std::uint64_t refused(const Publisher& publisher, const char* reason) {
  return Report::parse(publisher.status()).at("refused").at(reason).get<std::uint64_t>();
}

// Until so many were refused; false: they were not, in time.
bool are_refused(const Publisher& publisher, const char* reason, std::uint64_t count = 1) {
  const double until = net::monotonic_seconds() + RawPeer::kPatience;
  while (refused(publisher, reason) < count && net::monotonic_seconds() < until) usleep(5'000);
  return refused(publisher, reason) >= count;
}

// From another address of this machine: 127.0.0.LAST.
RawPeer connect_from(const std::string& address, std::uint8_t last,
                     const ClientSecurity& security) {
  net::Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  net::SocketAddress own = net::to_socket_address(
      {net::NetAddress::Family::kIpv4, 0, {std::byte{127}, {}, {}, std::byte{last}}});
  net::SocketAddress to =
      net::to_socket_address(net::resolve(*net::parse_host_port(address))->front());
  EXPECT_EQ(::bind(socket.fd(), own.get(), own.bytes), 0);
  EXPECT_EQ(::connect(socket.fd(), to.get(), to.bytes), 0);
  EXPECT_EQ(::fcntl(socket.fd(), F_SETFL, O_NONBLOCK), 0);
  RawPeer peer(std::move(socket), security.tls);
  if (security.publisher_key) {
    EXPECT_EQ(peer.hear(), MessageType::kProof);
  }
  return peer;
}

class PeerBehaviour : public testing::Test {
 protected:
  PublisherOptions publishing() const {
    PublisherOptions options = local_options();
    options.secret_path = secret;
    return options;
  }
  SubscriberOptions replicating() const {
    SubscriberOptions options = replica_options();
    options.secret_path = secret + ".replicate";
    options.shares_memory = false;
    return options;
  }
  ClientSecurity holder(trust::Role role = trust::Role::kReplicate) const {
    return *load_client_security(
        secret + (role == trust::Role::kObserve ? ".observe" : ".replicate"), role);
  }
  // A real replica comes, and holds the newest version in time.
  void expect_served(const Publisher& publisher, double seconds = 2) {
    SmallModel copy(77);
    const double begin = net::monotonic_seconds();
    const auto replica = open_replica(copy, publisher.address(), replicating());
    Result<Subscriber::Swap> swap = replica->next(0.1);
    while (!swap.ok() && net::monotonic_seconds() < begin + RawPeer::kPatience)
      swap = replica->next(0.1);
    ASSERT_TRUE(swap.ok()) << swap.status().message();
    EXPECT_LT(net::monotonic_seconds() - begin, seconds);
    EXPECT_TRUE(copy.is_same_as(source));
  }

  test::TempFolder folder;
  std::string secret = new_secret(folder);
  SmallModel source;
};

TEST_F(PeerBehaviour, EachRefusalHasItsReason) {
  PublisherOptions options = local_options();
  options.silence_s = 0.5;
  const auto publisher = open_publisher(source, options);
  ASSERT_TRUE(publisher->publish(1).ok());
  const Report before = Report::parse(publisher->status()).at("refused");
  EXPECT_EQ(before.size(), kRefusalNames.size());
  for (const auto& [reason, count] : before.items()) EXPECT_EQ(count, 0) << reason;

  RawPeer garbage = RawPeer::connect(publisher->address());
  garbage.say(MessageType::kAck, Ack{AckStage::kHeld, {1, source.hash()}});
  EXPECT_TRUE(are_refused(*publisher, "malformed"));
  RawPeer other = RawPeer::connect(publisher->address());
  Hello hello = hello_of(source);
  hello.model_id = "another";
  other.say(MessageType::kHello, hello);
  EXPECT_TRUE(are_refused(*publisher, "mismatch"));
  const RawPeer silent = RawPeer::connect(publisher->address());
  EXPECT_TRUE(are_refused(*publisher, "slow"));
  const Report after = Report::parse(publisher->status()).at("refused");
  std::uint64_t all = 0;
  for (const auto& [reason, count] : after.items()) all += count.get<std::uint64_t>();
  EXPECT_EQ(all, 3U) << after.dump();
}

TEST_F(PeerBehaviour, AHandshakeAndARoleAreReasonsToo) {
  const auto publisher = open_publisher(source, publishing());
  ASSERT_TRUE(publisher->publish(1).ok());
  RawPeer plain = RawPeer::connect(publisher->address(), {});
  plain.say(MessageType::kHello, hello_of(source));
  EXPECT_TRUE(are_refused(*publisher, "handshake"));
  RawPeer observer = RawPeer::connect(publisher->address(), holder(trust::Role::kObserve));
  observer.say(MessageType::kHello, hello_of(source));
  EXPECT_TRUE(are_refused(*publisher, "role"));
  EXPECT_EQ(refused(*publisher, "malformed"), 0U);
  const Result<std::string> status =
      query_status(publisher->address(), 20, holder(trust::Role::kObserve));
  ASSERT_TRUE(status.ok()) << status.status().message();
  EXPECT_EQ(Report::parse(*status).at("refused").at("role"), 1);
}

// Before the handshake nothing tells a holder from a stranger of the same address.
TEST_F(PeerBehaviour, AHolderIsServedBesideAStrangerThatIsBackedOff) {
  const auto publisher = open_publisher(source, publishing());
  ASSERT_TRUE(publisher->publish(1).ok());
  std::vector<RawPeer> strangers;
  for (int i = 0; i < 40; ++i) {
    strangers.push_back(RawPeer::connect(publisher->address(), {}));
    strangers.back().say(MessageType::kHello, hello_of(source));
    EXPECT_TRUE(strangers.back().is_dropped());
  }
  const double begin = net::monotonic_seconds();
  RawPeer silent = RawPeer::connect(publisher->address(), {});
  expect_served(*publisher);
  EXPECT_TRUE(silent.is_dropped());
  EXPECT_LT(net::monotonic_seconds() - begin, publishing().silence_s) << "it has less time";
  EXPECT_GE(refused(*publisher, "backed_off"), 1U);
}

// A holder of the secret that sends what no replica sends.
TEST_F(PeerBehaviour, AHolderThatMisbehavesIsBackedOffByItsName) {
  const auto publisher = open_publisher(source, publishing());
  ASSERT_TRUE(publisher->publish(1).ok());
  std::optional<Refusal> refusal;
  for (int i = 0; i < 10 && !refusal; ++i) {
    RawPeer peer = RawPeer::connect(publisher->address(), holder());
    peer.say(MessageType::kHello, hello_of(source));
    if (peer.hear() == MessageType::kRefusal) refusal = *parse_refusal(peer.link().content());
    peer.say(MessageType::kTaken, std::span<const std::byte>());
    EXPECT_TRUE(peer.is_dropped());
  }
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, Code::kRemoteError) << "it may come again";
  EXPECT_THAT(refusal->text, HasSubstr("several times: it may come again in"));
  EXPECT_GE(refused(*publisher, "backed_off"), 1U);
  expect_served(*publisher);
}

TEST_F(PeerBehaviour, AcknowledgementsOfNoVersionCountAsMisbehaviour) {
  const auto publisher = open_publisher(source, publishing());
  ASSERT_TRUE(publisher->publish(1).ok());
  RawPeer peer = RawPeer::connect(publisher->address(), holder());
  peer.say(MessageType::kHello, hello_of(source));
  ASSERT_EQ(peer.hear(), MessageType::kWelcome);
  for (std::uint64_t i = 0; i < 10; ++i)
    peer.say(MessageType::kAck, Ack{AckStage::kHeld, {100 + i, {i, i}}, true});
  EXPECT_EQ(publisher->count(1).holding, 0);
  const double until = net::monotonic_seconds() + RawPeer::kPatience;
  bool is_refused = false;
  while (!is_refused && net::monotonic_seconds() < until) {
    RawPeer again = RawPeer::connect(publisher->address(), holder());
    again.say(MessageType::kHello, hello_of(source));
    is_refused = again.hear() == MessageType::kRefusal;
  }
  EXPECT_TRUE(is_refused);
  expect_served(*publisher);
}

// Another peer of its address says its name and misbehaves.
TEST_F(PeerBehaviour, AReplicaThatHeldAVersionIsKnownByItsReceipt) {
  const auto publisher = open_publisher(source, publishing());
  ASSERT_TRUE(publisher->publish(1).ok());
  const HeldVersion none;
  RawPeer honest = RawPeer::connect(publisher->address(), holder());
  Hello hello = hello_with(none, source.view().schema_hash);
  hello.held_is_vouched = hello.tip_is_vouched = false;
  honest.say(MessageType::kHello, hello);
  ASSERT_EQ(honest.hear(), MessageType::kWelcome);
  hello.receipt = parse_welcome(honest.link().content())->receipt;
  (void)record_update(honest);
  for (int i = 0; i < 6; ++i) {
    RawPeer liar = RawPeer::connect(publisher->address(), holder());
    liar.say(MessageType::kHello, hello_of(source));
    liar.say(MessageType::kTaken, std::span<const std::byte>());
    EXPECT_TRUE(liar.is_dropped());
  }
  RawPeer liar = RawPeer::connect(publisher->address(), holder());
  liar.say(MessageType::kHello, hello_of(source));
  ASSERT_EQ(liar.hear(), MessageType::kRefusal);
  RawPeer again = RawPeer::connect(publisher->address(), holder());
  again.say(MessageType::kHello, hello);
  EXPECT_EQ(again.hear(), MessageType::kWelcome);
}

// --- slots ---

// Fewer descriptors while a publisher opens: it then serves few replicas.
class FewSlots {
 public:
  explicit FewSlots(std::uint64_t slots) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few{slots + 128, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewSlots() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

// Holders of the secret that say a right HELLO, ask for nothing, and come again when they are
// ended.
class Holders {
 public:
  Holders(const std::string& address, const ClientSecurity& security, const Hello& hello, int count)
      : thread_([=, this] { run(address, security, hello, count); }) {
    while (rounds_ == 0) usleep(1000);
  }
  ~Holders() {
    is_over_ = true;
    thread_.join();
  }

 private:
  void run(const std::string& address, const ClientSecurity& security, Hello hello, int count) {
    std::vector<RawPeer> all;
    for (int i = 0; !is_over_; ++i) {
      const auto at = static_cast<std::size_t>(i % count);
      if (at == 0 && i > 0) {
        ++rounds_;
        usleep(1000);
      }
      if (at < all.size()) {
        pollfd entry{all[at].link().fd(), POLLIN, 0};
        if (all[at].link().is_open() && ::poll(&entry, 1, 0) == 0) continue;
        (void)all[at].hear(0);
        if (all[at].link().is_open()) continue;
      }
      hello.name = fmt::format("host h, pid {}", i);
      RawPeer peer = RawPeer::connect(address, security);
      peer.say(MessageType::kHello, hello);
      if (at < all.size())
        all[at] = std::move(peer);
      else
        all.push_back(std::move(peer));
    }
  }

  std::atomic<bool> is_over_ = false;
  std::atomic<int> rounds_ = 0;
  std::thread thread_;
};

TEST_F(PeerBehaviour, ARealReplicaJoinsBesideAThousandHoldersThatSayHello) {
  std::unique_ptr<Publisher> publisher;
  {
    const FewSlots slots(60);
    publisher = open_publisher(source, publishing());
  }
  ASSERT_TRUE(publisher->publish(1).ok());
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int count = limit.rlim_cur > 2500 ? 1000 : 200;
  const Holders holders(publisher->address(), holder(), hello_of(source), count);
  for (int i = 0; i < 3; ++i) expect_served(*publisher);
  EXPECT_GE(refused(*publisher, "slots"), 1U);
}

// They have taken a version each, and keep their slots. An address has no more than half of them if
// others come.
TEST_F(PeerBehaviour, AnAddressThatHoldsAllSlotsGivesOneToAnother) {
  std::unique_ptr<Publisher> publisher;
  {
    const FewSlots slots(12);
    publisher = open_publisher(source, publishing());
  }
  ASSERT_TRUE(publisher->publish(1).ok());
  std::vector<RawPeer> all;
  const HeldVersion none;
  for (int i = 0; i < 12; ++i) {
    all.push_back(connect_from(publisher->address(), 9, holder()));
    Hello hello = hello_with(none, source.view().schema_hash);
    hello.held_is_vouched = hello.tip_is_vouched = false;
    hello.name = fmt::format("host h, pid {}", i);
    all.back().say(MessageType::kHello, hello);
    ASSERT_EQ(all.back().hear(), MessageType::kWelcome);
    const Recorded got = record_update(all.back());
    all.back().say(MessageType::kAck,
                   Ack{AckStage::kHeld,
                       got.offer.commit.version > 0 ? HeldVersion{1, source.hash()} : none, true});
  }
  ASSERT_TRUE(publisher->wait(1, 12, 20).ok());
  RawPeer same = connect_from(publisher->address(), 9, holder());
  same.say(MessageType::kHello, hello_of(source));
  EXPECT_EQ(same.hear(), MessageType::kRefusal) << "its own address has them all";
  usleep(1'000'000);
  expect_served(*publisher);
  EXPECT_EQ(publisher->count(1).holding, 11);
  // A session that has just come gives its address no excess: else a proven one would end for it.
  while (all.size() > 6) all.pop_back();
  const auto connected = [&] { return publisher->count(0).connected; };
  for (int i = 0; i < 2000 && connected() > 6; ++i) usleep(5'000);
  ASSERT_EQ(connected(), 6);
  for (const std::uint8_t last : {9, 8, 8, 8, 8, 8}) {
    all.push_back(connect_from(publisher->address(), last, holder()));
    Hello hello = hello_of(source);
    hello.name = fmt::format("host h, pid {}", all.size());
    all.back().say(MessageType::kHello, hello);
    EXPECT_EQ(all.back().hear(), MessageType::kWelcome);
  }
  RawPeer third = connect_from(publisher->address(), 7, holder());
  third.say(MessageType::kHello, hello_of(source));
  (void)third.hear();
  EXPECT_EQ(publisher->count(1).holding, 6);
}

// --- bytes ---

double take_copy(RawPeer& peer, const Hash128& schema_hash, int number) {
  const HeldVersion none;
  Hello hello = hello_with(none, schema_hash);
  hello.held_is_vouched = hello.tip_is_vouched = false;
  hello.name = fmt::format("host h, pid {}", number);
  const double begin = net::monotonic_seconds();
  peer.say(MessageType::kHello, hello);
  EXPECT_EQ(peer.hear(), MessageType::kWelcome);
  (void)record_update(peer);
  return net::monotonic_seconds() - begin;
}

TEST_F(PeerBehaviour, OneThatTakesAllBytesAgainAndAgainGetsThemSlowly) {
  constexpr int kElements = 8 << 20;  // 16 MiB of noise: a second of the bounded rate
  SmallModel large(0, kElements);
  large.step(1, kElements);
  const auto publisher = open_publisher(large, publishing());
  ASSERT_TRUE(publisher->publish(1).ok());
  const Hash128 schema_hash = large.view().schema_hash;
  double fast = 0, slow = 0;
  for (int i = 0; i < 11; ++i) {
    RawPeer peer = connect_from(publisher->address(), 9, holder());
    (i < 8 ? fast : slow) = take_copy(peer, schema_hash, i);
  }
  EXPECT_GT(slow, 0.5);
  EXPECT_GT(slow, 2 * fast);
  RawPeer other = connect_from(publisher->address(), 8, holder());
  EXPECT_LT(take_copy(other, schema_hash, 99), slow) << "another address has its own share";
}

}  // namespace
}  // namespace sparcl::replication
