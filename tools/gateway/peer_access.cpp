#include "tools/gateway/peer_access.hpp"

#include <fmt/format.h>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <vector>

#include "src/net/certificate_folder.hpp"
#include "src/net/certificate_text.hpp"

namespace sparcl::gateway {
namespace {

constexpr unsigned kLookSeconds = 5;  // between two looks at the files
constexpr const char *kReplicate = "sparcl:replicate", *kPublish = "sparcl:publish";

bool has_role(const std::vector<std::string>& uris) {
  return std::ranges::any_of(
      uris, [](const std::string& uri) { return uri == kReplicate || uri == kPublish; });
}

}  // namespace

Result<std::shared_ptr<grpc::ServerCredentials>> server_credentials(const std::string& path) {
  if (path.empty()) return grpc::InsecureServerCredentials();
  const net::CertificateFolder folder(path);
  SPARCL_ASSIGN_OR_RETURN(const net::Certificates own, folder.load());
  if (!has_role(net::uris_of(own.chain.front().get())))
    return Status(Code::kUnauthorized,
                  fmt::format("{}: role replicate or publish is needed: its subjectAltName needs "
                              "URI:{}",
                              folder.chain_path(), kReplicate));
  namespace tls = grpc::experimental;
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      folder.key_path(), folder.chain_path(), folder.authorities_path(), kLookSeconds));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return tls::TlsServerCredentials(options);
}

Status check_role(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr || !peer->IsPeerAuthenticated()) return {};
  std::vector<std::string> uris;
  for (const grpc::string_ref& uri : peer->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME))
    uris.emplace_back(uri.data(), uri.size());
  if (has_role(uris)) return {};
  return Status(Code::kUnauthorized,
                fmt::format("the client's certificate has no role replicate: its subjectAltName "
                            "needs URI:{}",
                            kReplicate));
}

}  // namespace sparcl::gateway
