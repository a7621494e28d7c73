#pragma once
// The keys whose signatures a subscriber accepts.

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.hpp"
#include "src/trust/signing_keys.hpp"

namespace sparcl::trust {

class TrustedKeys {
 public:
  // Reads lines as in .pub files, at least one; empty lines and lines that begin with # are
  // ignored. Unauthorized if the file is writable by all. threshold: so many of the keys must have
  // signed, at least 1.
  static Result<TrustedKeys> load(const std::string& path, std::size_t threshold = 1);
  // The same, also of a file without keys: then nothing is accepted.
  static Result<TrustedKeys> load_any(const std::string& path);

  // The publisher's key of a secret (RoleSecret), whose file this is.
  static TrustedKeys of_secret(const PublicKey& key, const std::string& path);

  struct Trusted {
    PublicKey key;
    std::size_t line;
    std::string comment{};
  };
  const std::vector<Trusted>& all() const { return trusted_; }
  // InvalidArgument: there are fewer keys than must sign, so that nothing is accepted.
  Status check_threshold() const;
  bool trusts(const PublicKey& key) const { return find(key) != nullptr; }
  bool trusts_any(const Signatures& signatures) const;
  std::size_t count() const { return trusted_.size(); }  // different keys

  // Unauthorized, with a key's fingerprint and the file, if a signature by a trusted key does not
  // match these bytes, or fewer trusted keys than the threshold have signed.
  Status verify(std::span<const std::byte> message, const Signatures& signatures) const;

 private:
  explicit TrustedKeys(std::string path) : path_(std::move(path)) {}
  const Trusted* find(const PublicKey& key) const;
  Status no_trusted_key(const PublicKey& key) const;

  std::string path_;
  bool is_of_secret_ = false;
  std::size_t threshold_ = 1;
  std::vector<Trusted> trusted_;
};

}  // namespace sparcl::trust
