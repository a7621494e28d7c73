// Publishers and replicas that know each other by a secret, and those who have none, a weaker one,
// or the same one and another publisher's port.

#include "src/replication/service_security.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "src/replication/query.hpp"
#include "src/trust/keyed_hash.hpp"
#include "tests/replication/rogue_support.hpp"

namespace sparcl::replication {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

class SecureService : public testing::Test {
 protected:
  SecureService() {
    for (const char* name : {"run", "other"})
      EXPECT_TRUE(trust::RoleSecret::generate()->save(folder_ / name).ok());
  }
  std::string secret(const char* name) const { return folder_ / name; }
  PublisherOptions publishing(int fan_out = 0) const {
    PublisherOptions options = local_options();
    options.secret_path = secret("run");
    options.certificates_path.clear();
    options.fan_out = fan_out;
    return options;
  }
  SubscriberOptions replicating(const char* name = "run.replicate") const {
    SubscriberOptions options = replica_options();
    options.secret_path = secret(name);
    options.certificates_path.clear();
    options.shares_memory = false;
    return options;
  }
  ClientSecurity client(const char* name, trust::Role role) const {
    return *load_client_security(secret(name), role);
  }
  // A server that has a secret, whose holder plays the publisher.
  static net::TlsEndpointRef impostor(const trust::RoleSecret& secret) {
    const std::string identity = *secret.tls_identity();
    const auto key = std::make_shared<trust::SecretBytes>(std::move(*secret.tls_key()));
    return *net::TlsEndpoint::server(
        [=](std::string_view name) -> std::optional<net::TlsEndpoint::KnownKey> {
          if (name != identity) return {};
          trust::SecretBytes copy = std::move(*trust::SecretBytes::zeros());
          std::ranges::copy(key->bytes(), copy.bytes().begin());
          return net::TlsEndpoint::KnownKey{std::move(copy), 1};
        });
  }
  void publish(Publisher& publisher) {
    source_.step(++version_);
    ASSERT_TRUE(publisher.publish(version_).ok());
  }

