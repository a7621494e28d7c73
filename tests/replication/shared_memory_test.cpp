// Updates that reach replicas of the publisher's machine as memory, and what rogues make of it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/codec/wire.hpp"
#include "src/net/sealed_memory.hpp"
#include "tests/replication/rogue_support.hpp"

namespace sparcl::replication {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLarge = 3'000'000;  // elements: an anchor of more than one piece

template <class Options>
Options with_sharing(Options options, bool shares_memory) {
  options.shares_memory = shares_memory;
  return options;
}

Json replicas_of(const Publisher& publisher) { return Json::parse(publisher.status())["replicas"]; }

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
    const auto publisher = open_publisher(source, with_sharing(local_options(), !is_publisher));
    ASSERT_TRUE(publisher->publish(1).ok());
    const auto replica =
        open_replica(copy, publisher->address(), with_sharing(replica_options(), is_publisher));
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

// A file in memory that is named as a publisher's are.
net::Socket memory_of(std::size_t bytes, int seals, const char* name = "sparcl-sealed") {
  net::Socket file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.fd(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(file.fd(), F_ADD_SEALS, seals), 0);
  return file;
}

constexpr std::uint32_t kBytes = 1000;
constexpr int kSealed = F_SEAL_WRITE | F_SEAL_SHRINK;

// A publisher that invites to share memory, and offers an update that is none.
class RogueMemory {
 public:
  explicit RogueMemory(const SmallModel& copy) : replica_(open_replica(copy, port_.address())) {
    peer_.emplace(port_.accept(&hello_));
    EXPECT_TRUE(hello_.shares_memory);
    peer_->say(MessageType::kWelcome,
               Welcome{kProtocolVersion, "m", 1, 1, 5000, "rogue", invitation()});
    EXPECT_EQ(peer_->hear(), MessageType::kShares);
    Commit commit;
    commit.model_id = kModelId;
    commit.epoch = commit.version = 1;
    commit.is_anchor = true;
    commit.schema_hash = hello_.schema_hash;
    commit.target_hash = {1, 1};
    commit.stream_bytes = kBytes;
    peer_->say(MessageType::kOffer, Offer{commit, {}});
    EXPECT_EQ(peer_->hear(), MessageType::kRequest);
  }
  Subscriber& replica() { return *replica_; }
  void send(const Piece& piece) { peer_->say(MessageType::kPiece, piece); }
  void commit() { peer_->say(MessageType::kCommit, CommitNote{{0, 1}}); }
  bool is_refused() {
    for (int i = 0; i < 5; ++i) {
      if (peer_->hear() == MessageType::kNack) return true;
    }
    return false;
  }
  bool is_dropped() { return peer_->is_dropped(); }
  // It comes again.
  Hello next_hello() {
    Hello hello;
    const RawPeer again = port_.accept(&hello);
    return hello;
  }

 private:
  MemoryInvitation invitation() const { return {::getpid(), proof_.descriptor(), token_}; }

