#include "src/replication/message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "src/replication/fields.hpp"

namespace sparcl::replication {
namespace {

constexpr std::uint32_t kMagic = 0x31505253;  // "SRP1"

// So that a signature of a description is none of a commit, nor of anything else.
constexpr std::string_view kModelContext = "sparcl model 1\n";

// Of another version of the protocol the number alone: the answer names both.
template <class Message>
std::optional<Message> of_another_version(std::span<const std::byte> bytes) {
  Message message;
  if (!ByteReader(bytes).read(message.protocol) || message.protocol == kProtocolVersion) return {};
  return message;
}

// The fields must be all there is.
template <class Message, class Read>
Result<Message> parse(std::span<const std::byte> bytes, const char* what, Read&& read) {
  ByteReader reader(bytes);
  Message message;
  if (read(reader, message) && reader.remaining() == 0) return message;
  return Status(Code::kCorrupt, fmt::format("{} of {} bytes is none", what, bytes.size()));
}

void write_name(ByteWriter& out, const UpdateName& name) {
  out.write(name.base_version);
  out.write(name.version);
}

bool read_name(ByteReader& bytes, UpdateName& name) {
  return bytes.read(name.base_version) && bytes.read(name.version);
}

void write_held(ByteWriter& out, const HeldVersion& held) {
  out.write(held.version);
  write_hash(out, held.hash);
}

bool read_held(ByteReader& bytes, HeldVersion& held) {
  return bytes.read(held.version) && read_hash(bytes, held.hash);
}

// All that is left are `entries`, as many as there is room for.
template <class Entry>
bool read_rest(ByteReader& bytes, std::vector<Entry>& entries, bool (*read)(ByteReader&, Entry&)) {
  entries.resize(bytes.remaining() / sizeof(Entry));
  return std::ranges::all_of(entries, [&](Entry& each) { return read(bytes, each); });
}

void write_signature(ByteWriter& out, const std::optional<CommitSignature>& signature) {
  write_flag(out, signature.has_value());
  if (!signature) return;
  out.write_bytes(signature->key);
  out.write_bytes(signature->signature);
}

bool read_signature(ByteReader& bytes, std::optional<CommitSignature>& signature) {
  bool is_signed = false;
  if (!read_flag(bytes, is_signed)) return false;
  if (!is_signed) return true;
  signature.emplace();
  return read_array(bytes, signature->key) && read_array(bytes, signature->signature);
}

void write_offer(ByteWriter& out, const Offer& offer) {
  out.write_bytes(serialise(offer.commit));
  write_signature(out, offer.signature);
}

bool read_offer(ByteReader& bytes, Offer& offer) {
  return read_commit(bytes, offer.commit) && read_signature(bytes, offer.signature);
}

void write_latest(ByteWriter& out, const LatestHeld& latest) {
  out.write(latest.epoch);
  out.write(latest.version);
  write_flag(out, latest.proof.has_value());
  if (latest.proof) write_offer(out, *latest.proof);
}

bool read_latest(ByteReader& bytes, LatestHeld& latest) {
  bool has_proof = false;
  if (!bytes.read(latest.epoch) || !bytes.read(latest.version) || !read_flag(bytes, has_proof))
    return false;
  return !has_proof || read_offer(bytes, latest.proof.emplace());
}

void write_model(ByteWriter& out, const ModelReply& model) {
  write_text(out, model.model_id);
  write_blob(out, model.schema);
  write_blob(out, model.description);
  out.write(model.epoch);
}

// So that a signature of an identity is none of anything else.
constexpr std::string_view kIdentityContext = "sparcl digest 1\n";
static_assert(kIdentityContext.size() == 16);

bool read_code(ByteReader& bytes, Code& code) {
  std::uint32_t number = 0;
  if (!bytes.read(number) || !is_code(static_cast<int>(number)) || number == 0) return false;
  code = static_cast<Code>(number);
  return true;
}

}  // namespace

double alive_period_s(double own_silence_s, std::uint32_t other_silence_ms) {
  constexpr double kPart = 0.2,
                   kLeast = 0.02;  // a message that is late by three periods does no harm
  return std::max(kPart * std::min(own_silence_s, other_silence_ms * 1e-3), kLeast);
}

std::size_t max_content_bytes(MessageType type) {
  switch (type) {
    case MessageType::kChunk:
      return kChunkHeadBytes + kMaxChunkBytes;
    case MessageType::kModelReply:
      return kMaxModelBytes;
    case MessageType::kSchema:
      return kMaxSchemaBytes;
    case MessageType::kDamage:
    case MessageType::kBlocks:
      return kMaxDamageBytes;
    case MessageType::kStatusReply:
      return kMaxReportBytes;
    default:
      return kMaxMessageBytes;
  }
}

std::array<std::byte, kHeadBytes> serialise(const MessageHead& head) {
  std::array<std::byte, kHeadBytes> bytes{};
  store_le(bytes.data(), kMagic);
  store_le(bytes.data() + 4, static_cast<std::uint32_t>(head.type));
  store_le(bytes.data() + 8, head.content_bytes);
  store_le(bytes.data() + 12, head.content_crc);
  store_le(bytes.data() + 16, crc32c(std::span(bytes).first(16)));
  return bytes;
}

Result<MessageHead> parse_head(std::span<const std::byte> bytes) {
  if (bytes.size() != kHeadBytes || load_le<std::uint32_t>(bytes.data()) != kMagic) {
    return Status(Code::kCorrupt, "what came is no message of sparcl's replication protocol");
  }
  if (load_le<std::uint32_t>(bytes.data() + 16) != crc32c(bytes.first(16))) {
    return Status(Code::kCorrupt, "the head of a message is damaged (CRC32C)");
  }
  const auto type = load_le<std::uint32_t>(bytes.data() + 4);
  if (type < static_cast<std::uint32_t>(MessageType::kHello) ||
      type > static_cast<std::uint32_t>(kLastMessageType)) {
    return Status(Code::kCorrupt,
                  fmt::format("a message of type {}, which protocol version {} does not have", type,
                              kProtocolVersion));
  }
  const MessageHead head{static_cast<MessageType>(type), load_le<std::uint32_t>(bytes.data() + 8),
                         load_le<std::uint32_t>(bytes.data() + 12)};
  if (head.content_bytes > max_content_bytes(head.type)) {
    return Status(Code::kCorrupt,
                  fmt::format("a message of type {} claims {} bytes, where at most {} are allowed",
                              type, head.content_bytes, max_content_bytes(head.type)));
  }
  return head;
}

std::vector<std::byte> serialise(const Hello& hello) {
  ByteWriter out;
  out.write(hello.protocol);
  write_text(out, hello.model_id);
  write_hash(out, hello.schema_hash);
  out.write(hello.wire_version);
  write_held(out, hello.held);
  write_held(out, hello.tip);
  out.write(hello.ahead);
  out.write(hello.silence_ms);
  out.write(hello.port);
  write_flag(out, hello.shares_memory);
  write_text(out, hello.name);
  out.write(hello.pin);
  write_flag(out, hello.damaged);
  write_flag(out, hello.held_is_vouched);
  write_flag(out, hello.tip_is_vouched);
  write_flag(out, hello.holds_copy);
  write_latest(out, hello.latest);
  out.write_bytes(hello.receipt);
  return out.take();
}

Result<Hello> parse_hello(std::span<const std::byte> bytes) {
  if (std::optional<Hello> other = of_another_version<Hello>(bytes)) return *std::move(other);
  return parse<Hello>(bytes, "a hello", [](ByteReader& in, Hello& hello) {
    return in.read(hello.protocol) && read_text(in, hello.model_id) &&
           read_hash(in, hello.schema_hash) && in.read(hello.wire_version) &&
           read_held(in, hello.held) && read_held(in, hello.tip) && in.read(hello.ahead) &&
           in.read(hello.silence_ms) && in.read(hello.port) && read_flag(in, hello.shares_memory) &&
           read_text(in, hello.name) && in.read(hello.pin) && read_flag(in, hello.damaged) &&
           read_flag(in, hello.held_is_vouched) && read_flag(in, hello.tip_is_vouched) &&
           read_flag(in, hello.holds_copy) && read_latest(in, hello.latest) &&
           read_array(in, hello.receipt);
  });
}

std::vector<std::byte> serialise(const Welcome& welcome) {
  ByteWriter out;
  out.write(welcome.protocol);
  write_text(out, welcome.model_id);
  out.write(welcome.epoch);
  out.write(welcome.newest);
  out.write(welcome.silence_ms);
  write_text(out, welcome.name);
  write_flag(out, welcome.memory.has_value());
  if (welcome.memory) {
    out.write(welcome.memory->pid);
    out.write(welcome.memory->descriptor);
    out.write_bytes(welcome.memory->token);
  }
  out.write_bytes(welcome.receipt);
  return out.take();
}

Result<Welcome> parse_welcome(std::span<const std::byte> bytes) {
  if (std::optional<Welcome> other = of_another_version<Welcome>(bytes)) return *std::move(other);
  return parse<Welcome>(bytes, "a welcome", [](ByteReader& in, Welcome& welcome) {
    bool has_memory = false;
    if (!in.read(welcome.protocol) || !read_text(in, welcome.model_id) || !in.read(welcome.epoch) ||
        !in.read(welcome.newest) || !in.read(welcome.silence_ms) || !read_text(in, welcome.name) ||
        !read_flag(in, has_memory))
      return false;
    if (has_memory) {
      MemoryInvitation& memory = welcome.memory.emplace();
      if (!in.read(memory.pid) || !in.read(memory.descriptor) || !read_array(in, memory.token))
        return false;
    }
    return read_array(in, welcome.receipt);
  });
}

std::vector<std::byte> serialise(const Refusal& refusal) {
  ByteWriter out;
  out.write(static_cast<std::uint32_t>(refusal.code));
  write_text(out, refusal.text);
  return out.take();
}

Result<Refusal> parse_refusal(std::span<const std::byte> bytes) {
  return parse<Refusal>(bytes, "a refusal", [](ByteReader& in, Refusal& refusal) {
    return read_code(in, refusal.code) && read_text(in, refusal.text);
  });
}

std::vector<std::byte> serialise(const Offer& offer) {
  ByteWriter out;
  write_offer(out, offer);
  return out.take();
}

Result<Offer> parse_offer(std::span<const std::byte> bytes) {
  return parse<Offer>(bytes, "an offer", read_offer);
}

std::vector<std::byte> serialise(const Request& request) {
  ByteWriter out;
  write_name(out, request.update);
  out.write(request.first_byte);
  write_flag(out, request.has_leaves);
  return out.take();
}

Result<Request> parse_request(std::span<const std::byte> bytes) {
  return parse<Request>(bytes, "a request", [](ByteReader& in, Request& request) {
    return read_name(in, request.update) && in.read(request.first_byte) &&
           read_flag(in, request.has_leaves);
  });
}

std::array<std::byte, kChunkHeadBytes> serialise(const ChunkHead& chunk) {
  std::array<std::byte, kChunkHeadBytes> bytes{};
  store_le(bytes.data(), chunk.version);
  store_le(bytes.data() + 8, chunk.first_byte);
  return bytes;
}

Result<ChunkHead> parse_chunk_head(std::span<const std::byte> bytes) {
  return parse<ChunkHead>(bytes, "the head of a chunk", [](ByteReader& in, ChunkHead& chunk) {
    return in.read(chunk.version) && in.read(chunk.first_byte);
  });
}

std::vector<std::byte> serialise(const Piece& piece) {
  ByteWriter out;
  out.write(piece.version);
  out.write(piece.first_byte);
  out.write(piece.bytes);
  out.write(piece.descriptor);
  return out.take();
}

Result<Piece> parse_piece(std::span<const std::byte> bytes) {
  return parse<Piece>(bytes, "a piece", [](ByteReader& in, Piece& piece) {
    return in.read(piece.version) && in.read(piece.first_byte) && in.read(piece.bytes) &&
           in.read(piece.descriptor) && piece.bytes > 0 && piece.bytes <= kMaxPieceBytes &&
           piece.descriptor >= 0;
  });
}

std::vector<std::byte> serialise(const CommitNote& note) {
  ByteWriter out;
  write_name(out, note.update);
  return out.take();
}

Result<CommitNote> parse_commit_note(std::span<const std::byte> bytes) {
  return parse<CommitNote>(bytes, "a commit", [](ByteReader& in, CommitNote& note) {
    return read_name(in, note.update);
  });
}

std::vector<std::byte> serialise(const Ack& ack) {
  ByteWriter out;
  out.write(static_cast<std::uint8_t>(ack.stage));
  write_held(out, ack.held);
  write_flag(out, ack.is_vouched);
  return out.take();
}

Result<Ack> parse_ack(std::span<const std::byte> bytes) {
  return parse<Ack>(bytes, "an acknowledgement", [](ByteReader& in, Ack& ack) {
    std::uint8_t stage = 0;
    if (!in.read(stage) || stage < 1 || stage > 2) return false;
    ack.stage = static_cast<AckStage>(stage);
    return read_held(in, ack.held) && read_flag(in, ack.is_vouched);
  });
}

std::vector<std::byte> serialise(const Nack& nack) {
  ByteWriter out;
  write_name(out, nack.update);
  out.write(static_cast<std::uint32_t>(nack.code));
  write_flag(out, nack.wants_anchor);
  write_text(out, nack.text);
  return out.take();
}

Result<Nack> parse_nack(std::span<const std::byte> bytes) {
  return parse<Nack>(bytes, "a refusal of an update", [](ByteReader& in, Nack& nack) {
    return read_name(in, nack.update) && read_code(in, nack.code) &&
           read_flag(in, nack.wants_anchor) && read_text(in, nack.text);
  });
}

std::vector<std::byte> serialise(const Alive& alive) {
  ByteWriter out;
  out.write(alive.version);
  return out.take();
}

Result<Alive> parse_alive(std::span<const std::byte> bytes) {
  return parse<Alive>(bytes, "a sign of life",
                      [](ByteReader& in, Alive& alive) { return in.read(alive.version); });
}

std::vector<std::byte> serialise(const Bye& bye) {
  ByteWriter out;
  write_flag(out, bye.begins_anew);
  return out.take();
}

Result<Bye> parse_bye(std::span<const std::byte> bytes) {
  if (bytes.empty()) return Bye();
  return parse<Bye>(bytes, "a goodbye",
                    [](ByteReader& in, Bye& bye) { return read_flag(in, bye.begins_anew); });
}

std::vector<std::byte> serialise(const Pin& pin) {
  ByteWriter out;
  out.write(pin.version);
  return out.take();
}

Result<Pin> parse_pin(std::span<const std::byte> bytes) {
  return parse<Pin>(bytes, "a pin", [](ByteReader& in, Pin& pin) { return in.read(pin.version); });
}

std::vector<std::byte> serialise(const ModelReply& model) {
  ByteWriter out;
  write_model(out, model);
  write_signature(out, model.signature);
  return out.take();
}

std::vector<std::byte> signed_text(const ModelReply& model) {
  ByteWriter out;
  out.write_bytes(std::as_bytes(std::span(kModelContext)));
  write_model(out, model);
  return out.take();
}

std::vector<std::byte> serialise(const LatestHeld& latest) {
  ByteWriter out;
  write_latest(out, latest);
  return out.take();
}

Result<LatestHeld> parse_model_query(std::span<const std::byte> bytes) {
  if (bytes.empty()) return LatestHeld();
  return parse<LatestHeld>(bytes, "a question for the model", read_latest);
}

Result<ModelReply> parse_model_reply(std::span<const std::byte> bytes) {
  return parse<ModelReply>(bytes, "the description of a model",
                           [](ByteReader& in, ModelReply& model) {
                             return read_text(in, model.model_id) && read_blob(in, model.schema) &&
                                    read_blob(in, model.description) && in.read(model.epoch) &&
                                    read_signature(in, model.signature);
                           });
}

std::vector<std::byte> serialise(const Parent& parent) {
  ByteWriter out;
  out.write(parent.number);
  write_flag(out, parent.address.has_value());
  if (parent.address) {
    write_ip(*parent.address, out);
    out.write(parent.address->port);
  }
  write_text(out, parent.name);
  return out.take();
}

Result<Parent> parse_parent(std::span<const std::byte> bytes) {
  return parse<Parent>(bytes, "a parent", [](ByteReader& in, Parent& parent) {
    bool is_replica = false;
    if (!in.read(parent.number) || !read_flag(in, is_replica)) return false;
    if (is_replica) {
      net::NetAddress& address = parent.address.emplace();
      if (!read_ip(in, address) || !in.read(address.port) || address.port == 0) return false;
    }
    return read_text(in, parent.name);
  });
}

std::vector<std::byte> serialise(const Leaves& leaves) {
  ByteWriter out;
  write_name(out, leaves.update);
  out.write(leaves.first);
  for (const Digest256& each : leaves.digests) out.write_bytes(each);
  return out.take();
}

// All the rest are digests.
Result<Leaves> parse_leaves(std::span<const std::byte> bytes) {
  return parse<Leaves>(bytes, "a list of leaves", [](ByteReader& in, Leaves& leaves) {
    if (!read_name(in, leaves.update) || !in.read(leaves.first)) return false;
    leaves.digests.resize(in.remaining() / sizeof(Digest256));
    return std::ranges::all_of(leaves.digests,
                               [&](Digest256& each) { return read_array(in, each); });
  });
}

std::vector<std::byte> signed_bytes(const Identity& identity) {
  ByteWriter out;
  out.write_bytes(std::as_bytes(std::span(kIdentityContext)));
  write_text(out, identity.model_id);
  out.write(identity.epoch);
  write_held(out, identity.version);
  write_hash(out, identity.schema_hash);
  out.write_bytes(identity.digest);
  return out.take();
}

std::vector<std::byte> serialise(const Identity& identity) {
  ByteWriter out;
  out.write_bytes(signed_bytes(identity));
  write_signature(out, identity.signature);
  return out.take();
}

Result<Identity> parse_identity(std::span<const std::byte> bytes) {
  return parse<Identity>(bytes, "an identity", [](ByteReader& in, Identity& identity) {
    std::span<const std::byte> context;
    if (!in.read_bytes(kIdentityContext.size(), context)) return false;
    if (!std::ranges::equal(context, std::as_bytes(std::span(kIdentityContext)))) return false;
    return read_text(in, identity.model_id) && in.read(identity.epoch) &&
           read_held(in, identity.version) && read_hash(in, identity.schema_hash) &&
           read_array(in, identity.digest) && read_signature(in, identity.signature);
  });
}

std::vector<std::byte> serialise(const Damage& damage) {
  ByteWriter out;
  write_held(out, damage.version);
  for (const Hash128& each : damage.block_hashes) write_hash(out, each);
  return out.take();
}

Result<Damage> parse_damage(std::span<const std::byte> bytes) {
  return parse<Damage>(bytes, "a list of damaged blocks", [](ByteReader& in, Damage& damage) {
    return read_held(in, damage.version) && read_rest(in, damage.block_hashes, read_hash);
  });
}

std::vector<std::byte> serialise(const BlockDigests& blocks) {
  ByteWriter out;
  write_held(out, blocks.version);
  for (const Digest256& each : blocks.of_blocks) out.write_bytes(each);
  return out.take();
}

Result<BlockDigests> parse_block_digests(std::span<const std::byte> bytes) {
  return parse<BlockDigests>(bytes, "a list of blocks", [](ByteReader& in, BlockDigests& blocks) {
    return read_held(in, blocks.version) &&
           read_rest(in, blocks.of_blocks, read_array<std::tuple_size_v<Digest256>>);
  });
}

std::vector<std::byte> serialise(const Orphan& orphan) {
  ByteWriter out;
  out.write(orphan.number);
  write_held(out, orphan.tip);
  out.write(orphan.ahead);
  out.write(static_cast<std::uint32_t>(orphan.code));
  write_text(out, orphan.text);
  write_flag(out, orphan.tip_is_vouched);
  return out.take();
}

Result<Orphan> parse_orphan(std::span<const std::byte> bytes) {
  return parse<Orphan>(bytes, "an orphan", [](ByteReader& in, Orphan& orphan) {
    std::uint32_t code = 0;
    if (!in.read(orphan.number) || !read_held(in, orphan.tip) || !in.read(orphan.ahead) ||
        !in.read(code))
      return false;
    if (!is_code(static_cast<int>(code))) return false;
    orphan.code = static_cast<Code>(code);
    return read_text(in, orphan.text) && read_flag(in, orphan.tip_is_vouched);
  });
}

}  // namespace sparcl::replication
