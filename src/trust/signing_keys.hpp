#pragma once
// The signatures of one text, by one key or by several: while a key is replaced, or if replicas
// want more than one signature.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/trust/signing_key.hpp"

namespace sparcl::trust {

constexpr std::size_t kMaxSignatures = 8;  // of one text; so many keys a file has

struct KeySignature {
  PublicKey key{};        // Ed25519, RFC 8032
  Signature signature{};  // by this key
  friend bool operator==(const KeySignature&, const KeySignature&) = default;
};
using Signatures = std::vector<KeySignature>;

class SigningKeys {
 public:
  // Reads one key a line, at most kMaxSignatures. Refuses a file that other users may read or
  // write.
  static Result<std::shared_ptr<const SigningKeys>> load(const std::string& path);
  explicit SigningKeys(std::vector<SigningKey> keys) : keys_(std::move(keys)) {}

  // By each key. The bytes must say at their beginning what they are for.
  Signatures sign(std::span<const std::byte> message) const;
  bool has(const PublicKey& key) const;
  // They are by these keys, in this order.
  bool made(const Signatures& signatures) const;
  const SigningKey& first() const { return keys_.front(); }
  const std::vector<SigningKey>& all() const { return keys_; }

 private:
  std::vector<SigningKey> keys_;  // at least one
};
using SigningKeysRef = std::shared_ptr<const SigningKeys>;

}  // namespace sparcl::trust
