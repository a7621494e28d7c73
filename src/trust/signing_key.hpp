#pragma once
// The publisher's key for signatures: Ed25519 (RFC 8032), by libsodium. The files are those of
// docs/reference/keys.md.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::trust {

using PublicKey = std::array<std::byte, 32>;
using Signature = std::array<std::byte, 64>;

// For people to compare: the first 16 hex digits of the key's BLAKE2b-256 hash. It names a key in
// messages and decides nothing.
std::string fingerprint(const PublicKey& key);

// Whether the signature is by this key over these bytes.
bool is_signature(const Signature& signature, std::span<const std::byte> message,
                  const PublicKey& key);

// "sparcl-ed25519 BASE64", without the end of the line. The line goes into a .pub file and into
// files of trusted keys.
std::string public_key_line(const PublicKey& key);

// The secret lies in memory that is locked where that is allowed, and is left out of core dumps. It
// is zeroed on destruction. Several threads may sign at once.
class SigningKey {
 public:
  static Result<SigningKey> generate();
  static Result<SigningKey> from_seed(std::span<const std::byte, 32> seed);

  // Refuses a file that other users may read or write, and one of several keys.
  static Result<SigningKey> load(const std::string& path);
  // The same, of at most max_keys different keys, one a line.
  static Result<std::vector<SigningKey>> load_all(const std::string& path, std::size_t max_keys);

  // Writes `path`, with mode 0600, and the public key as `path`.pub: both, or neither. Existing
  // files are never overwritten.
  Status save(const std::string& path) const;

  PublicKey public_key() const;

  // The same bytes always give the same signature. The bytes must say at their beginning what they
  // are for, or a signature could be used elsewhere.
  Signature sign(std::span<const std::byte> message) const;

 private:
  struct Secret;  // as libsodium has it: the seed, then the public key
  struct Free {
    void operator()(Secret* secret) const;
  };
  using Owner = std::unique_ptr<Secret, Free>;
  explicit SigningKey(Owner secret) : secret_(std::move(secret)) {}
  // An all-zero secret, for the caller to fill in.
  static Result<Owner> allocate();
  static SigningKey from_seed(Owner owner, std::span<const std::byte, 32> seed);

  Owner secret_;
};

}  // namespace sparcl::trust
