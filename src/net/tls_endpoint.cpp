#include "src/net/tls_endpoint.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "src/base/log.hpp"
#include "src/net/certificate_folder.hpp"
#include "src/net/certificate_text.hpp"
#include "src/net/socket.hpp"

namespace sparcl::net {
namespace {

// SHA-256 is the hash of all keys, so the suites must have it.
constexpr const char* kSuites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr std::array<unsigned char, 2> kKeySuite = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr const char* kGroups = "X25519:P-256";
constexpr int kSecurityLevel = 2;           // RSA keys of 2,048 bits at least, no SHA-1
constexpr long kMaxChainBytes = 48L << 10;  // of a peer; heuristic
constexpr int kMaxChain = 8;                // certificates between a peer's and its authority
constexpr double kSecondsToRetry = 1;       // between two looks at files that could not be used
constexpr int kLooksAtChangingFiles = 3;

Status no_tls(const char* step) {
  return Status(Code::kSystemError,
                fmt::format("TLS cannot be set up: {}: {}", step, ssl_error_text()));
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
  static TlsPeer* peer(const SSL* ssl) { return static_cast<TlsPeer*>(SSL_get_app_data(ssl)); }

  // OpenSSL's: 1 without a session goes on without a key, and then finds no certificate.
  static int find_key(SSL* ssl, const unsigned char* identity, std::size_t bytes,
                      SSL_SESSION** out) try {
    *out = nullptr;
    const auto known = endpoint(ssl).find_key_({reinterpret_cast<const char*>(identity), bytes});
    if (!known) return 1;
    *out = session_of(ssl, known->key);
    if (peer(ssl) != nullptr) peer(ssl)->tag = known->tag;
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

  // 1: the peer's chain is sound, and its first certificate is one to talk to.
  static int judge_chain(X509_STORE_CTX* store, void*);
};

// The endpoint's threads share it.
struct TlsEndpoint::Watched {
  CertificateFolder folder;
  Judge own;
  Judge peer;
  std::mutex looking{};  // of one thread at a time, at the files; guards the next three
  CertificateFolder::Mark mark{};
  double failed_at = -kSecondsToRetry;
  std::string warned{};
  std::mutex mutex{};  // taken after `looking`, never while files are read; guards all below
  std::shared_ptr<SSL_CTX> context{};
};

int TlsCallbacks::judge_chain(X509_STORE_CTX* store, void*) try {
  const auto* ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const TlsEndpoint& own = endpoint(ssl);
  TlsPeer* const other = peer(ssl);
  if (other == nullptr) return 0;
  if (X509_verify_cert(store) != 1) {
    other->refusal =
        chain_fault(store, own.certificates_->folder.authorities_path(), own.is_server());
    return 0;
  }
  const X509* const shown = X509_STORE_CTX_get0_cert(store);
  const Result<int> tag = own.certificates_->peer(uris_of(shown));
  if (tag.ok()) {
    other->tag = *tag;
    return 1;
  }
  other->refusal =
      fmt::format("its certificate ({}) {}", certificate_name(shown), tag.status().message());
  X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
} catch (const std::bad_alloc&) {
  X509_STORE_CTX_set_error(store, X509_V_ERR_OUT_OF_MEM);
  return 0;
}

TlsEndpoint::~TlsEndpoint() = default;

Result<std::shared_ptr<SSL_CTX>> TlsEndpoint::new_context() const {
  ERR_clear_error();
  const std::shared_ptr<SSL_CTX> made(
      SSL_CTX_new(is_server_ ? TLS_server_method() : TLS_client_method()), SSL_CTX_free);
  SSL_CTX* const context = made.get();
  if (context == nullptr) return no_tls("SSL_CTX_new");
  SSL_CTX_set_app_data(context, const_cast<TlsEndpoint*>(this));
  if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1) return no_tls("TLS 1.3");
  if (SSL_CTX_set_ciphersuites(context, kSuites) != 1) return no_tls(kSuites);
  if (SSL_CTX_set1_groups_list(context, kGroups) != 1) return no_tls(kGroups);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);  // SecureSocket counts records without data
  // Without an authority a client accepts no certificate in place of the key.
  if (!is_server_) SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  return made;
}

Result<TlsEndpointRef> TlsEndpoint::server(FindKey find_key) {
  const std::shared_ptr<TlsEndpoint> made(new TlsEndpoint(true));
  SPARCL_ASSIGN_OR_RETURN(made->context_, made->new_context());
  made->find_key_ = std::move(find_key);
  SSL_CTX_set_psk_find_session_callback(made->context_.get(), TlsCallbacks::find_key);
  return TlsEndpointRef(made);
}

Result<TlsEndpointRef> TlsEndpoint::client(std::string identity, trust::SecretBytes key) {
  const std::shared_ptr<TlsEndpoint> made(new TlsEndpoint(false));
  SPARCL_ASSIGN_OR_RETURN(made->context_, made->new_context());
  made->identity_ = std::move(identity);
  made->key_ = std::move(key);
  SSL_CTX_set_psk_use_session_callback(made->context_.get(), TlsCallbacks::offer_key);
  return TlsEndpointRef(made);
}

// --- certificates ---

Result<TlsEndpointRef> TlsEndpoint::server(const std::string& folder, Judge own, Judge peer) {
  return of_certificates(true, folder, std::move(own), std::move(peer));
}

Result<TlsEndpointRef> TlsEndpoint::client(const std::string& folder, Judge own, Judge peer) {
  return of_certificates(false, folder, std::move(own), std::move(peer));
}

Result<TlsEndpointRef> TlsEndpoint::of_certificates(bool is_server, const std::string& folder,
                                                    Judge own, Judge peer) {
  const std::shared_ptr<TlsEndpoint> made(new TlsEndpoint(is_server));
  made->certificates_.reset(
      new Watched{CertificateFolder(folder), std::move(own), std::move(peer)});
  Status status;
  for (int i = 0; i < kLooksAtChangingFiles; ++i) {
    status = made->read_again();
    if (status.code() != Code::kInProgress) break;
  }
  SPARCL_RETURN_IF_ERROR(status);
  return TlsEndpointRef(made);
}

Result<std::shared_ptr<SSL_CTX>> TlsEndpoint::read_certificates() const {
  const CertificateFolder& folder = certificates_->folder;
  SPARCL_ASSIGN_OR_RETURN(const Certificates read, folder.load());
  const X509* const own = read.chain.front().get();
  const Result<int> tag = certificates_->own(uris_of(own));
  if (!tag.ok()) {
    return tag.status().with_prefix(
        fmt::format("{}: the certificate ({}) ", folder.chain_path(), certificate_name(own)));
  }
  SPARCL_ASSIGN_OR_RETURN(std::shared_ptr<SSL_CTX> made, new_context());
  SSL_CTX_set_security_level(made.get(), kSecurityLevel);
  SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_verify_depth(made.get(), kMaxChain);
  SSL_CTX_set_max_cert_list(made.get(), kMaxChainBytes);
  SSL_CTX_set_cert_verify_callback(made.get(), TlsCallbacks::judge_chain, nullptr);
  SPARCL_RETURN_IF_ERROR(read.install(made.get()).with_prefix(folder.path() + ": "));
  return made;
}

// With `looking`, or before other threads know the endpoint.
Status TlsEndpoint::read_again() const {
  Watched& own = *certificates_;
  const CertificateFolder::Mark mark = own.folder.mark();  // before they are read
  SPARCL_ASSIGN_OR_RETURN(std::shared_ptr<SSL_CTX> made, read_certificates());
  own.mark = mark;
  own.warned.clear();
  const std::lock_guard lock(own.mutex);
  own.context = std::move(made);
  return {};
}

std::shared_ptr<SSL_CTX> TlsEndpoint::context() const {
  if (!has_certificates()) return context_;
  const std::lock_guard lock(certificates_->mutex);
  return certificates_->context;
}

void TlsEndpoint::look_again() const {
  if (!has_certificates()) return;
  Watched& own = *certificates_;
  const std::unique_lock looking(own.looking, std::try_to_lock);
  if (!looking) return;
  const double now = monotonic_seconds();
  if (now - own.failed_at < kSecondsToRetry || own.folder.mark() == own.mark) return;
  const Status status = read_again();
  if (status.ok())
    return log_info("certificates: {} has changed and is in use from now on", own.folder.path());
  own.failed_at = now;
  const bool is_news = status.code() != Code::kInProgress && status.message() != own.warned;
  if (!is_news) return;
  own.warned = status.message();
  log_warn("certificates: new files cannot be used, and the old ones stay in use: {}", own.warned);
}

std::string TlsEndpoint::certificate_fault(const TlsPeer& peer) const {
  if (!has_certificates()) return {};
  if (!peer.refusal.empty()) return peer.refusal;
  if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return "it shows no certificate: give it --certificates FOLDER";
  return alert_fault(certificates_->folder.chain_path());
}

}  // namespace sparcl::net
