#pragma once
// The messages between a rank and the process that made the unique id, before and around the
// payloads. docs/reference/bootstrap.md has the layouts and what they protect.
//
//   rank                                root
//    │ hello: a nonce                     │
//    ├───────────────────────────────────►│
//    │        challenge: a nonce, proof   │  the root knows the secret
//    │◄───────────────────────────────────┤
//    │ records, each with a keyed hash    │  and so does the rank
//    │◄──────────────────────────────────►│
//
// The secret itself is never sent. Each connection hashes with a key made of the secret and both
// nonces, so nothing can be replayed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/status.hpp"
#include "src/net/bootstrap/unique_id.hpp"
#include "src/trust/keyed_hash.hpp"
#include "src/trust/sha256.hpp"

namespace sparcl::net {

using Nonce = std::array<std::byte, 16>;

constexpr std::size_t kHelloBytes = 24;
constexpr std::size_t kChallengeBytes = kHelloBytes + 32;
constexpr std::size_t kRecordHeaderBytes = 80;

std::array<std::byte, kHelloBytes> encode_hello(const Nonce& nonce);
// False: the bytes are of another protocol, or of another layout.
[[nodiscard]] bool decode_hello(std::span<const std::byte> bytes, Nonce& nonce);

enum class Side : std::uint8_t { kRank = 1, kRoot = 2 };
enum class RecordKind : std::uint8_t { kJoin = 1, kNote = 2, kTable = 3, kFailure = 4 };

struct RecordHeader {
  RecordKind kind = RecordKind::kNote;
  std::uint64_t bytes = 0;         // of the payload
  trust::Sha256::Digest digest{};  // of the payload
};

// One connection's key, and its hashes of headers. Both sides hold the same key.
class BootstrapSession {
 public:
  static Result<BootstrapSession> agree(const Secret& secret, const Nonce& of_rank,
                                        const Nonce& of_root);

  Result<std::array<std::byte, kChallengeBytes>> encode_challenge(const Nonce& of_root) const;
  // `from` names the writing side, and `sequence` counts the records of that side. A record can
  // therefore not be sent back, repeated or left out.
  Result<std::array<std::byte, kRecordHeaderBytes>> seal(Side from, std::uint32_t sequence,
                                                         const RecordHeader& header) const;
  // Unauthorized unless a holder of the secret wrote it: only then its length is meaningful.
  Result<RecordHeader> open(Side from, std::uint32_t sequence,
                            std::span<const std::byte> bytes) const;

 private:
  Result<trust::KeyedHash> proof() const;
  Result<trust::KeyedHash> hash_of(Side from, std::uint32_t sequence,
                                   std::span<const std::byte> head) const;

  trust::KeyedHash key_{};
  friend Result<BootstrapSession> check_challenge(const Secret&, const Nonce&,
                                                  std::span<const std::byte>);
};

// The rank's side of agree(). Unauthorized if the challenge was made without the secret.
Result<BootstrapSession> check_challenge(const Secret& secret, const Nonce& of_rank,
                                         std::span<const std::byte> challenge);

Result<trust::Sha256::Digest> digest_of(std::span<const std::byte> bytes);

}  // namespace sparcl::net