  MemoryToken token_{};
  net::SealedMemory proof_ = std::move(*net::SealedMemory::copy_of(token_));
  RawPublisher port_;
  std::unique_ptr<Subscriber> replica_;
  Hello hello_;
  std::optional<RawPeer> peer_;
};

// Nothing of it is applied, and the replica takes no memory after that.
void expect_refused(const char* what, const net::Socket& file, std::uint32_t bytes = kBytes) {
  SmallModel copy(1);
  const Hash128 before = copy.hash();
  RogueMemory rogue(copy);
  rogue.send({1, 0, bytes, file.fd()});
  EXPECT_TRUE(rogue.is_dropped()) << what;
  const Hello hello = rogue.next_hello();
  EXPECT_FALSE(hello.shares_memory) << what;
  EXPECT_EQ(hello.held.hash, before) << what;
}

TEST(SharedMemory, AReplicaTakesOnlyWhatNobodyCanChange) {
  expect_refused("not sealed", memory_of(kBytes, 0));
  expect_refused("may shrink", memory_of(kBytes, F_SEAL_WRITE));
  expect_refused("may be written through a mapping",
                 memory_of(kBytes, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK));
  expect_refused("too small", memory_of(kBytes - 1, kSealed));
  expect_refused("too large", memory_of(1UL << 40, kSealed));
  expect_refused("another's", memory_of(kBytes, kSealed, "another"));
  expect_refused("a device", net::Socket(::open("/dev/zero", O_RDONLY | O_CLOEXEC)));
  expect_refused("nothing", net::Socket(1'000'000));
}

TEST(SharedMemory, PiecesOutOfPlaceEndTheConnection) {
  for (const Piece& piece : {Piece{2, 0, kBytes, 0}, Piece{1, 500, kBytes, 0}, Piece{1, 0, 100, 0},
                             Piece{1, 0, kBytes + 1, 0}}) {
    SmallModel copy(1);
    RogueMemory rogue(copy);
    const net::Socket file = memory_of(piece.bytes, kSealed);
    rogue.send({piece.version, piece.first_byte, piece.bytes, file.fd()});
    EXPECT_TRUE(rogue.is_dropped());
    EXPECT_EQ(rogue.replica().next(0.1).status().code(), Code::kCorrupt);
  }
}

// Nobody can change them any more; but they lead to no version.
TEST(SharedMemory, SealedBytesThatAreNoUpdateAreRefused) {
  SmallModel copy(1);
  const Hash128 before = copy.hash();
  RogueMemory rogue(copy);
  const net::Socket file = memory_of(kBytes, kSealed);
  rogue.send({1, 0, kBytes, file.fd()});
  rogue.commit();
  EXPECT_TRUE(rogue.is_refused());
  EXPECT_EQ(rogue.replica().next(0.1).status().code(), Code::kCorrupt);
  EXPECT_EQ(copy.hash(), before);
}

// Another process of that number, or none; or one whose memory holds something else.
TEST(SharedMemory, WhoCannotReachItTakesBytesOverTheConnection) {
  MemoryToken token{};
  const net::SealedMemory proof = std::move(*net::SealedMemory::copy_of(token));
  token[0] = std::byte{1};
  for (const MemoryInvitation& invitation :
       {MemoryInvitation{::getpid(), proof.descriptor(), token}, MemoryInvitation{1, 1, {}},
        MemoryInvitation{-1, 3, {}}, MemoryInvitation{::getpid(), -1, {}}}) {
    SmallModel copy(1);
    RawPublisher publisher;
    const auto replica = open_replica(copy, publisher.address());
    Hello hello;
    RawPeer peer = publisher.accept(&hello);
    peer.say(MessageType::kWelcome,
             Welcome{kProtocolVersion, "m", 1, 1, 5000, "alone", invitation});
    Commit commit;
    commit.model_id = kModelId;
    commit.epoch = commit.version = 1;
    commit.schema_hash = hello.schema_hash;
    commit.base_hash = commit.target_hash = hello.held.hash;  // a label
    vouch(peer, copy.view(), 1);
    peer.say(MessageType::kOffer, Offer{commit, {}});
    ASSERT_EQ(peer.hear(), MessageType::kRequest);  // and not that it shares
    peer.say(MessageType::kCommit, CommitNote{{0, 1}});
    EXPECT_TRUE(replica->next(20).ok());
  }
}

TEST(SharedMemory, APieceWithoutAnInvitationEndsTheConnection) {
  SmallModel copy(1);
  RawPublisher publisher;
  const auto replica = open_replica(copy, publisher.address());
  RawPeer peer = publisher.accept();
  peer.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", 1, 1, 5000, "rogue", {}});
  const net::Socket file = memory_of(kBytes, kSealed);
  peer.say(MessageType::kPiece, Piece{1, 0, kBytes, file.fd()});
  EXPECT_TRUE(peer.is_dropped());
}

// --- to a publisher ---

class RawReplica {
 public:
  RawReplica(const Publisher& publisher, const SmallModel& model)
      : peer_(RawPeer::connect(publisher.address())) {
    const HeldVersion held{0, {7, 7}};
    peer_.say(MessageType::kHello,
              Hello{kProtocolVersion, "m", model.view().schema_hash, codec::kWireVersion, held,
                    held, 0, 5000, 0, true, "a test"});
    EXPECT_EQ(peer_.hear(), MessageType::kWelcome);
    const Result<Welcome> welcome = parse_welcome(peer_.link().content());
    EXPECT_TRUE(welcome.ok() && welcome->memory);
  }
  RawPeer& peer() { return peer_; }
  void share() { say(MessageType::kShares); }
  void take() { say(MessageType::kTaken); }
  // Asks for the update that is offered; its bytes.
  std::uint64_t ask() {
    EXPECT_EQ(peer_.hear(), MessageType::kOffer);
    const Offer offer = *parse_offer(peer_.link().content());
    peer_.say(MessageType::kRequest, Request{{offer.commit.base_version, offer.commit.version}, 0});
    EXPECT_EQ(peer_.hear(), MessageType::kLeaves);
    return offer.commit.stream_bytes;
  }
  Piece hear_piece() {
    EXPECT_EQ(peer_.hear(), MessageType::kPiece);
    const Result<Piece> piece = parse_piece(peer_.link().content());
    return piece.ok() ? *piece : Piece{};
  }

