// Publishers and replicas that know each other by certificates, and peers whose certificates do not
// allow what they want.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "src/replication/query.hpp"
#include "tests/replication/rogue_support.hpp"
#include "tests/support/test_authority.hpp"
#include "tests/trust/key_support.hpp"

namespace sparcl::replication {
namespace {

using test::CertificateTerms;
using test::TestAuthority;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CertificateService : public testing::Test {
 protected:
  CertificateService() {
    for (const char* role : {"publish", "replicate", "observe"})
      authority_.write(folder(role), role);
  }
  std::string folder(const std::string& name) const { return temporary_ / name; }
  PublisherOptions publishing(int fan_out = 0) const {
    PublisherOptions options = local_options();
    options.secret_path.clear();
    options.certificates_path = folder("publish");
    options.fan_out = fan_out;
    return options;
  }
  SubscriberOptions replicating(const std::string& name = "replicate") const {
    SubscriberOptions options = replica_options();
    options.secret_path.clear();
    options.certificates_path = folder(name);
    options.shares_memory = false;
    return options;
  }
  ClientSecurity client(const std::string& name, trust::Role role) const {
    return *load_client_security("", role, folder(name));
  }
  void publish(Publisher& publisher) {
    source_.step(++version_);
    ASSERT_TRUE(publisher.publish(version_).ok());
  }
  void expect_current(Subscriber& replica, const SmallModel& copy) const {
    while (replica.versions().held < version_) {
      const Result<Subscriber::Swap> swap = replica.next(20);
      ASSERT_TRUE(swap.ok()) << swap.status().message();
    }
    EXPECT_TRUE(copy.is_same_as(source_));
  }

  const TestAuthority authority_;
  const test::TempFolder temporary_;
  SmallModel source_;
  std::uint64_t version_ = 0;
};

TEST_F(CertificateService, ReplicasFollowIt) {
  const auto publisher = open_publisher(source_, publishing());
  publish(*publisher);
  SmallModel copy(3), full(4);
  const auto replica = open_replica(copy, publisher->address(), replicating());
  const auto stronger = open_replica(full, publisher->address(), replicating("publish"));
  for (int i = 0; i < 5; ++i) {
    expect_current(*replica, copy);
    expect_current(*stronger, full);
    publish(*publisher);
  }
}

// Replicas reach each other by tickets of the publisher, as with a secret.
TEST_F(CertificateService, ReplicasTakeUpdatesFromEachOther) {
  const auto publisher = open_publisher(source_, publishing(1));
  publish(*publisher);
  std::vector<std::unique_ptr<SmallModel>> copies;
  std::vector<std::unique_ptr<Subscriber>> replicas;
  for (int i = 0; i < 4; ++i) {
    copies.push_back(std::make_unique<SmallModel>(9));
    replicas.push_back(open_replica(*copies.back(), publisher->address(), replicating()));
    expect_current(*replicas.back(), *copies.back());
  }
  const auto served = [&] {
    std::size_t count = 0;
    const auto said = nlohmann::json::parse(publisher->status());
    for (const auto& each : said["replicas"]) count += each["from"] == "publisher" ? 1U : 0U;
    return count;
  };
  const double until = net::monotonic_seconds() + 20;
  while (served() != 1 && net::monotonic_seconds() < until) usleep(5'000);
  EXPECT_EQ(served(), 1u) << publisher->status();
  for (int i = 0; i < 3; ++i) {
    publish(*publisher);
    for (std::size_t k = 0; k < replicas.size(); ++k) expect_current(*replicas[k], *copies[k]);
  }
  EXPECT_EQ(served(), 1u) << publisher->status();
}

TEST_F(CertificateService, AnObserverSeesTheStatusAlone) {
  const auto publisher = open_publisher(source_, publishing());
  publish(*publisher);
  const ClientSecurity observer = client("observe", trust::Role::kObserve);
  const Result<std::string> status = query_status(publisher->address(), 20, observer);
  ASSERT_TRUE(status.ok()) << status.status().message();
  EXPECT_EQ(nlohmann::json::parse(*status)["version"], 1);
  const Status model = query_model(publisher->address(), 20, {}, observer).status();
  EXPECT_EQ(model.code(), Code::kUnauthorized) << model.message();
  RawPeer replica = RawPeer::connect(publisher->address(), observer);
  replica.say(MessageType::kHello, hello_of(source_));
  EXPECT_EQ(replica.hear(), MessageType::kRefusal);
  EXPECT_EQ(parse_refusal(replica.link().content())->code, Code::kUnauthorized);
  SmallModel copy(3);
  const Status weak =
      Subscriber::create(copy, publisher->address(), replicating("observe")).status();
  EXPECT_EQ(weak.code(), Code::kUnauthorized);
  EXPECT_THAT(weak.message(), HasSubstr("has role observe, and role replicate is needed"));
  const Status no_publisher = Publisher::create(source_,
                                                [&] {
                                                  PublisherOptions options = publishing();
                                                  options.certificates_path = folder("replicate");
                                                  return options;
                                                }())
                                  .status();
  EXPECT_EQ(no_publisher.code(), Code::kUnauthorized);
}

// Each side has the reason: the replica in its error, the publisher in its log.
TEST_F(CertificateService, ARefusedReplicaIsToldWhy) {
  const auto publisher = open_publisher(source_, publishing());
  publish(*publisher);
  const TestAuthority other("another authority");
  for (const char* role : {"replicate", "observe"}) {
    const std::string path = folder(std::string("other ") + role);
    other.write(path, role);
    TestAuthority::replace(path + "/ca.crt", authority_.text(), 0644);
  }
  testing::internal::CaptureStderr();
  const Status query =
      query_status(publisher->address(), 20, client("other observe", trust::Role::kObserve))
          .status();
  EXPECT_THAT(query.message(), HasSubstr("it does not know the authority"));
  SmallModel copy(3);
  const auto replica = open_replica(copy, publisher->address(), replicating("other replicate"));
  const Status status = replica->next(1).status();
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("it does not know the authority"),
                                      HasSubstr(folder("other replicate") + "/tls.crt")));
  // Both are named, though they come from one host.
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("127.0.0.1:"), HasSubstr("/CN=replicate"), HasSubstr("/CN=observe"),
                    HasSubstr("is not of an authority in " + folder("publish") + "/ca.crt")));
  // The other way round: a publisher of another authority.
  other.write(folder("own"), "publish");
  PublisherOptions options = publishing();
  options.certificates_path = folder("own");
  SmallModel more;
  const auto stranger = open_publisher(more, options);
  const auto refusing = open_replica(copy, stranger->address(), replicating());
  EXPECT_THAT(refusing->next(1).status().message(),
              HasSubstr("is not of an authority in " + folder("replicate") + "/ca.crt"));
}