  test::TempFolder folder_;
  SmallModel source_;
  std::uint64_t version_ = 0;
};

TEST_F(SecureService, ReplicasFollowIt) {
  const auto publisher = open_publisher(source_, publishing());
  publish(*publisher);
  SmallModel copy(3), full(4);
  const auto replica = open_replica(copy, publisher->address(), replicating());
  const auto stronger = open_replica(full, publisher->address(), replicating("run"));
  for (int i = 0; i < 5; ++i) {
    for (const auto* each : {&replica, &stronger}) {
      const Result<Subscriber::Swap> swap = (*each)->next(20);
      ASSERT_TRUE(swap.ok()) << swap.status().message();
    }
    EXPECT_TRUE(copy.is_same_as(source_) && full.is_same_as(source_));
    publish(*publisher);
  }
}

TEST_F(SecureService, ReplicasTakeUpdatesFromEachOtherByTickets) {
  const auto publisher = open_publisher(source_, publishing(1));
  publish(*publisher);
  std::vector<std::unique_ptr<SmallModel>> copies;
  std::vector<std::unique_ptr<Subscriber>> replicas;
  const auto expect_current = [&] {
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      while (replicas[i]->versions().held < version_) {
        const Result<Subscriber::Swap> swap = replicas[i]->next(20);
        ASSERT_TRUE(swap.ok()) << swap.status().message();
      }
      EXPECT_TRUE(copies[i]->is_same_as(source_)) << i;
    }
  };
  for (int i = 0; i < 4; ++i) {
    copies.push_back(std::make_unique<SmallModel>(9));
    replicas.push_back(open_replica(*copies.back(), publisher->address(), replicating()));
    expect_current();
  }
  const auto served = [&] {
    std::size_t count = 0;
    const Json said = Json::parse(publisher->status());
    for (const Json& each : said["replicas"]) count += each["from"] == "publisher" ? 1U : 0U;
    return count;
  };
  const double until = net::monotonic_seconds() + 20;
  while (served() != 1 && net::monotonic_seconds() < until) usleep(5'000);
  EXPECT_EQ(served(), 1u) << publisher->status();
  for (int i = 0; i < 3; ++i) {
    publish(*publisher);
    expect_current();
  }
  EXPECT_EQ(served(), 1u) << publisher->status();
}

TEST_F(SecureService, StrangersGetAClosedConnection) {
  const auto publisher = open_publisher(source_, publishing());
  publish(*publisher);
  RawPeer plain = RawPeer::connect(publisher->address(), {});
  plain.say(MessageType::kHello, hello_of(source_));
  EXPECT_TRUE(plain.is_dropped());
  EXPECT_EQ(plain.link().bytes_received(), 0u);
  RawPeer asks = RawPeer::connect(publisher->address(), {});
  asks.say(MessageType::kModelQuery, LatestHeld());
  EXPECT_TRUE(asks.is_dropped());
  const Status in_the_clear = query_status(publisher->address(), 5).status();
  EXPECT_EQ(in_the_clear.code(), Code::kRemoteError);
  EXPECT_THAT(std::string(in_the_clear.message()),
              HasSubstr("it has a secret or certificates, or the link was cut"));
  EXPECT_EQ(query_status(publisher->address(), 5, client("other.observe", trust::Role::kObserve))
                .status()
                .code(),
            Code::kRemoteError);

  SmallModel copy(3);
  const auto without = open_replica(copy, publisher->address());
  EXPECT_THAT(std::string(without->next(1).status().message()), HasSubstr("role replicate"));
  const auto wrong = open_replica(copy, publisher->address(), replicating("other.replicate"));
  EXPECT_THAT(std::string(wrong->next(1).status().message()), HasSubstr("another secret"));
}

TEST_F(SecureService, AnObserverSeesTheStatusAlone) {
  const auto publisher = open_publisher(source_, publishing());
  publish(*publisher);
  const ClientSecurity observer = client("run.observe", trust::Role::kObserve);
  const Result<std::string> status = query_status(publisher->address(), 20, observer);
  ASSERT_TRUE(status.ok()) << status.status().message();
  EXPECT_EQ(Json::parse(*status)["version"], 1);
  const Status model = query_model(publisher->address(), 20, {}, observer).status();
  EXPECT_EQ(model.code(), Code::kUnauthorized) << model.message();
  RawPeer replica = RawPeer::connect(publisher->address(), observer);
  replica.say(MessageType::kHello, hello_of(source_));
  EXPECT_EQ(replica.hear(), MessageType::kRefusal);
  EXPECT_EQ(parse_refusal(replica.link().content())->code, Code::kUnauthorized);
  EXPECT_EQ(load_client_security(secret("run.observe"), trust::Role::kReplicate).status().code(),
            Code::kUnauthorized);
  SmallModel copy(3);
  EXPECT_EQ(
      Subscriber::create(copy, publisher->address(), replicating("run.observe")).status().code(),
      Code::kUnauthorized);
}

// A stolen secret of role replicate opens the publisher to its holder, and no replica.
TEST_F(SecureService, AHolderOfTheSameSecretIsNoPublisher) {
  const trust::RoleSecret stolen = std::move(*trust::RoleSecret::load(secret("run.replicate")));
  Result<net::Socket> listener = net::listen_at(net::loopback_address(), 8);
  const std::string address = to_text(*local_address(*listener));
  SmallModel copy(3);
  const auto replica = open_replica(copy, address, replicating());
  const trust::SigningKey own = std::move(*trust::SigningKey::generate());
  for (const char* how : {"its own key", "the publisher's key without its signature",
                          "another connection's signature", "no proof"}) {
    SCOPED_TRACE(how);
    pollfd entry{listener->fd(), POLLIN, 0};
    ASSERT_EQ(net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + 20), 1);
    RawPeer peer(net::Socket(::accept4(listener->fd(), nullptr, nullptr, SOCK_NONBLOCK)),
                 impostor(stolen));
    ASSERT_TRUE(peer.shake());
    const net::SecureSocket::Exporter exporter = *peer.link().stream().exporter();
    const std::string text = how;
    if (text == "its own key")
      peer.say(MessageType::kProof,
               SessionProof{own.public_key(), own.sign(signed_session(exporter))});
    if (text.starts_with("the publisher's"))
      peer.say(MessageType::kProof,
               SessionProof{stolen.publisher_key(), own.sign(signed_session(exporter))});
    if (text.starts_with("another")) {
      const auto publisher = open_publisher(source_, publishing());
      RawPeer honest =
          RawPeer::connect(publisher->address(), client("run.replicate", trust::Role::kReplicate));
      peer.say(MessageType::kProof, *parse_session_proof(honest.link().content()));
    }
    if (text == "no proof") peer.say(MessageType::kWelcome, Welcome());
    // It says neither what it holds nor who it is.
    EXPECT_TRUE(peer.is_dropped());
    EXPECT_EQ(peer.link().bytes_received(), 0u);
    EXPECT_THAT(std::string(replica->next(0.1).status().message()), HasSubstr(address));
  }
  EXPECT_EQ(replica->versions().newest, 0u);
}

// Nor for those who ask: its answers and refusals do not count.
TEST_F(SecureService, AHolderOfTheSameSecretAnswersNoQuery) {
  const trust::RoleSecret stolen = std::move(*trust::RoleSecret::load(secret("run.observe")));
  const trust::SigningKey own = std::move(*trust::SigningKey::generate());
  for (const bool refuses : {false, true}) {
    Result<net::Socket> listener = net::listen_at(net::loopback_address(), 8);
    std::thread answers([&] {
      pollfd entry{listener->fd(), POLLIN, 0};
      net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + 20);
      RawPeer peer(net::Socket(::accept4(listener->fd(), nullptr, nullptr, SOCK_NONBLOCK)),
                   impostor(stolen));
      if (!peer.shake()) return;
      const net::SecureSocket::Exporter exporter = *peer.link().stream().exporter();
      if (refuses) peer.say(MessageType::kRefusal, Refusal{Code::kMismatch, "go away"});
      if (!refuses)
        peer.say(MessageType::kProof,
                 SessionProof{own.public_key(), own.sign(signed_session(exporter))});
      EXPECT_TRUE(peer.is_dropped());
      EXPECT_EQ(peer.link().bytes_received(), 0u);
    });
    const Status status = query_status(to_text(*local_address(*listener)), 20,
                                       client("run.observe", trust::Role::kObserve))
                              .status();
    EXPECT_EQ(status.code(), refuses ? Code::kCorrupt : Code::kUnauthorized) << status.message();
    answers.join();
  }
}

