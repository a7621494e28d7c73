#include "src/replication/service_security.hpp"

#include <string_view>
#include <utility>

#include "src/base/settings.hpp"

namespace sparcl::replication {
std::string secret_setting() {
  std::string path = setting("SECRET").text;
  return path == "none" ? std::string() : path;
}

Result<ServerSecurity> load_server_security(const std::string& secret_path) {
  ServerSecurity made;
  if (secret_path.empty()) return made;
  made.file = FileStamp(secret_path);  // before it is read: no change is missed
  SPARCL_ASSIGN_OR_RETURN(made.secrets, SecretRing::load(secret_path));
  SPARCL_ASSIGN_OR_RETURN(
      made.tls, net::TlsEndpoint::server([ring = made.secrets](std::string_view identity) {
        return ring->find(identity);
      }));
  return made;
}

Result<std::optional<trust::TrustedKeys>> load_trust(const std::string& trust_path,
                                                     std::size_t threshold,
                                                     const ClientSecurity& security) {
  std::optional<trust::TrustedKeys> trusted;
  if (!trust_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(trusted, trust::TrustedKeys::load(trust_path, threshold));
  } else if (security.publisher_key) {
    trusted = trust::TrustedKeys::of_secret(*security.publisher_key, security.file.path());
  }
  return trusted;
}

Result<ClientSecurity> load_client_security(const std::string& secret_path, trust::Role role) {
  ClientSecurity made;
  if (secret_path.empty()) return made;
  made.file = FileStamp(secret_path);
  SPARCL_ASSIGN_OR_RETURN(const trust::RoleSecret secret, trust::RoleSecret::load(secret_path));
  Result<trust::RoleSecret> of_role = secret.for_role(role);
  if (!of_role.ok()) return of_role.status().with_prefix(secret_path + ": ");
  SPARCL_ASSIGN_OR_RETURN(std::string identity, of_role->tls_identity());
  SPARCL_ASSIGN_OR_RETURN(trust::SecretBytes key, of_role->tls_key());
  SPARCL_ASSIGN_OR_RETURN(made.tls, net::TlsEndpoint::client(std::move(identity), std::move(key)));
  made.publisher_key = secret.publisher_key();
  return made;
}

}  // namespace sparcl::replication
