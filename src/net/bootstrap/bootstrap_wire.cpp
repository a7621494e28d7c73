#include "src/net/bootstrap/bootstrap_wire.hpp"

#include <algorithm>

namespace sparcl::net {
namespace {

constexpr std::uint32_t kRecordMagic = 0x42637073;  // "spcB"
constexpr std::uint16_t kRecordVersion = 1;
constexpr std::size_t kHashedHeadBytes =
    kRecordHeaderBytes - 32;  // of a record's header, without its hash
constexpr std::string_view kKeyLabel = "sparcl bootstrap 1 key";
constexpr std::string_view kProofLabel = "sparcl bootstrap 1 root";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Status no_holder() {
  return Status(Code::kUnauthorized, "what answers does not know the id's secret");
}

}  // namespace

std::array<std::byte, kHelloBytes> encode_hello(const Nonce& nonce) {
  ByteWriter out;
  out.write(kRecordMagic);
  out.write(kRecordVersion);
  out.write(std::uint16_t{0});
  out.write_bytes(nonce);
  std::array<std::byte, kHelloBytes> bytes{};
  std::copy(out.bytes().begin(), out.bytes().end(), bytes.begin());
  return bytes;
}

bool decode_hello(std::span<const std::byte> bytes, Nonce& nonce) {
  ByteReader reader(bytes);
  std::uint32_t magic = 0;
  std::uint16_t version = 0, zero = 1;
  std::span<const std::byte> rest;
  if (!reader.read(magic) || !reader.read(version) || !reader.read(zero) ||
      !reader.read_bytes(nonce.size(), rest))
    return false;
  std::copy(rest.begin(), rest.end(), nonce.begin());
  return magic == kRecordMagic && version == kRecordVersion && zero == 0;
}

Result<BootstrapSession> BootstrapSession::agree(const Secret& secret, const Nonce& of_rank,
                                                 const Nonce& of_root) {
  ByteWriter text;
  text.write_bytes(bytes_of(kKeyLabel));
  text.write_bytes(of_rank);
  text.write_bytes(of_root);
  SPARCL_ASSIGN_OR_RETURN(trust::KeyedHash key, trust::keyed_hash(secret, text.bytes()));
  BootstrapSession session;
  session.key_ = key;
  return session;
}

Result<trust::KeyedHash> BootstrapSession::proof() const {
  return trust::keyed_hash(key_, bytes_of(kProofLabel));
}

Result<std::array<std::byte, kChallengeBytes>> BootstrapSession::encode_challenge(
    const Nonce& of_root) const {
  SPARCL_ASSIGN_OR_RETURN(const trust::KeyedHash hash, proof());
  std::array<std::byte, kChallengeBytes> bytes{};
  const std::array<std::byte, kHelloBytes> head = encode_hello(of_root);
  std::copy(hash.begin(), hash.end(), std::copy(head.begin(), head.end(), bytes.begin()));
  return bytes;
}

Result<BootstrapSession> check_challenge(const Secret& secret, const Nonce& of_rank,
                                         std::span<const std::byte> challenge) {
  Nonce of_root{};
  if (challenge.size() != kChallengeBytes || !decode_hello(challenge.first(kHelloBytes), of_root)) {
    return Status(Code::kUnauthorized,
                  "what answers is another program, or another version of this library");
  }
  Result<BootstrapSession> session = BootstrapSession::agree(secret, of_rank, of_root);
  if (!session.ok()) return session.status();
  SPARCL_ASSIGN_OR_RETURN(const trust::KeyedHash expected, session->proof());
  if (!trust::equal_in_constant_time(expected, challenge.subspan(kHelloBytes))) return no_holder();
  return session;
}

// The sequence and the side are in the hash, not in the header: both ends count them.
Result<trust::KeyedHash> BootstrapSession::hash_of(Side from, std::uint32_t sequence,
                                                   std::span<const std::byte> head) const {
  ByteWriter text;
  text.write(static_cast<std::uint8_t>(from));
  text.write(sequence);
  text.write_bytes(head);
  return trust::keyed_hash(key_, text.bytes());
}

Result<std::array<std::byte, kRecordHeaderBytes>> BootstrapSession::seal(
    Side from, std::uint32_t sequence, const RecordHeader& header) const {
  std::array<std::byte, kRecordHeaderBytes> bytes{};
  bytes[0] = static_cast<std::byte>(header.kind);
  store_le(bytes.data() + 8, header.bytes);
  const auto digest = std::as_bytes(std::span(header.digest));
  std::copy(digest.begin(), digest.end(), bytes.begin() + 16);
  SPARCL_ASSIGN_OR_RETURN(const trust::KeyedHash hash,
                          hash_of(from, sequence, std::span(bytes).first(kHashedHeadBytes)));
  std::copy(hash.begin(), hash.end(), bytes.begin() + kHashedHeadBytes);
  return bytes;
}

Result<RecordHeader> BootstrapSession::open(Side from, std::uint32_t sequence,
                                            std::span<const std::byte> bytes) const {
  if (bytes.size() != kRecordHeaderBytes) return no_holder();
  SPARCL_ASSIGN_OR_RETURN(const trust::KeyedHash expected,
                          hash_of(from, sequence, bytes.first(kHashedHeadBytes)));
  if (!trust::equal_in_constant_time(expected, bytes.subspan(kHashedHeadBytes))) return no_holder();
  RecordHeader header;
  header.kind =
      static_cast<RecordKind>(bytes[0]);  // unknown kinds are for the reader of records to refuse
  header.bytes = load_le<std::uint64_t>(bytes.data() + 8);
  const auto digest = bytes.subspan(16, header.digest.size());
  std::transform(digest.begin(), digest.end(), header.digest.begin(),
                 [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  return header;
}

Result<trust::Sha256::Digest> digest_of(std::span<const std::byte> bytes) {
  trust::Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

}  // namespace sparcl::net
