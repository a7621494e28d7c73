#pragma once
// The secrets of a service: one for each role, in a line of a file (docs/reference/keys.md).
//
//   secret of role publish ──► secret of role replicate ──► secret of role observe
//             └──► the publisher's Ed25519 key, whose public half is in the other two lines
//
// Each is derived from the one before it (HMAC-SHA256), so a holder can act in the weaker roles and
// in no stronger one.

#include <cstdint>
#include <string>
#include <string_view>

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

class RoleSecret {
 public:
  // A new secret of role publish.
  static Result<RoleSecret> generate();
  // Reads a file of one line. Refuses a file that other users may read or write.
  static Result<RoleSecret> load(const std::string& path);

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

 private:
  RoleSecret(Role role, SecretBytes secret, const PublicKey& publisher_key)
      : role_(role), secret_(std::move(secret)), publisher_key_(publisher_key) {}
  static Result<RoleSecret> of_publisher(SecretBytes secret);

  Role role_;
  SecretBytes secret_;
  PublicKey publisher_key_;
};

}  // namespace sparcl::trust