// An answer goes out whole, though its last bytes wait encrypted when all was taken.
TEST_F(SecureService, ALongAnswerToASlowReaderIsWhole) {
  for (std::size_t bytes = 100'000; bytes < 700'000; bytes += 37'111) {
    PublisherOptions options = publishing();
    options.description.resize(bytes, std::byte{7});
    const auto publisher = open_publisher(source_, options);
    RawPeer reader =
        RawPeer::connect(publisher->address(), client("run.replicate", trust::Role::kReplicate));
    reader.link().allow(MessageType::kModelReply);
    reader.say(MessageType::kModelQuery, LatestHeld());
    usleep(20'000);
    ASSERT_EQ(reader.hear(), MessageType::kModelReply) << bytes;
    EXPECT_EQ(parse_model_reply(reader.link().content())->description.size(), bytes);
  }
}

// The tests of others run encrypted, if they are told to.
TEST_F(SecureService, TheSettingOfTheTestsCounts) {
  const auto publisher = open_publisher(source_);
  RawPeer plain = RawPeer::connect(publisher->address(), {});
  plain.say(MessageType::kStatusQuery, Bye());
  const bool answers = plain.hear(5) == MessageType::kRefusal;
  EXPECT_EQ(answers, test_secret().empty() && test_certificates("publish").empty());
}

// The port of a replica that passes updates on takes tickets of the publisher's alone.
TEST_F(SecureService, ARelayIsClosedToThosePublishersDidNotSend) {
  const auto publisher = open_publisher(source_, publishing());
  publish(*publisher);
  const auto listening = [] {
    std::vector<std::string> ports;
    for (int fd = 0; fd < 1024; ++fd) {
      int listens = 0;
      socklen_t size = sizeof listens;
      if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
        continue;
      net::SocketAddress address;
      if (::getsockname(fd, address.get(), &address.bytes) != 0) continue;
      const auto found = net::from_socket_address(address.get());
      if (found && found->port != 0) ports.push_back(to_text(*found));
    }
    return ports;
  };
  const std::vector<std::string> before = listening();
  SmallModel copy(3);
  const auto replica = open_replica(copy, publisher->address(), replicating());
  ASSERT_TRUE(replica->next(20).ok());
  std::string relay;
  for (const std::string& each : listening()) {
    if (std::ranges::find(before, each) == before.end()) relay = each;
  }
  ASSERT_FALSE(relay.empty());
  RawPeer plain = RawPeer::connect(relay, {});
  plain.say(MessageType::kHello, hello_of(source_));
  EXPECT_TRUE(plain.is_dropped());
  EXPECT_EQ(plain.link().bytes_received(), 0u);
  for (const char* name : {"run.replicate", "run.observe"}) {
    ClientSecurity holder = client(name, trust::Role::kObserve);
    holder.publisher_key.reset();
    RawPeer peer = RawPeer::connect(relay, holder);
    EXPECT_FALSE(peer.shake()) << name;
    EXPECT_FALSE(peer.link().is_open()) << name;
  }
  RelayTicket ticket;
  EXPECT_EQ(trust::fill_random(ticket.key).code(), Code::kSuccess);
  RawPeer guess = RawPeer::connect(relay, {*ticket_client(ticket), {}});
  EXPECT_FALSE(guess.shake());
  EXPECT_FALSE(guess.link().is_open());
}

TEST_F(SecureService, APublisherNeedsItsOwnSecret) {
  for (const char* name : {"run.replicate", "run.observe", "absent"}) {
    PublisherOptions options = publishing();
    options.secret_path = secret(name);
    options.certificates_path.clear();
    EXPECT_FALSE(Publisher::create(source_, options).ok()) << name;
  }
}

// A replica that has a secret never falls back to the clear.
TEST_F(SecureService, APublisherInTheClearIsRefused) {
  PublisherOptions plain = publishing();
  plain.secret_path.clear();
  const auto publisher = open_publisher(source_, plain);
  publish(*publisher);
  SmallModel copy(3);
  const auto replica = open_replica(copy, publisher->address(), replicating());
  const Status status = replica->next(1).status();
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("another secret, or none, or the link was cut. If this repeats"));
  EXPECT_EQ(replica->versions().held, 0u);
}

}  // namespace
}  // namespace sparcl::replication
