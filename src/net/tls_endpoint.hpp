#pragma once
// One side of TLS 1.3 (RFC 8446), by OpenSSL: the keys that it accepts or offers. A pre-shared key
// is always combined with a new Diffie-Hellman exchange (psk_dhe_ke): a key that is stolen later
// opens no recorded connection.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/status.hpp"
#include "src/trust/secret_bytes.hpp"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace sparcl::net {

class TlsEndpoint;
using TlsEndpointRef = std::shared_ptr<const TlsEndpoint>;

class TlsEndpoint {
 public:
  struct KnownKey {
    trust::SecretBytes key;
    int tag;  // by which the server knows the client, at least 0
  };
  // The key with this name; nothing: there is none. Called from the thread that uses the
  // connection.
  using FindKey = std::function<std::optional<KnownKey>(std::string_view identity)>;

  static Result<TlsEndpointRef> server(FindKey find_key);
  // Offers one key, and accepts a server that has it.
  static Result<TlsEndpointRef> client(std::string identity, trust::SecretBytes key);

  ~TlsEndpoint();
  TlsEndpoint(const TlsEndpoint&) = delete;
  TlsEndpoint& operator=(const TlsEndpoint&) = delete;

  bool is_server() const { return is_server_; }
  ssl_ctx_st* context() const { return context_; }

 private:
  friend struct TlsCallbacks;
  explicit TlsEndpoint(bool is_server) : is_server_(is_server) {}
  Status begin();

  bool is_server_;
  ssl_ctx_st* context_ = nullptr;
  FindKey find_key_;                       // server
  std::string identity_;                   // client
  std::optional<trust::SecretBytes> key_;  // client
};

// The last error of OpenSSL in this thread, whose queue is emptied.
std::string tls_error_text();

}  // namespace sparcl::net
