// Updates that reach replicas of the publisher's machine as memory, and what rogues make of it.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/codec/wire.hpp"
#include "src/transport/nearby_socket.hpp"
#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

using Json = nlohmann::json;

const std::string kModelId = "m";
const std::string kAnyPort = "127.0.0.1:0";
constexpr std::uint64_t kLarge = 3'000'000;  // elements: an anchor of more than one piece

std::unique_ptr<Publisher> open_publisher(const SmallModel& model, bool shares_memory = true) {
  PublisherOptions options;
  options.listen = kAnyPort;
  options.model_id = kModelId;
  options.shares_memory = shares_memory;
  return std::move(*Publisher::create(model.view(), options));
}

std::unique_ptr<Subscriber> open_replica(const SmallModel& model, const std::string& address, bool shares_memory = true) {
  SubscriberOptions options;
  options.model_id = kModelId;
  options.shares_memory = shares_memory;
  return std::move(*Subscriber::create(model.view(), address, options));
}

Json replicas_of(const Publisher& publisher) { return Json::parse(publisher.status())["replicas"]; }

int open_descriptors() {
  int count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) count += each.path().empty() ? 0 : 1;
  return count;
}

TEST(SharedMemory, CarriesUpdatesToReplicasOfTheMachine) {
  SmallModel source(0, kLarge);
  const auto publisher = open_publisher(source);
  source.step(1, 3'000'000);
  ASSERT_TRUE(publisher->publish(1).ok());
  std::vector<std::unique_ptr<SmallModel>> copies;
  std::vector<std::unique_ptr<Subscriber>> replicas;
  for (int i = 0; i < 3; ++i) {
    copies.push_back(std::make_unique<SmallModel>(1, kLarge));
    replicas.push_back(open_replica(*copies.back(), publisher->address()));
  }
  std::uint64_t update_bytes = 0;
  for (std::uint64_t version = 1; version <= 4; ++version) {
    if (version > 1) {
      source.step(version, 2'000'000);
      const auto report = publisher->publish(version);
      ASSERT_TRUE(report.ok());
      update_bytes += report->stream_bytes;
    }
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      while (replicas[i]->versions().held < version) ASSERT_TRUE(replicas[i]->next(20).ok());
      EXPECT_EQ(copies[i]->hash(), source.hash());
    }
  }
  ASSERT_TRUE(publisher->wait(4, 3, 20).ok());
  const Json said = replicas_of(*publisher);
  for (const Json& each : said) {
    EXPECT_EQ(each["from"], "publisher");
    EXPECT_GT(each["bytes_shared"].get<std::uint64_t>(), update_bytes / 2) << said.dump(1);
  }
}

TEST(SharedMemory, OneSideThatWantsNoneHasNone) {
  for (const bool is_publisher : {false, true}) {
    SmallModel source(0, kLarge), copy(1, kLarge);
    const auto publisher = open_publisher(source, !is_publisher);
    ASSERT_TRUE(publisher->publish(1).ok());
    const auto replica = open_replica(copy, publisher->address(), is_publisher);
    ASSERT_TRUE(replica->next(20).ok());
    EXPECT_EQ(copy.hash(), source.hash());
    EXPECT_EQ(replicas_of(*publisher)[0]["bytes_shared"], 0);
  }
}

TEST(SharedMemory, LeavesNoDescriptorBehind) {
  SmallModel source(0, kLarge), copy(1, kLarge);
  const int before = open_descriptors();
  {
    const auto publisher = open_publisher(source);
    ASSERT_TRUE(publisher->publish(1).ok());
    for (int i = 0; i < 5; ++i) {
      const auto replica = open_replica(copy, publisher->address());
      ASSERT_TRUE(replica->next(20).ok());
      source.step(static_cast<std::uint64_t>(i), 1'000'000);
      ASSERT_TRUE(publisher->publish(static_cast<std::uint64_t>(i) + 2).ok());
    }
  }
  EXPECT_EQ(open_descriptors(), before);
}

