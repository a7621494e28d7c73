#include "src/replication/service_security.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/settings.hpp"

namespace sparcl::replication {
namespace {

constexpr std::string_view kRoleUri = "sparcl:";  // and the role's name

std::string path_setting(const char* name) {
  std::string path = setting(name).text;
  return path == "none" ? std::string() : path;
}

// The strongest role that URIs of a certificate name; nothing: none does.
std::optional<trust::Role> role_of_uris(std::span<const std::string> uris) {
  std::optional<trust::Role> found;
  for (const trust::Role role :
       {trust::Role::kObserve, trust::Role::kReplicate, trust::Role::kPublish}) {
    const std::string wanted = fmt::format("{}{}", kRoleUri, role_name(role));
    if (std::ranges::find(uris, wanted) != uris.end()) found = role;
  }
  return found;
}

// Takes certificates of this role, or of one that includes it.
net::TlsEndpoint::Judge at_least(trust::Role role) {
  return [role](std::span<const std::string> uris) -> Result<int> {
    const std::optional<trust::Role> found = role_of_uris(uris);
    if (found && *found >= role) return static_cast<int>(*found);
    const std::string has = found ? fmt::format("has role {}", role_name(*found)) : "has no role";
    return Status(Code::kUnauthorized,
                  fmt::format("{}, and role {} is needed: its subjectAltName needs URI:{}{}", has,
                              role_name(role), kRoleUri, role_name(role)));
  };
}

}  // namespace

Status take_credentials(std::string& secret_path, std::string& certificates_path) {
  const bool is_given = !secret_path.empty() || !certificates_path.empty();
  if (!is_given) {
    secret_path = path_setting("SECRET");
    certificates_path = path_setting("CERTIFICATES");
  }
  if (secret_path.empty() || certificates_path.empty()) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("{} and {}: a secret and certificates exclude each other: give "
                            "--secret or --certificates (options.secret_path or "
                            "options.certificates_path, SPARCL_SECRET or SPARCL_CERTIFICATES)",
                            secret_path, certificates_path));
}

void warn_of_changed_file(RepeatedMessages& troubles, const Status& why, double now) {
  const std::uint64_t times = troubles.count(why.message(), now);
  if (times == 0) return;
  log_error("replication: {}; the file has changed, and its content of before still counts{}",
            why.message(), times_text(times));
}

Result<net::TlsEndpointRef> observers_server(const std::string& certificates_path) {
  return net::TlsEndpoint::server(certificates_path, at_least(trust::Role::kObserve),
                                  at_least(trust::Role::kObserve));
}

Result<ServerSecurity> load_server_security(const std::string& secret_path,
                                            const std::string& certificates_path) {
  ServerSecurity made;
  if (!certificates_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(
        made.tls, net::TlsEndpoint::server(certificates_path, at_least(trust::Role::kPublish),
                                           at_least(trust::Role::kObserve)));
    return made;
  }
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

Result<ClientSecurity> load_client_security(const std::string& secret_path, trust::Role role,
                                            const std::string& certificates_path) {
  ClientSecurity made;
  if (!certificates_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(made.tls, net::TlsEndpoint::client(certificates_path, at_least(role),
                                                               at_least(trust::Role::kPublish)));
    return made;
  }
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
