#pragma once
// How the two ends of a service's connections know each other: by the secrets of roles
// (role_secret.hpp), by certificates with roles, or not at all.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "src/base/files/file_stamp.hpp"
#include "src/base/repeated_messages.hpp"
#include "src/net/tls_endpoint.hpp"
#include "src/replication/secret_ring.hpp"
#include "src/trust/trusted_keys.hpp"

namespace sparcl::replication {

// Fills in the paths of SPARCL_SECRET and SPARCL_CERTIFICATES, if both are "". InvalidArgument:
// both are given.
Status take_credentials(std::string& secret_path, std::string& certificates_path);

// An error in the log, ever more rarely: a file that has changed cannot be used.
void warn_of_changed_file(RepeatedMessages& troubles, const Status& why, double now);

// A publisher's end. Without `tls` whoever reaches the port may do all that a replica may.
struct ServerSecurity {
  net::TlsEndpointRef tls;
  std::shared_ptr<SecretRing> secrets;  // of the file; nullptr: there is none
  FileStamp file{};
};
// The file has secrets of role publish, or the folder a certificate of that role. "" and "": no
// security.
Result<ServerSecurity> load_server_security(const std::string& secret_path,
                                            const std::string& certificates_path = {});

// The end of a replica or an observer. Without `tls` the other end may be anybody.
struct ClientSecurity {
  net::TlsEndpointRef tls;
  // Signs each connection. Nothing: the publisher's certificate proves it, or nothing does.
  std::optional<trust::PublicKey> publisher_key;
  FileStamp file{};  // of the secret
};
// The file has a secret of the role, or of one that includes it; or the folder has a certificate
// of such a role. "" and "": no security.
Result<ClientSecurity> load_client_security(const std::string& secret_path, trust::Role role,
                                            const std::string& certificates_path = {});

// Takes clients whose certificates have a role, whichever it is; own certificate alike.
Result<net::TlsEndpointRef> observers_server(const std::string& certificates_path);

// The keys whose signatures a replica wants: those of the file, else the publisher's of the secret,
// else none.
// threshold: so many of the file's keys must have signed.
Result<std::optional<trust::TrustedKeys>> load_trust(const std::string& trust_path,
                                                     std::size_t threshold,
                                                     const ClientSecurity& security);

}  // namespace sparcl::replication
