#pragma once
// The certificates of one process: a folder with the names that a Kubernetes secret of type
// kubernetes.io/tls has (docs/reference/certificates.md).
//
//   ca.crt   authorities whose certificates are accepted
//   tls.crt  the process's own certificate, then those between it and its authority
//   tls.key  its private key

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/status.hpp"

struct x509_st;      // OpenSSL's X509
struct evp_pkey_st;  // OpenSSL's EVP_PKEY
struct ssl_ctx_st;   // OpenSSL's SSL_CTX

namespace sparcl::net {

struct FreeOfOpenSsl {
  void operator()(x509_st* certificate) const;
  void operator()(evp_pkey_st* key) const;
};
using CertificateRef = std::unique_ptr<x509_st, FreeOfOpenSsl>;

// The files' content, checked: the key is the certificate's, which has not expired.
struct Certificates {
  std::vector<CertificateRef> authorities;  // at least one
  std::vector<CertificateRef> chain;        // the first is the process's own
  std::unique_ptr<evp_pkey_st, FreeOfOpenSsl> key;

  // Shows the chain to peers, and accepts peers of the authorities. Unsupported: OpenSSL refuses
  // one of them, such as a short key.
  Status install(ssl_ctx_st* context) const;
};

class CertificateFolder {
 public:
  explicit CertificateFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string authorities_path() const { return path_ + "/ca.crt"; }
  std::string chain_path() const { return path_ + "/tls.crt"; }
  std::string key_path() const { return path_ + "/tls.key"; }

  // Another value once a file was written to or replaced, also behind a symbolic link.
  using Mark = std::array<std::int64_t, 21>;
  Mark mark() const;

  // InProgress: the files changed while they were read. Unauthorized: the certificate has expired.
  Result<Certificates> load() const;

 private:
  std::string path_;
};

}  // namespace sparcl::net
