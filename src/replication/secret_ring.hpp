#pragma once
// The secrets that peers of a publisher may have: those of its file. The first is the newest. The
// others are still accepted, so that replicas can be given the new one without a restart.

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/net/tls_endpoint.hpp"
#include "src/replication/message.hpp"
#include "src/trust/role_secret.hpp"

namespace sparcl::replication {

// The tag of a peer's key (net::TlsEndpoint::KnownKey): the number of the secret, and the role.
struct PeerTag {
  int secret = 0;
  trust::Role role = trust::Role::kObserve;

  int value() const { return secret * 4 + static_cast<int>(role); }
  static PeerTag of(int value) { return {value / 4, static_cast<trust::Role>(value % 4)}; }
};

// For one thread.
class SecretRing {
 public:
  // The file has secrets of role publish. A peer may use the secret in any role: the branches of an
  // aggregator use role publish.
  static Result<std::shared_ptr<SecretRing>> load(const std::string& path);

  std::optional<net::TlsEndpoint::KnownKey> find(std::string_view identity) const;
  // The secret is still in the file.
  bool knows(PeerTag tag) const;
  // Signs the connection of a peer that has this secret.
  std::optional<SessionProof> prove(PeerTag tag, std::span<const std::byte> exporter) const;
  // The keys that sign versions: of all secrets.
  const trust::SigningKeysRef& keys() const { return keys_; }

  // Takes the secrets of `other`, which is of the same file. A secret that was there keeps its
  // number. True: some secret is gone.
  bool replace(SecretRing other);

 private:
  struct Peer {
    PeerTag tag;
    trust::RoleSecret secret;
  };
  SecretRing() = default;

  std::map<std::string, Peer, std::less<>> peers_;  // by the names of their keys
  std::vector<int> numbers_;                        // of the secrets, as keys_
  trust::SigningKeysRef keys_;
  int last_number_ = 0;
};

}  // namespace sparcl::replication
