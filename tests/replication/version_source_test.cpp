// The contract VersionSource, on every body: a publisher over TCP, with shared memory and with
// encryption (by a secret or by certificates), and another replica that passes updates on, with and
// without encryption.

#include "src/model/version_source.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "src/replication/staged_update.hpp"
#include "src/replication/upstream.hpp"
#include "tests/replication/rogue_support.hpp"
#include "tests/support/test_authority.hpp"

namespace sparcl::replication {
namespace {

enum class Body { kPublisher, kSharedMemory, kPeer, kEncrypted, kEncryptedPeer, kCertificates };

constexpr std::uint64_t kModelElements = 3'000'000;  // an update has several leaves
constexpr double kTestPatience = 20;

// Keeps what the source says.
class Reader final : public UpstreamOwner {
 public:
  Reader(const ReplicatedState& state, HeldVersion held, bool shares_memory)
      : held_(held), state_(state), shares_memory_(shares_memory) {}

  Hello hello(const Upstream&) override {
    Hello hello = hello_with(held_, state_.schema_hash);
    hello.held_is_vouched = hello.tip_is_vouched = is_vouched;
    hello.shares_memory = shares_memory_;
    return hello;
  }
  std::span<const std::byte> schema() const override { return {}; }
  Status take_welcome(Upstream&, const Welcome& welcome) override {
    epoch = welcome.epoch;
    return {};
  }
  Status take(Upstream&, double) override { return {}; }

  Status on_plan(model::VersionSource&, model::VersionPlan offered, double) override {
    update = std::make_unique<StagedUpdate>(offered.commit, offered.signatures);
    update->change_sender(StagedUpdate::Leaf::kChecked);
    plan = std::move(offered);
    return {};
  }
  Status on_digests(model::VersionSource&, const model::LeafDigests& digests) override {
    return update->take_leaves(digests);
  }
  Buffer destination(const model::VersionSource&, const model::ChunkPosition& at,
                     std::size_t count) override {
    return at.first_byte == update->next_byte() ? update->destination(count) : Buffer();
  }
  Status on_chunk(model::VersionSource&, const model::ChunkPosition& at, std::size_t count,
                  bool has_destination, double) override {
    EXPECT_TRUE(has_destination) << at.first_byte;
    note(at, count);
    return update->received(count);
  }
  Status on_memory(model::VersionSource&, const model::ChunkPosition& at, Buffer memory,
                   double) override {
    note(at, memory.size());
    memory_bytes += memory.size();
    return update->adopt(at.first_byte, std::move(memory));
  }
  Status on_end(model::VersionSource&, const model::UpdateName& name) override {
    ended = name;
    return {};
  }
  void on_newest(const model::VersionSource&, std::uint64_t version) override { newest = version; }
  void on_closed(model::VersionSource&, const Status& why, double) override { closed = why; }

  std::optional<model::VersionPlan> plan;
  std::unique_ptr<StagedUpdate> update;
  std::optional<model::UpdateName> ended;
  std::optional<Status> closed;
  std::optional<std::uint64_t> first_byte;  // that came
  std::uint64_t bytes = 0, memory_bytes = 0, newest = 0, epoch = 0;
  bool is_vouched = true;

 private:
  void note(const model::ChunkPosition& at, std::size_t count) {
    EXPECT_EQ(at.version, plan->commit.version);
    if (!first_byte) first_byte = at.first_byte;
    EXPECT_EQ(at.first_byte, *first_byte + bytes) << "in their order";
    bytes += count;
  }