// --- to a replica ---

// A publisher that invites to share memory.
class RogueMemory {
 public:
  RogueMemory() : name_(fmt::format("sparcl-test-{}", ::getpid())), listener_(std::move(*listen_nearby(name_, 4))) {}
  MemoryInvitation invitation() const { return {name_, {}}; }
  const Socket& guest() {
    pollfd entry{listener_.fd(), POLLIN, 0};
    poll_until(std::span(&entry, 1), monotonic_seconds() + RawPeer::kPatience);
    if (std::optional<Socket> socket = accept_nearby(listener_)) guest_ = std::move(*socket);
    return guest_;
  }

 private:
  std::string name_;
  Socket listener_;
  Socket guest_;
};

Socket memory_of(std::size_t bytes, int seals) {
  Socket file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.fd(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(file.fd(), F_ADD_SEALS, seals), 0);
  return file;
}

constexpr std::uint32_t kBytes = 1000;
constexpr int kSealed = F_SEAL_WRITE | F_SEAL_SHRINK;

// What a replica makes of a piece that `play` sends; afterwards it comes again, and takes the update over the connection.
template <class Play>
void expect_refused(const char* what, Play&& play) {
  SmallModel copy(1);
  const Hash128 before = copy.hash();
  RawPublisher publisher;
  RogueMemory memory;
  const auto replica = open_replica(copy, publisher.address());
  Hello hello;
  RawPeer peer = publisher.accept(&hello);
  EXPECT_TRUE(hello.shares_memory) << what;
  peer.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", 1, 1, 5000, "rogue", memory.invitation()});
  const Socket& guest = memory.guest();
  MemoryToken token;
  pollfd entry{guest.fd(), POLLIN, 0};
  poll_until(std::span(&entry, 1), monotonic_seconds() + RawPeer::kPatience);
  EXPECT_EQ(receive_nearby(guest, token).moved.kind, Moved::Kind::kBytes) << what;
  Commit commit;
  commit.model_id = kModelId;
  commit.epoch = commit.version = 1;
  commit.schema_hash = hello.schema_hash;
  commit.base_hash = hello.held.hash;
  commit.target_hash = {1, 1};
  commit.stream_bytes = kBytes;
  peer.say(MessageType::kOffer, Offer{commit, {}});
  ASSERT_EQ(peer.hear(), MessageType::kRequest) << what;
  play(peer, guest);
  EXPECT_TRUE(peer.is_dropped()) << what;
  RawPeer again = publisher.accept(&hello);
  EXPECT_FALSE(hello.shares_memory) << what;
  EXPECT_EQ(hello.held.hash, before) << what;
}

TEST(SharedMemory, AReplicaTakesOnlyWhatNobodyCanChange) {
  const Piece piece{1, 0, kBytes};
  const auto pass = [&](RawPeer& peer, const Socket& guest, const Socket& file, const Piece& said) {
    EXPECT_EQ(send_nearby(guest, serialise(piece), file.fd()).kind, Moved::Kind::kBytes);
    peer.say(MessageType::kPiece, said);
  };
  expect_refused("not sealed", [&](RawPeer& peer, const Socket& guest) { pass(peer, guest, memory_of(kBytes, 0), piece); });
  expect_refused("may shrink",
                 [&](RawPeer& peer, const Socket& guest) { pass(peer, guest, memory_of(kBytes, F_SEAL_WRITE), piece); });
  expect_refused("too small",
                 [&](RawPeer& peer, const Socket& guest) { pass(peer, guest, memory_of(kBytes - 1, kSealed), piece); });
  expect_refused("too large", [&](RawPeer& peer, const Socket& guest) { pass(peer, guest, memory_of(1UL << 40, kSealed), piece); });
  expect_refused("a device", [&](RawPeer& peer, const Socket& guest) {
    pass(peer, guest, Socket(::open("/dev/zero", O_RDONLY | O_CLOEXEC)), piece);
  });
  expect_refused("no descriptor", [&](RawPeer& peer, const Socket& guest) { pass(peer, guest, Socket(), piece); });
  expect_refused("another piece than was said", [&](RawPeer& peer, const Socket& guest) {
    pass(peer, guest, memory_of(kBytes, kSealed), Piece{1, 0, kBytes - 1});
  });
  expect_refused("nothing beside", [&](RawPeer& peer, const Socket&) { peer.say(MessageType::kPiece, piece); });
}

