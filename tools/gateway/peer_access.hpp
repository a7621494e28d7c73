#pragma once
// Which clients may use the port: those with a certificate of role replicate, as replicas of a
// publisher (docs/reference/certificates.md).

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "src/base/status.hpp"

namespace sparcl::gateway {

// path: folder with ca.crt, tls.crt and tls.key; they are read again when they change. "": no TLS.
Result<std::shared_ptr<grpc::ServerCredentials>> server_credentials(const std::string& path);

// Unauthorized: the client's certificate lacks the role. A server without TLS does not ask.
Status check_role(const grpc::ServerContextBase& context);

}  // namespace sparcl::gateway