TEST_F(CertificateService, AReplicaOfTheSameAuthorityIsNoPublisher) {
  SmallModel copy(3);
  Result<net::Socket> listener = net::listen_at(net::loopback_address(), 8);
  const auto replica = open_replica(copy, to_text(*local_address(*listener)), replicating());
  pollfd entry{listener->fd(), POLLIN, 0};
  ASSERT_EQ(net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + 20), 1);
  RawPeer peer(net::Socket(::accept4(listener->fd(), nullptr, nullptr, SOCK_NONBLOCK)),
               *observers_server(folder("replicate")));
  EXPECT_TRUE(peer.is_dropped());
  EXPECT_EQ(peer.link().bytes_received(), 0u);  // it says neither what it holds nor who it is
  EXPECT_THAT(replica->next(0.1).status().message(),
              HasSubstr("has role replicate, and role publish is needed"));
}

TEST_F(CertificateService, PeersWithoutOneGetAClosedConnection) {
  const auto publisher = open_publisher(source_, publishing());
  publish(*publisher);
  RawPeer plain = RawPeer::connect(publisher->address(), {});
  plain.say(MessageType::kHello, hello_of(source_));
  EXPECT_TRUE(plain.is_dropped());
  EXPECT_EQ(plain.link().bytes_received(), 0u);
  SmallModel copy(3);
  SubscriberOptions options = replica_options();
  options.secret_path.clear();
  options.certificates_path.clear();
  const auto without = open_replica(copy, publisher->address(), options);
  EXPECT_THAT(without->next(1).status().message(), HasSubstr("--certificates"));
  options.certificates_path.clear();
  options.secret_path = new_secret(temporary_);
  const auto with_secret = open_replica(copy, publisher->address(), options);
  EXPECT_THAT(with_secret->next(1).status().message(), HasSubstr("another secret, or none"));
  // And a replica with certificates meets publishers without them.
  PublisherOptions clear = publishing();
  clear.certificates_path.clear();
  SmallModel more;
  const auto in_the_clear = open_publisher(more, clear);
  const auto lost = open_replica(copy, in_the_clear->address(), replicating());
  EXPECT_THAT(lost->next(1).status().message(), HasSubstr("it has no certificates"));
  EXPECT_THAT(query_status(in_the_clear->address(), 20, client("observe", trust::Role::kObserve))
                  .status()
                  .message(),
              HasSubstr("it has no certificates"));
}