// A file in memory may have holes without end: nothing is mapped before its size was looked at.
TEST(SharedMemory, PiecesOutOfPlaceEndTheConnection) {
  for (const Piece& piece : {Piece{2, 0, kBytes}, Piece{1, 500, kBytes}, Piece{1, 0, 100}, Piece{1, 0, kBytes + 1}}) {
    SmallModel copy(1);
    RawPublisher publisher;
    RogueMemory memory;
    const auto replica = open_replica(copy, publisher.address());
    Hello hello;
    RawPeer peer = publisher.accept(&hello);
    peer.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", 1, 1, 5000, "rogue", memory.invitation()});
    const Socket& guest = memory.guest();
    Commit commit;
    commit.model_id = kModelId;
    commit.epoch = commit.version = 1;
    commit.schema_hash = hello.schema_hash;
    commit.base_hash = hello.held.hash;
    commit.target_hash = {1, 1};
    commit.stream_bytes = kBytes;
    peer.say(MessageType::kOffer, Offer{commit, {}});
    ASSERT_EQ(peer.hear(), MessageType::kRequest);
    ASSERT_EQ(send_nearby(guest, serialise(piece), memory_of(piece.bytes, kSealed).fd()).kind, Moved::Kind::kBytes);
    peer.say(MessageType::kPiece, piece);
    EXPECT_TRUE(peer.is_dropped());
    EXPECT_EQ(replica->next(0.1).status().code(), Code::kCorrupt);
  }
}

TEST(SharedMemory, WhereItCannotBeReachedBytesComeOverTheConnection) {
  SmallModel copy(1);
  RawPublisher publisher;
  const auto replica = open_replica(copy, publisher.address());
  Hello hello;
  RawPeer peer = publisher.accept(&hello);
  peer.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", 1, 1, 5000, "alone", {"sparcl-test-nobody", {}}});
  Commit commit;
  commit.model_id = kModelId;
  commit.epoch = commit.version = 1;
  commit.schema_hash = hello.schema_hash;
  commit.base_hash = commit.target_hash = hello.held.hash;  // a label
  peer.say(MessageType::kOffer, Offer{commit, {}});
  ASSERT_EQ(peer.hear(), MessageType::kRequest);
  peer.say(MessageType::kCommit, CommitNote{{0, 1}});
  EXPECT_TRUE(replica->next(20).ok());
}

// --- to a publisher ---

class RawReplica {
 public:
  RawReplica(const Publisher& publisher, const SmallModel& model) : peer_(RawPeer::connect(publisher.address())) {
    const HeldVersion held{0, {7, 7}};
    peer_.say(MessageType::kHello,
              Hello{kProtocolVersion, "m", model.view().schema_hash, codec::kWireVersion, held, held, 0, 5000, 0, true, "a test"});
    EXPECT_EQ(peer_.hear(), MessageType::kWelcome);
    welcome_ = *parse_welcome(peer_.link().content());
    EXPECT_FALSE(welcome_.memory.name.empty());
  }
  RawPeer& peer() { return peer_; }
  const MemoryInvitation& invitation() const { return welcome_.memory; }
  Socket come(const MemoryToken& token) {
    Socket socket = std::move(*connect_nearby(invitation().name));
    EXPECT_EQ(send_nearby(socket, token, -1).kind, Moved::Kind::kBytes);
    return socket;
  }
  std::uint64_t ask() {
    EXPECT_EQ(peer_.hear(), MessageType::kOffer);
    const Offer offer = *parse_offer(peer_.link().content());
    peer_.say(MessageType::kRequest, Request{{offer.commit.base_version, offer.commit.version}, 0});
    return offer.commit.stream_bytes;
  }

