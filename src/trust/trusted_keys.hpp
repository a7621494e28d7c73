#pragma once
// The keys whose signatures a subscriber accepts.

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.hpp"
#include "src/trust/signing_key.hpp"

namespace sparcl::trust {

class TrustedKeys {
 public:
  // Reads lines as in .pub files, at least one; empty lines and lines that begin with # are
  // ignored. Unauthorized if the file is writable by all.
  static Result<TrustedKeys> load(const std::string& path);

  // The publisher's key of a secret (RoleSecret), whose file this is.
  static TrustedKeys of_secret(const PublicKey& key, const std::string& path);

  bool trusts(const PublicKey& key) const { return find(key) != nullptr; }
  std::size_t count() const { return trusted_.size(); }  // different keys

  // Unauthorized, with the key's fingerprint and the file, if the key is not trusted or the
  // signature does not match these bytes.
  Status verify(std::span<const std::byte> message, const PublicKey& key,
                const Signature& signature) const;

 private:
  struct Trusted {
    PublicKey key;
    std::size_t line;
  };
  explicit TrustedKeys(std::string path) : path_(std::move(path)) {}
  const Trusted* find(const PublicKey& key) const;

  std::string path_;
  bool is_of_secret_ = false;
  std::vector<Trusted> trusted_;
};

}  // namespace sparcl::trust