 private:
  void say(MessageType type) {
    peer_.link().queue(type, std::span<const std::byte>());
    (void)peer_.link().flush();
  }
  RawPeer peer_;
};

TEST(SharedMemory, WhoTakesNothingIsSentFourPieces) {
  constexpr std::uint64_t kElements = 30'000'000;  // 60 MB: 15 pieces
  SmallModel source(0, kElements);
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  RawReplica replica(*publisher, source);
  replica.share();
  const std::uint64_t bytes = replica.ask();
  ASSERT_GT(bytes, 8 * kMaxPieceBytes);
  for (int i = 0; i < 4; ++i) {
    const Piece piece = replica.hear_piece();
    EXPECT_TRUE(net::SealedMemory::of_process(::getpid(), piece.descriptor, piece.bytes).ok());
  }
  EXPECT_EQ(replica.peer().hear(0.3), std::nullopt);
  replica.take();
  (void)replica.hear_piece();
  for (int i = 0; i < 100; ++i) replica.take();  // more than there are
  EXPECT_TRUE(replica.peer().is_dropped());
}

// What was copied stays in memory as long as who had it says: an update is copied twice at most.
TEST(SharedMemory, WhoComesAgainAndAgainGetsNoMoreMemory) {
  SmallModel source(0, kLarge);
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  int with_pieces = 0, with_chunks = 0;
  for (int i = 0; i < 5; ++i) {
    RawReplica replica(*publisher, source);
    replica.share();
    replica.ask();
    const std::optional<MessageType> said = replica.peer().hear();
    with_pieces += said == MessageType::kPiece ? 1 : 0;
    with_chunks += said == MessageType::kChunk ? 1 : 0;
    usleep(700'000);  // the piece is forgotten
  }
  EXPECT_EQ(with_pieces, 2);
  EXPECT_EQ(with_chunks, 3);
}

TEST(SharedMemory, WhoWasNotInvitedCannotShare) {
  SmallModel source;
  const auto publisher = open_publisher(source, with_sharing(local_options(), false));
  ASSERT_TRUE(publisher->publish(1).ok());
  RawPeer peer = RawPeer::connect(publisher->address());
  const HeldVersion held{0, {7, 7}};
  peer.say(MessageType::kHello, Hello{kProtocolVersion, "m", source.view().schema_hash,
                                      codec::kWireVersion, held, held, 0, 5000, 0, true, "a test"});
  EXPECT_EQ(peer.hear(), MessageType::kWelcome);
  peer.link().queue(MessageType::kShares, std::span<const std::byte>());
  (void)peer.link().flush();
  EXPECT_TRUE(peer.is_dropped());
}

}  // namespace
}  // namespace sparcl::replication
