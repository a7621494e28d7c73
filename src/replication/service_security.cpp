#include "src/replication/service_security.hpp"

#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "src/base/settings.hpp"

namespace sparcl::replication {
namespace {

// The keys of the roles that may connect to a publisher, by their names.
using RoleKeys = std::map<std::string, std::pair<trust::Role, trust::RoleSecret>, std::less<>>;

Result<RoleKeys> role_keys(const trust::RoleSecret& secret) {
  RoleKeys keys;
  for (const trust::Role role : {trust::Role::kObserve, trust::Role::kReplicate}) {
    SPARCL_ASSIGN_OR_RETURN(trust::RoleSecret of_role, secret.for_role(role));
    SPARCL_ASSIGN_OR_RETURN(std::string identity, of_role.tls_identity());
    keys.emplace(std::move(identity), std::pair(role, std::move(of_role)));
  }
  return keys;
}

}  // namespace

std::string secret_setting() {
  std::string path = setting("SECRET").text;
  return path == "none" ? std::string() : path;
}

Result<ServerSecurity> load_server_security(const std::string& secret_path) {
  ServerSecurity made;
  if (secret_path.empty()) return made;
  SPARCL_ASSIGN_OR_RETURN(const trust::RoleSecret secret, trust::RoleSecret::load(secret_path));
  Result<trust::SigningKey> key = secret.signing_key();
  if (!key.ok()) return key.status().with_prefix(secret_path + ": ");
  made.key = std::make_shared<const trust::SigningKey>(std::move(*key));
  SPARCL_ASSIGN_OR_RETURN(RoleKeys keys, role_keys(secret));
  const auto find_key =
      [known = std::make_shared<const RoleKeys>(std::move(keys))](std::string_view identity) {
        std::optional<net::TlsEndpoint::KnownKey> found;
        const auto entry = known->find(identity);
        if (entry == known->end()) return found;
        const auto& [role, of_role] = entry->second;
        Result<trust::SecretBytes> tls_key = of_role.tls_key();
        if (tls_key.ok()) found.emplace(std::move(*tls_key), static_cast<int>(role));
        return found;
      };
  SPARCL_ASSIGN_OR_RETURN(made.tls, net::TlsEndpoint::server(find_key));
  return made;
}

std::function<SessionProof(std::span<const std::byte> exporter)> prover(
    std::shared_ptr<const trust::SigningKey> key) {
  return [key = std::move(key)](std::span<const std::byte> exporter) {
    return SessionProof{key->public_key(), key->sign(signed_session(exporter))};
  };
}

Result<std::optional<trust::TrustedKeys>> load_trust(const std::string& trust_path,
                                                     const ClientSecurity& security) {
  std::optional<trust::TrustedKeys> trusted;
  if (!trust_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(trusted, trust::TrustedKeys::load(trust_path));
  } else if (security.publisher_key) {
    trusted = trust::TrustedKeys::of_secret(*security.publisher_key, security.secret_path);
  }
  return trusted;
}

Result<ClientSecurity> load_client_security(const std::string& secret_path, trust::Role role) {
  ClientSecurity made;
  if (secret_path.empty()) return made;
  SPARCL_ASSIGN_OR_RETURN(const trust::RoleSecret secret, trust::RoleSecret::load(secret_path));
  Result<trust::RoleSecret> of_role = secret.for_role(role);
  if (!of_role.ok()) return of_role.status().with_prefix(secret_path + ": ");
  SPARCL_ASSIGN_OR_RETURN(std::string identity, of_role->tls_identity());
  SPARCL_ASSIGN_OR_RETURN(trust::SecretBytes key, of_role->tls_key());
  SPARCL_ASSIGN_OR_RETURN(made.tls, net::TlsEndpoint::client(std::move(identity), std::move(key)));
  made.publisher_key = secret.publisher_key();
  made.secret_path = secret_path;
  return made;
}

}  // namespace sparcl::replication
