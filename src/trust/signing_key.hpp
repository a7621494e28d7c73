#pragma once
// What a publisher signs with: Ed25519 (RFC 8032), by libsodium. The files are those of
// docs/reference/keys.md.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "src/base/status.hpp"

namespace sparcl::trust {

using PublicKey = std::array<std::byte, 32>;
using Signature = std::array<std::byte, 64>;

// What people compare: the first 16 hex digits of the key's BLAKE2b-256 hash. It names a key in
// messages and decides nothing.
std::string fingerprint(const PublicKey& key);

// Whether it is one by this key over these bytes.
bool is_signature(const Signature& signature, std::span<const std::byte> message,
                  const PublicKey& key);

// "sparcl-ed25519 BASE64", without the end of the line: a line of a .pub file, and of a file of
// trusted keys.
std::string public_key_line(const PublicKey& key);

// The secret lies in memory that is locked where that is allowed, is left out of core dumps, and is
// zeroed when the key goes. Signing from several threads at once is fine.
class SigningKey {
 public:
  static Result<SigningKey> generate();

  // Refuses a file that others than its owner may read or write.
  static Result<SigningKey> load(const std::string& path);

  // `path`, with mode 0600, and the public key as `path`.pub: both, or neither. What is there is
  // never overwritten.
  Status save(const std::string& path) const;

  PublicKey public_key() const;

  // The same for the same bytes, always. The bytes say at their beginning what they are for: else a
  // signature can be used elsewhere.
  Signature sign(std::span<const std::byte> message) const;

 private:
  struct Secret;  // as libsodium has it: the seed, then the public key
  struct Free {
    void operator()(Secret* secret) const;
  };
  using Owner = std::unique_ptr<Secret, Free>;
  explicit SigningKey(Owner secret) : secret_(std::move(secret)) {}
  // An all-zero secret, for its maker to fill in.
  static Result<Owner> allocate();
  static SigningKey from_seed(Owner owner, std::span<const std::byte, 32> seed);

  Owner secret_;
};

}  // namespace sparcl::trust