 private:
  RawPeer peer_;
  Welcome welcome_;
};

bool ends(const Socket& socket) {
  const double until = monotonic_seconds() + RawPeer::kPatience;
  pollfd entry{socket.fd(), POLLIN, 0};
  MemoryToken text;
  poll_until(std::span(&entry, 1), until);
  return receive_nearby(socket, text).moved.kind == Moved::Kind::kClosed;
}

TEST(SharedMemory, OnlyWhoWasInvitedIsLetIn) {
  SmallModel source(0, kLarge);
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  RawReplica replica(*publisher, source);
  MemoryToken wrong = replica.invitation().token;
  wrong[3] ^= std::byte{1};
  EXPECT_TRUE(ends(replica.come(wrong)));
  const Socket first = replica.come(replica.invitation().token);
  EXPECT_TRUE(ends(replica.come(replica.invitation().token)));  // once
  // Strangers that say nothing are as many as they like, and the door stays open for others.
  std::vector<Socket> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(std::move(*connect_nearby(replica.invitation().name)));
  EXPECT_TRUE(ends(silent.front()));
  const int before = open_descriptors();
  EXPECT_LT(before, 200);
  SmallModel copy(1, kLarge);
  const auto other = open_replica(copy, publisher->address());
  ASSERT_TRUE(other->next(20).ok());
  EXPECT_EQ(copy.hash(), source.hash());
}

TEST(SharedMemory, WhoTakesNothingIsSentFourPieces) {
  constexpr std::uint64_t kElements = 30'000'000;  // 60 MB: 15 pieces
  SmallModel source(0, kElements);
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  RawReplica replica(*publisher, source);
  const Socket memory = replica.come(replica.invitation().token);
  usleep(200'000);  // it is let in
  const std::uint64_t bytes = replica.ask();
  ASSERT_GT(bytes, 8 * kMaxPieceBytes);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(replica.peer().hear(), MessageType::kPiece);
  EXPECT_EQ(replica.peer().hear(0.3), std::nullopt);
  replica.peer().link().queue(MessageType::kTaken, std::span<const std::byte>());
  (void)replica.peer().link().flush();
  EXPECT_EQ(replica.peer().hear(), MessageType::kPiece);
  for (int i = 0; i < 5; ++i) replica.peer().link().queue(MessageType::kTaken, std::span<const std::byte>());
  (void)replica.peer().link().flush();  // one more than there were, by then or later
  for (int i = 0; i < 20; ++i) replica.peer().link().queue(MessageType::kTaken, std::span<const std::byte>());
  (void)replica.peer().link().flush();
  EXPECT_TRUE(replica.peer().is_dropped());
}

// The rest of an update comes over the connection when a replica lets go of the memory.
TEST(SharedMemory, AReplicaMayLetGoOfIt) {
  constexpr std::uint64_t kElements = 30'000'000;
  SmallModel source(0, kElements);
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  RawReplica replica(*publisher, source);
  Socket memory = replica.come(replica.invitation().token);
  usleep(200'000);
  replica.ask();
  EXPECT_EQ(replica.peer().hear(), MessageType::kPiece);
  memory.close();
  replica.peer().link().queue(MessageType::kTaken, std::span<const std::byte>());
  (void)replica.peer().link().flush();
  std::optional<MessageType> said = replica.peer().hear();
  while (said == MessageType::kPiece) said = replica.peer().hear();
  EXPECT_EQ(said, MessageType::kChunk);
}

}  // namespace
}  // namespace sparcl::replication