// With trusted keys the bytes are the key's, whoever has the certificate.
TEST_F(CertificateService, KeysCountBesideIt) {
  const trust::SigningKey key = std::move(*trust::SigningKey::generate());
  const trust::SigningKey wrong = std::move(*trust::SigningKey::generate());
  ASSERT_TRUE(key.save(folder("key")).ok() && wrong.save(folder("wrong")).ok());
  PublisherOptions options = publishing();
  options.key_path = folder("key");
  const auto publisher = open_publisher(source_, options);
  publish(*publisher);
  SmallModel copy(3), other(4);
  SubscriberOptions trusting = replicating();
  trusting.trust_path = folder("key.pub");
  const auto replica = open_replica(copy, publisher->address(), trusting);
  expect_current(*replica, copy);
  trusting.trust_path = folder("wrong.pub");
  const auto refusing = open_replica(other, publisher->address(), trusting);
  EXPECT_EQ(refusing->next(5).status().code(), Code::kUnauthorized);
  EXPECT_EQ(refusing->versions().held, 0u);
}

// An authority is replaced under a service that goes on: first the replica's, then the publisher's.
TEST_F(CertificateService, NewFilesAreTakenAtTheNextConnection) {
  auto publisher = open_publisher(source_, publishing());
  const std::string address = publisher->address();
  publish(*publisher);
  SmallModel copy(3), late(4);
  const auto replica = open_replica(copy, address, replicating());
  expect_current(*replica, copy);
  const TestAuthority next("the next authority");
  next.write(folder("publish"), "publish");
  publish(*publisher);
  expect_current(*replica, copy);  // its connection lives on
  next.write(folder("replicate"), "replicate");
  const auto newcomer = open_replica(late, address, replicating());
  expect_current(*newcomer, late);
  publisher = nullptr;
  PublisherOptions again = publishing();
  again.listen = address;
  publisher = open_publisher(source_, again);
  publish(*publisher);
  expect_current(*replica, copy);  // by the new files, which it reads itself
}

TEST_F(CertificateService, ASecretAndCertificatesExcludeEachOther) {
  PublisherOptions options = publishing();
  options.secret_path = new_secret(temporary_);
  EXPECT_EQ(options.take_settings().code(), Code::kInvalidArgument);
  SubscriberOptions other = replicating();
  other.secret_path = options.secret_path;
  EXPECT_THAT(other.take_settings().message(), HasSubstr("exclude each other"));
}

}  // namespace
}  // namespace sparcl::replication
