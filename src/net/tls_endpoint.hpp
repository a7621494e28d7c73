#pragma once
// One side of TLS 1.3 (RFC 8446), by OpenSSL: the keys that it accepts or offers, or the
// certificates. A pre-shared key is always combined with a new Diffie-Hellman exchange
// (psk_dhe_ke): a key that is stolen later opens no recorded connection.

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

// The other side of one connection, as an endpoint knows it.
struct TlsPeer {
  std::optional<int> tag;  // by which the endpoint knows it
  std::string refusal;     // why its certificate is refused; empty: it is not
};

class TlsEndpoint {
 public:
  struct KnownKey {
    trust::SecretBytes key;
    int tag;  // by which the server knows the client
  };
  // The key with this name; nothing: there is none. Called from the thread that uses the
  // connection.
  using FindKey = std::function<std::optional<KnownKey>(std::string_view identity)>;

  static Result<TlsEndpointRef> server(FindKey find_key);
  // Offers one key, and accepts a server that has it.
  static Result<TlsEndpointRef> client(std::string identity, trust::SecretBytes key);

  // The tag of a certificate with these URIs, or why it must not be used. Called from the threads
  // that use the connections.
  using Judge = std::function<Result<int>(std::span<const std::string> uris)>;
  // Both sides show certificates. own: of the process's own, in a folder (certificate_folder.hpp);
  // peer: of the other side's. look_again() reads files that have changed.
  static Result<TlsEndpointRef> server(const std::string& folder, Judge own, Judge peer);
  static Result<TlsEndpointRef> client(const std::string& folder, Judge own, Judge peer);

  ~TlsEndpoint();
  TlsEndpoint(const TlsEndpoint&) = delete;
  TlsEndpoint& operator=(const TlsEndpoint&) = delete;

  bool is_server() const { return is_server_; }
  bool has_certificates() const { return certificates_ != nullptr; }
  // Call it before a connection is made or accepted, from any thread, with no mutex that others
  // wait for: the file system may be slow. Reads certificates that have changed. If they cannot be
  // used, a warning is logged, and the old ones stay in use.
  void look_again() const;
  // For one connection. It touches no file. SSL_get_app_data() of it is a TlsPeer, or nullptr.
  std::shared_ptr<ssl_ctx_st> context() const;
  // Why one side refuses the other's certificate, by the last error of OpenSSL in this thread;
  // empty: the error is another one.
  std::string certificate_fault(const TlsPeer& peer) const;

 private:
  friend struct TlsCallbacks;
  struct Watched;  // certificates, and the state of their files

  explicit TlsEndpoint(bool is_server) : is_server_(is_server) {}
  Result<std::shared_ptr<ssl_ctx_st>> new_context() const;
  static Result<TlsEndpointRef> of_certificates(bool is_server, const std::string& folder,
                                                Judge own, Judge peer);
  Result<std::shared_ptr<ssl_ctx_st>> read_certificates() const;
  Status read_again() const;

  bool is_server_;
  std::shared_ptr<ssl_ctx_st> context_;    // of keys
  FindKey find_key_;                       // server
  std::string identity_;                   // client
  std::optional<trust::SecretBytes> key_;  // client
  std::shared_ptr<Watched> certificates_;
};

}  // namespace sparcl::net
