#include "src/trust/signing_keys.hpp"

#include <algorithm>
#include <utility>

namespace sparcl::trust {

Result<SigningKeysRef> SigningKeys::load(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(std::vector<SigningKey> keys, SigningKey::load_all(path, kMaxSignatures));
  return std::make_shared<const SigningKeys>(std::move(keys));
}

Signatures SigningKeys::sign(std::span<const std::byte> message) const {
  Signatures made;
  made.reserve(keys_.size());
  for (const SigningKey& key : keys_) made.push_back({key.public_key(), key.sign(message)});
  return made;
}

bool SigningKeys::has(const PublicKey& key) const {
  return std::ranges::any_of(keys_, [&](const SigningKey& own) { return own.public_key() == key; });
}

bool SigningKeys::made(const Signatures& signatures) const {
  return std::ranges::equal(signatures, keys_, [](const KeySignature& each, const SigningKey& own) {
    return each.key == own.public_key();
  });
}

}  // namespace sparcl::trust