  HeldVersion held_;
  ReplicatedState state_;
  bool shares_memory_;
};

class VersionSourceContract : public testing::TestWithParam<Body> {
 protected:
  VersionSourceContract() {
    PublisherOptions options = local_options();
    options.shares_memory = GetParam() == Body::kSharedMemory;
    if (is_encrypted()) {
      options.secret_path = secret();
      options.certificates_path.clear();
    }
    if (GetParam() == Body::kCertificates) {
      options.secret_path.clear();
      options.certificates_path = certificates("publish");
    }
    publisher = open_publisher(model, options);
    publish();
    before.copy_from(model);
    address = publisher->address();
    security = *load_client_security(is_encrypted() ? secret() : "", trust::Role::kReplicate);
    if (GetParam() == Body::kCertificates)
      security = *load_client_security("", trust::Role::kReplicate, certificates("replicate"));
    if (is_peer()) open_peer();
  }
  static std::string certificates(const std::string& role) {
    static const test::TempFolder folder;
    static const test::TestAuthority authority;
    return authority.write(folder / role, role);
  }
  static bool is_peer() { return GetParam() == Body::kPeer || GetParam() == Body::kEncryptedPeer; }
  static bool is_encrypted() {
    return GetParam() == Body::kEncrypted || GetParam() == Body::kEncryptedPeer;
  }
  static const std::string& secret() {
    static const test::TempFolder folder;
    static const std::string path = new_secret(folder);
    return path;
  }
  // A replica that holds version 1; a scout hears from the publisher where it is.
  void open_peer() {
    SubscriberOptions options = replica_options();
    options.shares_memory = false;
    if (is_encrypted()) options.secret_path = secret();
    peer = open_replica(peer_model, publisher->address(), options);
    ASSERT_TRUE(peer->next(kTestPatience).ok());
    ASSERT_TRUE(publisher->wait(1, 1, kTestPatience).ok());
    RawPeer scout = RawPeer::connect(publisher->address(), security);
    scout.say(MessageType::kHello, hello_with({1, model.hash()}, model.view().schema_hash));
    ASSERT_EQ(scout.hear(), MessageType::kWelcome);
    ASSERT_EQ(scout.hear(), MessageType::kOffer);  // the label of what it holds
    scout.say(MessageType::kRequest, Request{{0, 1}, 0, true});
    ASSERT_EQ(scout.hear(), MessageType::kCommit);
    scout.say(MessageType::kAck, Ack{AckStage::kHeld, {1, model.hash()}, true});
    ASSERT_EQ(scout.hear(), MessageType::kParent);
    const Parent placed = *parse_parent(scout.link().content());
    address = to_text(*placed.address);
    ASSERT_EQ(placed.ticket.has_value(), is_encrypted());
    if (placed.ticket) security = {*ticket_client(*placed.ticket), {}};
  }
  void publish() {
    std::mt19937_64 random(version);
    for (std::size_t i = 0; version > 0 && i < kModelElements; i += 3)
      model.poke(i, static_cast<std::uint16_t>(random()));
    ASSERT_TRUE(publisher->publish(++version).ok());
  }

  // A reader that holds version 1.
  void open(bool is_vouched = true) {
    reader.emplace(before.view(), HeldVersion{1, before.hash()}, GetParam() == Body::kSharedMemory);
    reader->is_vouched = is_vouched;
    upstream.emplace(*reader, UpstreamKind::kPublisher, 5.0);
    Result<net::Socket> socket =
        net::start_connect(net::resolve(*net::parse_host_port(address))->front());
    ASSERT_TRUE(socket.ok()) << socket.status().message();
    upstream->connect(std::move(*socket), address, security, net::monotonic_seconds());
    ASSERT_TRUE(turn_until([&] { return upstream->is_ready() || reader->closed; }));
    const bool is_current = version == 1 && before.is_same_as(model);
    if (is_current && !is_peer()) take_label();
  }
  // What it holds is this publisher's version 1.
  void take_label() {
    ASSERT_TRUE(turn_until([&] { return reader->plan.has_value(); }));
    ASSERT_EQ(reader->plan->commit.stream_bytes, 0U);
    request(0, true);
    ASSERT_TRUE(turn_until([&] { return reader->ended.has_value(); }));
    source().offer({model::VersionHave::Stage::kHeld, {1, before.hash()}, true});
    reader->plan.reset();
    reader->ended.reset();
  }
  model::VersionSource& source() { return *upstream; }

