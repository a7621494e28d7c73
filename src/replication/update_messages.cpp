// Messages about updates and the bytes of versions.

#include <algorithm>
#include <string_view>

#include "src/replication/message_fields.hpp"

namespace sparcl::replication {
namespace {

// All that is left are `entries`, as many as there is room for.
template <class Entry>
bool read_rest(ByteReader& bytes, std::vector<Entry>& entries, bool (*read)(ByteReader&, Entry&)) {
  entries.resize(bytes.remaining() / sizeof(Entry));
  return std::ranges::all_of(entries, [&](Entry& each) { return read(bytes, each); });
}

// So that a signature of an identity is none of anything else.
constexpr std::string_view kIdentityContext = "sparcl digest 1\n";
static_assert(kIdentityContext.size() == 16);
constexpr std::string_view kFreshContext = "sparcl fresh 1\n";  // likewise
constexpr std::string_view kSideContext = "sparcl side files 1\n";

// The bytes begin with what they are for.
bool read_context(ByteReader& in, std::string_view context) {
  std::span<const std::byte> bytes;
  return in.read_bytes(context.size(), bytes) &&
         std::ranges::equal(bytes, std::as_bytes(std::span(context)));
}

}  // namespace

std::vector<std::byte> serialise(const Offer& offer) {
  ByteWriter out;
  write_offer(out, offer);
  return out.take();
}

Result<Offer> parse_offer(std::span<const std::byte> bytes) {
  return parse_message<Offer>(bytes, "an offer", read_offer);
}

std::vector<std::byte> serialise(const Request& request) {
  ByteWriter out;
  write_name(out, request.update);
  out.write(request.first_byte);
  write_flag(out, request.has_leaves);
  return out.take();
}

Result<Request> parse_request(std::span<const std::byte> bytes) {
  return parse_message<Request>(bytes, "a request", [](ByteReader& in, Request& request) {
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
  return parse_message<ChunkHead>(bytes, "the head of a chunk",
                                  [](ByteReader& in, ChunkHead& chunk) {
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
  return parse_message<Piece>(bytes, "a piece", [](ByteReader& in, Piece& piece) {
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
  return parse_message<CommitNote>(bytes, "a commit", [](ByteReader& in, CommitNote& note) {
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
  return parse_message<Ack>(bytes, "an acknowledgement", [](ByteReader& in, Ack& ack) {
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
  return parse_message<Nack>(bytes, "a refusal of an update", [](ByteReader& in, Nack& nack) {
    return read_name(in, nack.update) && read_code(in, nack.code) &&
           read_flag(in, nack.wants_anchor) && read_text(in, nack.text);
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
  return parse_message<Leaves>(bytes, "a list of leaves", [](ByteReader& in, Leaves& leaves) {
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
  write_signatures(out, identity.signatures);
  out.write(identity.placement);
  return out.take();
}

Result<Identity> parse_identity(std::span<const std::byte> bytes) {
  return parse_message<Identity>(bytes, "an identity", [](ByteReader& in, Identity& identity) {
    return read_context(in, kIdentityContext) && read_text(in, identity.model_id) &&
           in.read(identity.epoch) && read_held(in, identity.version) &&
           read_hash(in, identity.schema_hash) && read_array(in, identity.digest) &&
           read_signatures(in, identity.signatures) && in.read(identity.placement);
  });
}

std::vector<std::byte> serialise(const Damage& damage) {
  ByteWriter out;
  write_held(out, damage.version);
  for (const Hash128& each : damage.block_hashes) write_hash(out, each);
  return out.take();
}

Result<Damage> parse_damage(std::span<const std::byte> bytes) {
  return parse_message<Damage>(
      bytes, "a list of damaged blocks", [](ByteReader& in, Damage& damage) {
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
  return parse_message<BlockDigests>(
      bytes, "a list of blocks", [](ByteReader& in, BlockDigests& blocks) {
        return read_held(in, blocks.version) &&
               read_rest(in, blocks.of_blocks, read_array<std::tuple_size_v<Digest256>>);
      });
}

// --- the newest version ---

std::vector<std::byte> signed_bytes(const Fresh& fresh) {
  ByteWriter out;
  out.write_bytes(std::as_bytes(std::span(kFreshContext)));
  write_text(out, fresh.model_id);
  out.write(fresh.epoch);
  write_held(out, fresh.newest);
  write_hash(out, fresh.schema_hash);
  out.write_bytes(fresh.challenge);
  return out.take();
}

std::vector<std::byte> serialise(const Fresh& fresh) {
  ByteWriter out;
  out.write_bytes(signed_bytes(fresh));
  write_signatures(out, fresh.signatures);
  return out.take();
}

Result<Fresh> parse_fresh(std::span<const std::byte> bytes) {
  return parse_message<Fresh>(
      bytes, "a word of the newest version", [](ByteReader& in, Fresh& fresh) {
        return read_context(in, kFreshContext) && read_text(in, fresh.model_id) &&
               in.read(fresh.epoch) && read_held(in, fresh.newest) &&
               read_hash(in, fresh.schema_hash) && read_array(in, fresh.challenge) &&
               read_signatures(in, fresh.signatures);
      });
}

Result<Challenge> parse_challenge(std::span<const std::byte> bytes) {
  return parse_message<Challenge>(bytes, "a challenge", [](ByteReader& in, Challenge& challenge) {
    return read_array(in, challenge);
  });
}

std::vector<std::byte> signed_bytes(const SideFileSet& set) {
  ByteWriter out;
  out.write_bytes(std::as_bytes(std::span(kSideContext)));
  write_text(out, set.model_id);
  out.write(set.epoch);
  out.write(set.since);
  out.write_bytes(set.digest);
  return out.take();
}

std::vector<std::byte> serialise(const SideFileSet& set) {
  ByteWriter out;
  out.write_bytes(signed_bytes(set));
  write_signatures(out, set.signatures);
  write_flag(out, set.files.has_value());
  if (set.files) model::serialise(*set.files, out);
  return out.take();
}

Result<SideFileSet> parse_side_file_set(std::span<const std::byte> bytes) {
  return parse_message<SideFileSet>(
      bytes, "a set of files beside shards", [](ByteReader& in, SideFileSet& set) {
        bool has_files = false;
        if (!read_context(in, kSideContext) || !read_text(in, set.model_id) ||
            !in.read(set.epoch) || !in.read(set.since) || !read_array(in, set.digest) ||
            !read_signatures(in, set.signatures) || !read_flag(in, has_files))
          return false;
        return !has_files || model::parse_side_files(in, set.files.emplace());
      });
}

Result<Digest256> parse_side_wanted(std::span<const std::byte> bytes) {
  return parse_message<Digest256>(
      bytes, "a word of side files",
      [](ByteReader& in, Digest256& digest) { return read_array(in, digest); });
}

}  // namespace sparcl::replication
