#include "src/net/tls_endpoint.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <cstdint>
#include <new>
#include <utility>

namespace sparcl::net {
namespace {

// SHA-256 is the hash of all keys, so the suites must have it.
constexpr const char* kSuites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr std::array<unsigned char, 2> kKeySuite = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr const char* kGroups = "X25519:P-256";

Status no_tls(const char* step) {
  return Status(Code::kSystemError,
                fmt::format("TLS cannot be set up: {}: {}", step, tls_error_text()));
}

// An external key, as OpenSSL has it; nullptr: no memory.
SSL_SESSION* session_of(SSL* ssl, const trust::SecretBytes& key) {
  SSL_SESSION* session = SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.bytes().data());
  if (SSL_SESSION_set1_master_key(session, bytes, key.bytes().size()) == 1 &&
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kKeySuite.data())) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return nullptr;
}

}  // namespace

struct TlsCallbacks {
  static const TlsEndpoint& endpoint(const SSL* ssl) {
    return *static_cast<const TlsEndpoint*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  }

  // OpenSSL's: 1 without a session goes on without a key, and then finds no certificate.
  static int find_key(SSL* ssl, const unsigned char* identity, std::size_t bytes,
                      SSL_SESSION** out) try {
    *out = nullptr;
    const auto known = endpoint(ssl).find_key_({reinterpret_cast<const char*>(identity), bytes});
    if (!known) return 1;
    *out = session_of(ssl, known->key);
    SSL_set_app_data(ssl, reinterpret_cast<void*>(static_cast<std::intptr_t>(known->tag) + 1));
    return *out != nullptr ? 1 : 0;
  } catch (const std::bad_alloc&) {
    return 0;
  }

  static int offer_key(SSL* ssl, const EVP_MD* hash, const unsigned char** identity,
                       std::size_t* bytes, SSL_SESSION** out) {
    *out = nullptr;
    if (hash != nullptr && EVP_MD_get_type(hash) != NID_sha256) return 1;
    const TlsEndpoint& own = endpoint(ssl);
    *out = session_of(ssl, *own.key_);
    *identity = reinterpret_cast<const unsigned char*>(own.identity_.data());
    *bytes = own.identity_.size();
    return *out != nullptr ? 1 : 0;
  }
};

std::string tls_error_text() {
  const unsigned long code = ERR_peek_last_error();
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  ERR_clear_error();
  return code == 0 ? "no reason is given" : text.data();
}

TlsEndpoint::~TlsEndpoint() { SSL_CTX_free(context_); }

Status TlsEndpoint::begin() {
  ERR_clear_error();
  context_ = SSL_CTX_new(is_server_ ? TLS_server_method() : TLS_client_method());
  if (context_ == nullptr) return no_tls("SSL_CTX_new");
  SSL_CTX_set_app_data(context_, this);
  if (SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION) != 1) return no_tls("TLS 1.3");
  if (SSL_CTX_set_ciphersuites(context_, kSuites) != 1) return no_tls(kSuites);
  if (SSL_CTX_set1_groups_list(context_, kGroups) != 1) return no_tls(kGroups);
  SSL_CTX_set_options(context_, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context_, 0);
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_clear_mode(context_, SSL_MODE_AUTO_RETRY);  // SecureSocket counts records without data
  // Without an authority a client accepts no certificate in place of the key.
  if (!is_server_) SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
  return {};
}

Result<TlsEndpointRef> TlsEndpoint::server(FindKey find_key) {
  const std::shared_ptr<TlsEndpoint> made(new TlsEndpoint(true));
  SPARCL_RETURN_IF_ERROR(made->begin());
  made->find_key_ = std::move(find_key);
  SSL_CTX_set_psk_find_session_callback(made->context_, TlsCallbacks::find_key);
  return TlsEndpointRef(made);
}

Result<TlsEndpointRef> TlsEndpoint::client(std::string identity, trust::SecretBytes key) {
  const std::shared_ptr<TlsEndpoint> made(new TlsEndpoint(false));
  SPARCL_RETURN_IF_ERROR(made->begin());
  made->identity_ = std::move(identity);
  made->key_ = std::move(key);
  SSL_CTX_set_psk_use_session_callback(made->context_, TlsCallbacks::offer_key);
  return TlsEndpointRef(made);
}

}  // namespace sparcl::net
