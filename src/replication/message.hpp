#pragma once
// The messages between a publisher and its subscribers: the layouts of
// docs/reference/protocol.md. Bytes from the network are hostile.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/base/staging.hpp"
#include "src/base/status.hpp"
#include "src/model/side_file.hpp"
#include "src/net/net_address.hpp"
#include "src/replication/relay_ticket.hpp"
#include "src/replication/version_words.hpp"
#include "src/trust/signing_keys.hpp"

namespace sparcl::replication {

// Updates that a sender has under way before the first of them is acknowledged.
constexpr std::size_t kMaxUpdatesAhead = 2;
// The same up to the version of a PIN, if they are few bytes.
constexpr std::size_t kMaxUpdatesToPin = 200;

constexpr std::uint16_t kProtocolVersion = 10;
constexpr std::size_t kHeadBytes = 20;
constexpr std::size_t kMaxChunkBytes = kLeafBytes;             // of an update, in one message
constexpr std::size_t kMaxModelBytes = std::size_t{32} << 20;  // of a description of a model
constexpr std::size_t kMaxSchemaBytes = std::size_t{8} << 20;  // of what a replica holds
constexpr std::size_t kMaxDamageBytes = std::size_t{32}
                                        << 20;  // of what a damaged replica holds: 2 Mi blocks
constexpr std::size_t kMaxSideFilesMessage = std::size_t{64} << 20;  // of files beside shards
constexpr std::size_t kMaxReportBytes = std::size_t{1} << 20;        // of a status
constexpr std::size_t kMaxMessageBytes = std::size_t{64} << 10;  // of any other message's content
constexpr std::size_t kChunkHeadBytes = 16;
constexpr std::size_t kMaxLeavesAtOnce = 2000;  // in one LEAVES: 64,000 bytes

enum class MessageType : std::uint8_t {
  kHello = 1,    // subscriber: its identity and the version that it holds
  kWelcome = 2,  // publisher: its identity
  kRefusal = 3,  // either: why the connection ends
  kOffer = 4,    // publisher: an update, before its bytes
  kRequest = 5,  // subscriber: the offered update, from this byte on
  kChunk = 6,    // publisher: some of its bytes
  kCommit = 7,   // publisher: that was all; it may be applied
  kAck = 8,      // subscriber: a version is staged, or held
  kNack = 9,     // subscriber: the offered update is of no use to it, and why
  kAlive = 10,   // either: nothing else to say
  kBye = 11,     // either: leaves in good order
  kStatusQuery = 12,
  kStatusReply = 13,  // JSON
  kModelQuery =
      14,  // anyone, instead of a hello: what is published here? And what the asker held last
  kModelReply = 15,
  kParent = 16,  // publisher: take updates from another replica from now on, or from here again
  kOrphan = 17,  // subscriber: it takes them from the publisher again, and why
  kAnnounce =
      18,        // publisher: it has made this update, for a replica that takes it from another one
  kShares = 19,  // subscriber: it can reach the other side's memory
  kPiece = 20,   // publisher: some of its bytes, as memory that it has made
  kTaken = 21,   // subscriber: it has taken a piece
  kPin = 22,     // subscriber: where it will stop
  kSchemaWanted = 23,  // publisher: it does not know these tensors
  kSchema = 24,        // subscriber: what they are
  kDamage = 25,        // subscriber: what it holds, block by block
  kLeaves = 26,  // publisher: digests of each MiB of the update that is asked for, before its bytes
  kIdentity = 27,   // publisher: SHA-256 of a version that the subscriber may hold
  kBlocks = 28,     // subscriber: SHA-256 of each block of what it holds instead
  kProof = 29,      // publisher: signs the session, before anything else
  kChallenge = 30,  // subscriber: which version is the newest now?
  kFresh = 31,      // publisher: the signed answer
  // Between workers and aggregators (src/elastic/worker_messages.hpp).
  kEnroll = 32,        // worker: who it is
  kEnrolled = 33,      // aggregator: the worker takes part
  kContribution = 34,  // worker: a contribution, before its bytes
  kWanted = 35,        // aggregator: its bytes are wanted
  kFate = 36,          // aggregator: the state of a contribution
  kRest = 37,          // worker: it is not awaited until its next contribution
  // Between aggregators: a branch says what its workers do, its parent decides.
  kMember = 38,      // branch: a worker is there, or is not awaited any more
  kTurnedAway = 39,  // parent: a worker does not take part here, and why
  kGiven = 40,       // branch: a contribution has come, and stays here
  kVerdict = 41,     // parent: how a contribution counts
  kCollect = 42,     // parent: the sums of a round are wanted, or dropped
  kSubtree = 43,     // branch: one of these sums, before its bytes
  kCollected = 44,   // branch: all sums of the round have been sent
  kWithdrawn = 45,   // branch: a contribution is lost here: it is in no sum
  kNonce = 46,       // aggregator: what a worker signs
  kJoin = 47,        // worker: it takes part, and proves its keys
  // Between a publisher and a replica again.
  kSideWanted = 48,  // subscriber: it writes a folder; which files beside the shards it has
  kSideFiles = 49,   // publisher: the files beside the shards
};
constexpr MessageType kLastMessageType = MessageType::kSideFiles;

std::size_t max_content_bytes(MessageType type);

struct MessageHead {
  MessageType type = MessageType::kAlive;
  std::uint32_t content_bytes = 0;
  std::uint32_t content_crc = 0;
};

std::array<std::byte, kHeadBytes> serialise(const MessageHead& head);
// Corrupt: not of this protocol, damaged, or longer than its type may be.
Result<MessageHead> parse_head(std::span<const std::byte> bytes);

// How often to say something at least, so that neither side counts as silent.
double alive_period_s(double own_silence_s, std::uint32_t other_silence_ms);
inline std::uint32_t to_ms(double seconds) {
  return static_cast<std::uint32_t>(seconds < 4e6 ? seconds * 1e3 : 4e9);
}

// The latest version that a replica has applied, by epoch and number: it refuses older ones, and
// publishers begin after that epoch.
struct LatestHeld {
  std::uint64_t epoch = 0;  // 0: none yet
  std::uint64_t version = 0;
  std::optional<Offer> proof{};  // a signed commit of that epoch
};

// The publisher's signature of one encrypted connection: Ed25519 over signed_session().
struct SessionProof {
  trust::PublicKey key{};
  trust::Signature signature{};
};
// exporter: of the connection (RFC 8446, section 7.5).
std::vector<std::byte> signed_session(std::span<const std::byte> exporter);

// Random bytes, which the answer repeats: it was made later.
using Challenge = std::array<std::byte, 16>;

// The newest version at the time of a challenge.
struct Fresh {
  std::string model_id;
  std::uint64_t epoch = 0;
  HeldVersion newest;
  Hash128 schema_hash;  // of the tensors of that state
  Challenge challenge{};
  trust::Signatures signatures{};  // of signed_bytes(); empty: it is not signed
};

// The token that a session gets at its beginning. Named again after a broken connection, it shows
// that this is the same replica.
using Receipt = std::array<std::byte, 16>;  // zeros: none

struct Hello {
  std::uint16_t protocol = kProtocolVersion;
  std::string model_id;
  Hash128 schema_hash;
  std::uint32_t wire_version = 0;  // of the updates it can decode (docs/reference/wire-format.md)
  HeldVersion held;                // its own word, not proven
  HeldVersion tip;                 // what it will hold once it has applied what it was sent before
  std::uint8_t ahead = 0;          // updates between the two
  std::uint32_t silence_ms = 0;    // after which it gives the other side up; so of a welcome
  std::uint16_t port = 0;          // where replicas can take updates from it; 0: nowhere
  bool shares_memory = false;      // with others of its machine
  std::string name;                // "host h1, pid 4711"
  std::uint64_t pin = 0;           // as of a PIN
  bool damaged = false;            // what it holds is nearly a version: a DAMAGE comes next
  bool held_is_vouched = false;  // by the publisher: its own updates or SHA-256 led to what is held
  bool tip_is_vouched = false;
  bool holds_copy = false;  // of some version, but for damage: to be compared though no version has
                            // its state hash
  LatestHeld latest{};
  Receipt receipt{};         // of the last welcome
  bool gives_bytes = false;  // to others, all bytes of what it holds
  bool takes_bytes = false;  // to a publisher: it may be given them by a replica; to a replica: it
                             // was sent there for them
  bool only_told = false;    // of new versions: it is sent no bytes, as it gets them elsewhere
};

// To one that comes from the same machine: sealed memory that holds these bytes. A replica that can
// reach it gets updates as memory, too.
using MemoryToken = std::array<std::byte, 16>;
struct MemoryInvitation {
  std::int64_t pid = 0;
  std::int32_t descriptor = -1;
  MemoryToken token{};
};

struct Welcome {
  std::uint16_t protocol = kProtocolVersion;
  std::string model_id;
  std::uint64_t epoch = 0;
  std::uint64_t newest = 0;
  std::uint32_t silence_ms = 0;
  std::string name;
  std::optional<MemoryInvitation> memory;
  Receipt receipt{};
  // For a replica that passes updates on over encrypted connections (relay_ticket.hpp).
  std::optional<RelayKey> relay_key{};
};

struct Refusal {
  Code code = Code::kRemoteError;
  std::string text;
};

// A version by its bytes: the linear state hash does not tell chosen bytes apart.
struct Identity {
  std::string model_id;
  std::uint64_t epoch = 0;
  HeldVersion version;
  Hash128 schema_hash;
  Digest256 digest{};              // model::StateIdentity
  trust::Signatures signatures{};  // of signed_bytes(); empty: it is not signed
  std::uint32_t placement = 0;  // number of the PARENT that gives this version; 0: the replica may
                                // hold it already
};

// The digests of what a replica holds instead of the version of an IDENTITY: the blocks that differ
// can be sent alone.
struct BlockDigests {
  HeldVersion version;               // of the IDENTITY
  std::vector<Digest256> of_blocks;  // of each block of what it holds (model::StateIdentity)
};
constexpr std::size_t block_digests_bytes(std::uint64_t blocks) {
  return 24 + blocks * sizeof(Digest256);
}
constexpr std::size_t kMaxDigestedBlocks = (kMaxDamageBytes - 24) / sizeof(Digest256);

constexpr std::size_t kMaxPieceBytes = Staging::kSegmentBytes;  // of the memory
struct Piece {
  std::uint64_t version = 0;
  std::uint64_t first_byte = 0;
  std::uint32_t bytes = 0;       // of the memory
  std::int32_t descriptor = -1;  // of the process that said welcome
};

struct CommitNote {
  UpdateName update;
};

struct Alive {
  std::uint64_t version = 0;  // publisher: the newest; subscriber: the held one
};

struct Bye {
  bool begins_anew = false;  // what it has said of what it holds counts no more: it comes back, if
                             // it comes, with a hello
};

struct Pin {
  std::uint64_t version = 0;  // it applies none beyond this one; 0: all
};

struct Parent {
  std::uint32_t number = 0;                // of these messages, to this replica
  std::optional<net::NetAddress> address;  // nothing: the publisher
  std::string name;
  std::optional<RelayTicket> ticket{};  // for an encrypted connection to it
  bool gives_bytes = false;             // it makes all bytes of what it holds for this replica
};

struct Orphan {
  std::uint32_t number = 0;  // of the PARENT that it obeyed
  HeldVersion tip;
  std::uint8_t ahead = 0;
  Code code = Code::kSuccess;  // why; success: it was called back
  std::string text;
  bool tip_is_vouched = false;
};

// The block hashes of a replica whose memory was damaged: the blocks that differ from a version can
// be sent alone.
struct Damage {
  HeldVersion version;  // that it held before
  std::vector<Hash128>
      block_hashes;  // of what it holds now, of each block at its place (codec::add_block_hashes)
};
constexpr std::size_t damage_bytes(std::uint64_t blocks) { return 24 + blocks * sizeof(Hash128); }
constexpr std::size_t kMaxDamagedBlocks = (kMaxDamageBytes - 24) / sizeof(Hash128);

// The description of what is published, for a program that has no tensors yet.
struct ModelReply {
  std::string model_id;
  std::vector<std::byte> schema;  // as model::serialise() writes it
  std::vector<std::byte>
      description;          // the publisher's user's: how these tensors lie in files; may be empty
  std::uint64_t epoch = 0;  // of the publisher that says so
  trust::Signatures signatures{};  // of signed_text() of it; empty: it is not signed
};

// The files beside the shards of the newest version's folder, as a set.
struct SideFileSet {
  std::string model_id;
  std::uint64_t epoch = 0;
  std::uint64_t since = 0;         // the version with which they came; 0: none were given
  Digest256 digest{};              // model::digest_of() of all files
  trust::Signatures signatures{};  // of signed_bytes(); empty: it is not signed
  // Nothing: the replica has said that it has them.
  std::optional<std::vector<model::PackedFile>> files{};
};

std::vector<std::byte> serialise(const Hello& hello);
std::vector<std::byte> serialise(const SessionProof& proof);
std::vector<std::byte> serialise(const Welcome& welcome);
std::vector<std::byte> serialise(const Refusal& refusal);
std::vector<std::byte> serialise(const Offer& offer);
std::vector<std::byte> serialise(const Request& request);
std::array<std::byte, kChunkHeadBytes> serialise(const ChunkHead& chunk);
std::vector<std::byte> serialise(const Piece& piece);
std::vector<std::byte> serialise(const CommitNote& note);
std::vector<std::byte> serialise(const Ack& ack);
std::vector<std::byte> serialise(const Nack& nack);
std::vector<std::byte> serialise(const Alive& alive);
std::vector<std::byte> serialise(const Bye& bye);
std::vector<std::byte> serialise(const Pin& pin);
std::vector<std::byte> serialise(const ModelReply& model);
std::vector<std::byte> signed_text(
    const ModelReply& model);  // what a publisher's key signs: all but the signature
std::vector<std::byte> serialise(const LatestHeld& latest);  // the content of a MODEL_QUERY
std::vector<std::byte> serialise(const Parent& parent);
std::vector<std::byte> serialise(const Orphan& orphan);
std::vector<std::byte> serialise(const Leaves& leaves);
std::vector<std::byte> signed_bytes(const Identity& identity);  // they begin with what they are for
std::vector<std::byte> signed_bytes(const Fresh& fresh);        // so do these
std::vector<std::byte> serialise(const Fresh& fresh);
std::vector<std::byte> serialise(const Identity& identity);
std::vector<std::byte> serialise(const Damage& damage);
std::vector<std::byte> serialise(const BlockDigests& blocks);
std::vector<std::byte> signed_bytes(const SideFileSet& set);  // they begin with what they are for
std::vector<std::byte> serialise(const SideFileSet& set);

Status out_of_place(MessageType type);  // Corrupt

// Each an error (Corrupt) unless the bytes are a whole message of this type and nothing else. If a
// hello or a welcome has another protocol version, only `protocol` is read.
Result<Hello> parse_hello(std::span<const std::byte> bytes);
Result<SessionProof> parse_session_proof(std::span<const std::byte> bytes);
Result<Welcome> parse_welcome(std::span<const std::byte> bytes);
Result<Refusal> parse_refusal(std::span<const std::byte> bytes);
Result<Offer> parse_offer(std::span<const std::byte> bytes);
Result<Request> parse_request(std::span<const std::byte> bytes);
Result<ChunkHead> parse_chunk_head(std::span<const std::byte> bytes);
Result<Piece> parse_piece(std::span<const std::byte> bytes);
Result<CommitNote> parse_commit_note(std::span<const std::byte> bytes);
Result<Ack> parse_ack(std::span<const std::byte> bytes);
Result<Nack> parse_nack(std::span<const std::byte> bytes);
Result<Alive> parse_alive(std::span<const std::byte> bytes);
Result<Bye> parse_bye(std::span<const std::byte> bytes);
Result<Pin> parse_pin(std::span<const std::byte> bytes);
Result<ModelReply> parse_model_reply(std::span<const std::byte> bytes);
Result<LatestHeld> parse_model_query(std::span<const std::byte> bytes);
Result<Parent> parse_parent(std::span<const std::byte> bytes);
Result<Orphan> parse_orphan(std::span<const std::byte> bytes);
Result<Leaves> parse_leaves(std::span<const std::byte> bytes);
Result<Identity> parse_identity(std::span<const std::byte> bytes);
Result<Challenge> parse_challenge(std::span<const std::byte> bytes);
Result<Fresh> parse_fresh(std::span<const std::byte> bytes);
Result<Damage> parse_damage(std::span<const std::byte> bytes);
Result<BlockDigests> parse_block_digests(std::span<const std::byte> bytes);
Result<Digest256> parse_side_wanted(std::span<const std::byte> bytes);
Result<SideFileSet> parse_side_file_set(std::span<const std::byte> bytes);

}  // namespace sparcl::replication
