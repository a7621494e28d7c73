#pragma once
// The secrets of a service: one for each role, in a line of a file (docs/reference/keys.md).
//
//   secret of role publish ──► secret of role replicate ──► secret of role observe
//             └──► the publisher's Ed25519 key, whose public half is in the other two lines
//
// Each is derived from the one before it (HMAC-SHA256), so a holder can act in the weaker roles and
// in no stronger one.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"
#include "src/trust/secret_bytes.hpp"
#include "src/trust/signing_key.hpp"

namespace sparcl::trust {

// A role says what a peer may do. A later role may do what an earlier one may.
enum class Role : std::uint8_t {
  kObserve,    // ask for the status
  kReplicate,  // read the weights
  kPublish,    // be the publisher
};
std::string_view role_name(Role role);  // "observe"

struct KeyLine;
class NewKeyFile;

class RoleSecret {
 public:
  // A new secret of role publish.
  static Result<RoleSecret> generate();
  // Reads a file. Refuses one that other users may read or write. If a publisher's file has several
  // secrets, this is the first.
  static Result<RoleSecret> load(const std::string& path);
  // All secrets of a publisher's file, at most max_secrets.
  static Result<std::vector<RoleSecret>> load_all(const std::string& path, std::size_t max_secrets);

  Role role() const { return role_; }
  // Unauthorized for a role that this one does not include.
  Result<RoleSecret> for_role(Role role) const;

  // The key that signs the publisher's sessions and versions. Unauthorized unless the role is
  // publish.
  Result<SigningKey> signing_key() const;
  const PublicKey& publisher_key() const { return publisher_key_; }

  // The key for TLS (RFC 8446, external PSK), and the name under which it is offered. The name
  // shows which secret it is of, and nothing of that secret.
  Result<SecretBytes> tls_key() const;
  Result<std::string> tls_identity() const;

  // Role publish alone. Writes `path`, `path`.replicate and `path`.observe with mode 0600: all, or
  // none. Existing files are never overwritten.
  Status save(const std::string& path) const;

  // Replaces the file `path` by one with the secrets that `change` makes of its own, all of role
  // publish, the newest first. The files of the other roles get the newest. Each file is old or new
  // at any time. Answers with the new secrets.
  using Change = std::function<Result<std::vector<RoleSecret>>(std::vector<RoleSecret> before)>;
  static Result<std::vector<RoleSecret>> replace(const std::string& path, const Change& change);

 private:
  RoleSecret(Role role, SecretBytes secret, const PublicKey& publisher_key)
      : role_(role), secret_(std::move(secret)), publisher_key_(publisher_key) {}
  static Result<RoleSecret> of_publisher(SecretBytes secret);
  void add_line(std::string& text) const;
  static Result<NewKeyFile> new_file(const std::string& path, Role role,
                                     std::span<const RoleSecret> secrets);
  static Result<RoleSecret> of_line(const KeyLine& line, const std::string& path);

  Role role_;
  SecretBytes secret_;
  PublicKey publisher_key_;
};

}  // namespace sparcl::trust