  bool turn_until(const std::function<bool()>& is_reached, double seconds = kTestPatience) {
    const double until = net::monotonic_seconds() + seconds;
    while (!is_reached() && net::monotonic_seconds() < until) {
      pollfd entry{upstream->fd(), upstream->events(), 0};
      net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + 0.01);
      const double now = net::monotonic_seconds();
      upstream->step(entry.revents, now);
      upstream->tick(1, now);
    }
    return is_reached();
  }
  // The plan of the next version.
  void be_offered() {
    open();
    publish();
    ASSERT_TRUE(turn_until([&] { return reader->plan && reader->plan->commit.version == 2; }));
  }
  void request(std::uint64_t first_byte, bool has_leaves = false) {
    const Commit& commit = reader->plan->commit;
    source().chunks({{commit.base_version, commit.version}, first_byte, has_leaves});
  }

  SmallModel model{1, kModelElements}, before{1, kModelElements}, peer_model{9, kModelElements};
  std::unique_ptr<Publisher> publisher;
  std::unique_ptr<Subscriber> peer;
  std::string address;
  std::uint64_t version = 0;
  std::optional<Reader> reader;
  ClientSecurity security;
  std::optional<Upstream> upstream;
};

TEST_P(VersionSourceContract, TellsOfTheNewestVersion) {
  open();
  EXPECT_EQ(source().newest(), 1U);
  publish();
  EXPECT_TRUE(turn_until([&] { return source().newest() == 2; }));
  EXPECT_EQ(reader->newest, 2U);
}

TEST_P(VersionSourceContract, PlansTheNextUpdateFromWhatTheReaderHas) {
  be_offered();
  const Commit& commit = reader->plan->commit;
  EXPECT_FALSE(commit.is_anchor);
  EXPECT_EQ(commit.base_hash, before.hash());
  EXPECT_EQ(commit.target_hash, model.hash());
  EXPECT_EQ(commit.epoch, reader->epoch);
  EXPECT_GT(leaf_count(commit.stream_bytes), 1U);
}

TEST_P(VersionSourceContract, GivesNoByteBeforeItIsAsked) {
  be_offered();
  EXPECT_FALSE(turn_until([&] { return reader->bytes > 0; }, 0.2));
}

TEST_P(VersionSourceContract, GivesTheBytesOfTheCommitInOrder) {
  be_offered();
  request(0);
  ASSERT_TRUE(turn_until([&] { return reader->ended.has_value(); }));
  EXPECT_EQ(reader->first_byte, 0U);
  EXPECT_EQ(reader->bytes, reader->plan->commit.stream_bytes);
  EXPECT_EQ(*reader->ended, reader->update->update().name());
  EXPECT_TRUE(reader->update->has_all_bytes());
  bool more = true;
  const HeldVersion held{1, before.hash()};
  while (more) ASSERT_TRUE(reader->update->check(before, held, UINT64_MAX, more).ok());
  ASSERT_TRUE(reader->update->is_checked());
  ASSERT_TRUE(reader->update->apply().ok());
  EXPECT_TRUE(before.is_same_as(model));
}

TEST_P(VersionSourceContract, GivesBytesAsMemoryOnlyIfItShares) {
  be_offered();
  request(0);
  ASSERT_TRUE(turn_until([&] { return reader->ended.has_value(); }));
  EXPECT_EQ(reader->memory_bytes > 0, GetParam() == Body::kSharedMemory);
}

TEST_P(VersionSourceContract, GoesOnFromAByteThatTheReaderNames) {
  if (is_peer()) GTEST_SKIP() << "a peer keeps an update only while others take it";
  be_offered();
  request(0);
  ASSERT_TRUE(turn_until([&] { return reader->ended.has_value(); }));
  // Another connection: the reader has the leaves, and the first of them whole.
  const std::unique_ptr<StagedUpdate> first = std::move(reader->update);
  const Commit commit = reader->plan->commit;
  open();
  ASSERT_TRUE(turn_until([&] { return reader->plan.has_value(); }));
  ASSERT_EQ(reader->plan->commit, commit);
  const Status taken =
      reader->on_digests(source(), {reader->update->update().name(), 0, first->update().leaves});
  ASSERT_TRUE(taken.ok()) << taken.message();
  const Buffer at = reader->update->destination(kLeafBytes);
  std::memcpy(at.data(), first->update().bytes.slice(0, kLeafBytes).data(), kLeafBytes);
  ASSERT_TRUE(reader->update->received(kLeafBytes).ok());
  request(kLeafBytes, true);
  ASSERT_TRUE(turn_until([&] { return reader->ended.has_value(); }));
  EXPECT_EQ(reader->first_byte, kLeafBytes);
  EXPECT_TRUE(reader->update->has_all_bytes());
}

TEST_P(VersionSourceContract, PlansNothingForAReaderThatIsCurrent) {
  be_offered();
  request(0);
  ASSERT_TRUE(turn_until([&] { return reader->ended.has_value(); }));
  reader->plan.reset();
  source().offer({model::VersionHave::Stage::kStaged, {2, model.hash()}, true});
  source().offer({model::VersionHave::Stage::kHeld, {2, model.hash()}, true});
  EXPECT_FALSE(turn_until([&] { return reader->plan.has_value(); }, 0.2));
  publish();
  ASSERT_TRUE(turn_until([&] { return reader->plan.has_value(); }));
  EXPECT_EQ(reader->plan->commit.base_version, 2U);
}

// A publisher has all bytes; a peer has no path, and says so.
TEST_P(VersionSourceContract, ARefusedPlanIsFollowedByAllBytesOrTheEnd) {
  be_offered();
  reader->plan.reset();
  source().refuse({{1, 2}, Code::kCorrupt, true, "a test refuses it"});
  ASSERT_TRUE(turn_until([&] { return reader->plan || reader->closed; }));
  if (is_peer()) {
    EXPECT_EQ(reader->closed->code(), Code::kWrongBase);
  } else {
    ASSERT_TRUE(reader->plan);
    EXPECT_TRUE(reader->plan->commit.is_anchor);
  }
}

TEST_P(VersionSourceContract, AReaderWithoutAPathGetsAllBytesOrTheEnd) {
  before.step(77, 10);  // bytes that were never published
  open();
  if (is_peer()) publish();  // it waits for a version that might lead on
  ASSERT_TRUE(turn_until([&] { return reader->plan || reader->closed; }));
  if (is_peer()) {
    EXPECT_EQ(reader->closed->code(), Code::kWrongBase);
  } else {
    EXPECT_TRUE(reader->plan->commit.is_anchor);
  }
}

TEST_P(VersionSourceContract, ARequestOfAnotherUpdateEndsIt) {
  be_offered();
  source().chunks({{7, 8}, 0, false});
  ASSERT_TRUE(turn_until([&] { return reader->closed.has_value(); }));
  EXPECT_EQ(reader->closed->code(), Code::kCorrupt);
  EXPECT_FALSE(source().is_ready());
}

TEST_P(VersionSourceContract, SaysWhyItIsClosed) {
  open();
  peer = nullptr;
  publisher = nullptr;
  ASSERT_TRUE(turn_until([&] { return reader->closed.has_value(); }));
  EXPECT_EQ(reader->closed->code(), Code::kRemoteError);
  EXPECT_FALSE(source().is_ready());
  source().offer({});  // ignored
  source().chunks({});
  source().refuse({});
}

std::string source_name(const testing::TestParamInfo<Body>& info) {
  const char* names[] = {"Publisher", "SharedMemory",  "Peer",
                         "Encrypted", "EncryptedPeer", "Certificates"};
  return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Bodies, VersionSourceContract,
                         testing::Values(Body::kPublisher, Body::kSharedMemory, Body::kPeer,
                                         Body::kEncrypted, Body::kEncryptedPeer,
                                         Body::kCertificates),
                         source_name);

}  // namespace
}  // namespace sparcl::replication
