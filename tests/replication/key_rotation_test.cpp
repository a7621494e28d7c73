// Keys and secrets that replace others while publisher and replicas run, and what becomes of those
// who have an old one.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "src/replication/secret_ring.hpp"
#include "tests/replication/rogue_support.hpp"

namespace sparcl::replication {
namespace {

using ::testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class KeyRotation : public testing::Test {
 protected:
  KeyRotation() {
    for (const char* name : {"first", "second"}) {
      EXPECT_TRUE(trust::SigningKey::generate()->save(path(name) + ".key").ok());
      EXPECT_TRUE(trust::RoleSecret::generate()->save(path(name)).ok());
    }
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  // As an editor does it: the new file takes the other's name.
  void replace(const std::string& name, const std::string& text) const {
    const std::string temporary = path(name + ".new");
    std::ofstream(temporary) << text;
    ASSERT_EQ(::chmod(temporary.c_str(), 0600), 0);
    std::filesystem::rename(temporary, path(name));
  }
  std::string texts(std::initializer_list<std::string> names) const {
    std::string all;
    for (const std::string& each : names) all += text_of(path(each));
    return all;
  }
  void publish(Publisher& publisher) {
    source_.step(++version_);
    ASSERT_TRUE(publisher.publish(version_).ok());
  }
  // Publishes until the replica holds a version with this property.
  template <class Property>
  bool follows_until(Publisher& publisher, Subscriber& replica, Property&& is_there) {
    const double until = net::monotonic_seconds() + 30;
    while (net::monotonic_seconds() < until) {
      publish(publisher);
      (void)replica.next(0.3);
      if (replica.versions().held == version_ && is_there()) return true;
    }
    return false;
  }
  static trust::PublicKey signer_of(const Subscriber& replica) {
    const LatestHeld latest = replica.latest();
    return latest.proof ? latest.proof->signatures.back().key : trust::PublicKey{};
  }
  trust::PublicKey key(const std::string& name) const {
    return trust::SigningKey::load(path(name) + ".key")->public_key();
  }

  test::TempFolder folder_;
  SmallModel source_;
  std::uint64_t version_ = 0;
};

TEST_F(KeyRotation, APublishersKeyIsReplacedWhileReplicasFollow) {
  replace("signing", texts({"first.key"}));
  replace("trusted", texts({"first.key.pub"}));
  PublisherOptions publishing = local_options();
  publishing.secret_path.clear();
  publishing.key_path = path("signing");
  const auto publisher = open_publisher(source_, publishing);
  SubscriberOptions options = replica_options();
  options.secret_path.clear();
  options.trust_path = path("trusted");
  SmallModel copy(3);
  const auto replica = open_replica(copy, publisher->address(), options);
  ASSERT_TRUE(follows_until(*publisher, *replica, [&] { return true; }));
  EXPECT_EQ(signer_of(*replica), key("first"));

  replace("trusted", texts({"first.key.pub", "second.key.pub"}));
  replace("signing", texts({"second.key"}));
  ASSERT_TRUE(
      follows_until(*publisher, *replica, [&] { return signer_of(*replica) == key("second"); }));
  EXPECT_TRUE(copy.is_same_as(source_));

  // What the old key signs counts no longer, and a broken file changes nothing.
  replace("trusted", texts({"second.key.pub"}));
  replace("signing", "nonsense\n");
  ASSERT_TRUE(follows_until(*publisher, *replica, [&] { return true; }));
  usleep(1'200'000);
  ASSERT_TRUE(follows_until(*publisher, *replica, [&] { return true; }));
  EXPECT_EQ(signer_of(*replica), key("second"));
  replace("signing", texts({"first.key"}));
  const double until = net::monotonic_seconds() + 20;
  Status refused;
  while (refused.code() != Code::kUnauthorized && net::monotonic_seconds() < until) {
    publish(*publisher);
    refused = replica->next(0.3).status();
  }
  EXPECT_EQ(refused.code(), Code::kUnauthorized) << refused.message();
  EXPECT_THAT(refused.message(), HasSubstr(trust::fingerprint(key("first"))));
}

// However late the content is used: the stamp is older than the content.
TEST_F(KeyRotation, AFileThatChangesBeforeItIsUsedIsReadAgain) {
  replace("trusted", texts({"first.key.pub"}));
  Result<ReplicaCredentials> used = ReplicaCredentials::load({"", "", path("trusted"), 1});
  ASSERT_TRUE(used.ok()) << used.status().message();
  EXPECT_FALSE(used->have_changed());
  replace("trusted", texts({"second.key.pub"}));
  SubscriberOptions options = replica_options();
  options.credentials = *used;
  EXPECT_TRUE(options.credentials->have_changed());
  replace("trusted", "nonsense\n");
  EXPECT_FALSE(options.credentials->read_again().ok());
  EXPECT_TRUE(options.credentials->have_changed()) << "it is looked at again";
  replace("trusted", texts({"second.key.pub"}));
  const Result<ReplicaCredentials> next = options.credentials->read_again();
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_TRUE(next->trusted()->trusts(key("second")));
  EXPECT_FALSE(next->trusted()->trusts(key("first")));
}

// A thief has published with a stolen key, far in the future. Once the key is trusted no more,
// neither its version nor its time counts.
TEST_F(KeyRotation, AStolenKeysVersionsCountNoLonger) {
  replace("trusted", texts({"first.key.pub", "second.key.pub"}));
  SubscriberOptions options = replica_options();
  options.secret_path.clear();
  options.trust_path = path("trusted");
  PublisherOptions publishing = local_options();
  publishing.secret_path.clear();
  publishing.key_path = path("second.key");
  publishing.clock = [] { return std::uint64_t{8'000'000'000} * 1'000'000'000; };
  auto thief = open_publisher(source_, publishing);
  const std::string address = thief->address();
  SmallModel copy(3);
  const auto replica = open_replica(copy, address, options);
  ASSERT_TRUE(follows_until(*thief, *replica, [&] { return true; }));
  ASSERT_EQ(signer_of(*replica), key("second"));
  thief = nullptr;
  publishing.listen = address;
  publishing.key_path = path("first.key");
  publishing.clock = {};
  const auto publisher = open_publisher(source_, publishing);
  publish(*publisher);
  EXPECT_FALSE(replica->next(2).ok()) << "a later epoch, by a trusted key";
  replace("trusted", texts({"first.key.pub"}));
  ASSERT_TRUE(
      follows_until(*publisher, *replica, [&] { return signer_of(*replica) == key("first"); }));
  EXPECT_TRUE(copy.is_same_as(source_));
}

TEST_F(KeyRotation, ReplicasMayWantSeveralSignatures) {
  replace("trusted", texts({"first.key.pub", "second.key.pub"}));
  replace("signing", texts({"first.key"}));
  PublisherOptions publishing = local_options();
  publishing.secret_path.clear();
  publishing.key_path = path("signing");
  const auto publisher = open_publisher(source_, publishing);
  SubscriberOptions options = replica_options();
  options.secret_path.clear();
  options.trust_path = path("trusted");
  options.trust_threshold = 2;
  SmallModel copy(3);
  const auto replica = open_replica(copy, publisher->address(), options);
  publish(*publisher);
  const Status refused = replica->next(5).status();
  EXPECT_EQ(refused.code(), Code::kUnauthorized);
  EXPECT_THAT(refused.message(), HasSubstr("signed by 1 of the 2 keys"));
  replace("signing", texts({"first.key", "second.key"}));
  ASSERT_TRUE(follows_until(*publisher, *replica, [&] { return true; }));
  EXPECT_EQ(replica->latest().proof->signatures.size(), 2u);
  EXPECT_TRUE(copy.is_same_as(source_));
}

TEST_F(KeyRotation, ASecretIsReplacedWhileReplicasFollow) {
  replace("secret", texts({"first"}));
  replace("joined", texts({"first.replicate"}));
  PublisherOptions publishing = local_options();
  publishing.secret_path = path("secret");
  const auto publisher = open_publisher(source_, publishing);
  SubscriberOptions options = replica_options();
  options.secret_path = path("joined");
  SmallModel copy(3), late(4);
  const auto replica = open_replica(copy, publisher->address(), options);
  ASSERT_TRUE(follows_until(*publisher, *replica, [&] { return true; }));
  const trust::PublicKey before = signer_of(*replica);
  // A replica that waits for its first version reads its file again, too.
  ASSERT_TRUE(trust::RoleSecret::generate()->save(path("other")).ok());
  replace("early", texts({"other.replicate"}));
  options.secret_path = path("early");
  SmallModel first(6);
  const auto early = open_replica(first, publisher->address(), options);
  EXPECT_EQ(early->next(0.5).status().code(), Code::kRemoteError);
  replace("early", texts({"first.replicate"}));

  // Both secrets count, and versions are signed by the keys of both.
  replace("secret", texts({"second", "first"}));
  options.secret_path = path("second.replicate");
  ASSERT_TRUE(follows_until(*publisher, *replica,
                            [&] { return replica->latest().proof->signatures.size() == 2; }));
  ASSERT_TRUE(follows_until(*publisher, *early, [&] { return true; }));
  const auto second = open_replica(late, publisher->address(), options);
  ASSERT_TRUE(follows_until(*publisher, *second, [&] { return true; }));
  EXPECT_TRUE(late.is_same_as(source_));

  // One replica gets the new secret; then the old one ends, and with it who has it.
  replace("joined", texts({"second.replicate"}));
  options.secret_path = path("first.replicate");
  SmallModel stolen(5);
  const auto thief = open_replica(stolen, publisher->address(), options);
  ASSERT_TRUE(follows_until(*publisher, *thief, [&] { return true; }));
  replace("secret", texts({"second"}));
  ASSERT_TRUE(follows_until(*publisher, *replica, [&] { return signer_of(*replica) != before; }));
  EXPECT_TRUE(copy.is_same_as(source_));
  while (thief->next(0.5).ok()) continue;  // what it was sent before
  const std::uint64_t last = thief->versions().held;
  publish(*publisher);
  EXPECT_FALSE(thief->next(2).ok());
  EXPECT_EQ(thief->versions().held, last);
  EXPECT_FALSE(stolen.is_same_as(source_));
}

// A thief behind another replica: its ticket ends, too, though the key that signs stays.
TEST_F(KeyRotation, ARevokedHolderGetsNothingFromOtherReplicas) {
  replace("secret", texts({"second", "first"}));
  replace("trusted", texts({"first.key.pub"}));
  PublisherOptions publishing = local_options();
  publishing.secret_path = path("secret");
  publishing.key_path = path("first.key");
  publishing.fan_out = 1;
  const auto publisher = open_publisher(source_, publishing);
  SubscriberOptions options = replica_options();
  options.trust_path = path("trusted");
  options.shares_memory = false;
  SmallModel copy(3), stolen(4);
  options.secret_path = path("second.replicate");
  const auto replica = open_replica(copy, publisher->address(), options);
  ASSERT_TRUE(follows_until(*publisher, *replica, [&] { return true; }));
  options.secret_path = path("first.replicate");
  const auto thief = open_replica(stolen, publisher->address(), options);
  const auto has_parent = [&] {
    (void)replica->next(0.1);
    return publisher->status().find(R"("from":"replica)") != std::string::npos ||
           publisher->status().find(R"("from":"host)") != std::string::npos;
  };
  ASSERT_TRUE(follows_until(*publisher, *thief, has_parent)) << publisher->status();
  replace("secret", texts({"second"}));
  const double until = net::monotonic_seconds() + 20;
  while (net::monotonic_seconds() < until && thief->trouble().ok()) {
    publish(*publisher);
    (void)replica->next(0.1);
    (void)thief->next(0.1);
  }
  while (thief->next(0.5).ok()) continue;  // what it was sent before
  const std::uint64_t last = thief->versions().held;
  ASSERT_TRUE(follows_until(*publisher, *replica, [&] { return true; }));
  EXPECT_FALSE(thief->next(2).ok());
  EXPECT_EQ(thief->versions().held, last);
}

TEST_F(KeyRotation, ARingKeepsTheNumbersOfTheSecretsThatStay) {
  replace("secret", texts({"first"}));
  const std::shared_ptr<SecretRing> ring = *SecretRing::load(path("secret"));
  const std::string identity = *trust::RoleSecret::load(path("first.replicate"))->tls_identity();
  const PeerTag first = PeerTag::of(ring->find(identity)->tag);
  EXPECT_EQ(first.role, trust::Role::kReplicate);
  replace("secret", texts({"second", "first"}));
  EXPECT_FALSE(ring->replace(std::move(**SecretRing::load(path("secret")))));
  EXPECT_EQ(PeerTag::of(ring->find(identity)->tag).secret, first.secret);
  const std::string other = *trust::RoleSecret::load(path("second.observe"))->tls_identity();
  const PeerTag second = PeerTag::of(ring->find(other)->tag);
  EXPECT_NE(second.secret, first.secret);
  EXPECT_EQ(ring->prove(first, {})->key, trust::RoleSecret::load(path("first"))->publisher_key());
  EXPECT_EQ(ring->prove(second, {})->key, trust::RoleSecret::load(path("second"))->publisher_key());
  replace("secret", texts({"second"}));
  EXPECT_TRUE(ring->replace(std::move(**SecretRing::load(path("secret")))));
  EXPECT_FALSE(ring->knows(first) || ring->prove(first, {}) || ring->find(identity));
  EXPECT_TRUE(ring->knows(second));
}

}  // namespace
}  // namespace sparcl::replication
