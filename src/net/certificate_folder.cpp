#include "src/net/certificate_folder.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "src/net/certificate_text.hpp"
#include "src/trust/key_file.hpp"

namespace sparcl::net {
namespace {

constexpr std::size_t kMaxCertificateBytes = std::size_t{256} << 10;  // of a file; heuristic
constexpr std::size_t kMaxPrivateKeyBytes = std::size_t{64} << 10;

Status bad_file(const std::string& path, const std::string& what) {
  return Status(Code::kInvalidArgument, fmt::format("{}: {}", path, what));
}

// A pass phrase is never asked for: no terminal may be there.
int no_pass_phrase(char*, int, int, void*) { return -1; }

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
std::unique_ptr<BIO, FreeBio> bio_of(std::string_view text) {
  return std::unique_ptr<BIO, FreeBio>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Result<trust::KeyFile> read_file(const std::string& path, std::size_t max_bytes) {
  Result<trust::KeyFile> file = trust::KeyFile::read(path, max_bytes);
  if (file.ok()) return file;
  return Status(file.status().code(),
                fmt::format("{}. A folder of certificates holds ca.crt, tls.crt and tls.key",
                            file.status().message()));
}

Result<std::vector<CertificateRef>> read_certificates(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(const trust::KeyFile file, read_file(path, kMaxCertificateBytes));
  if ((file.mode() & 002) != 0) {
    return bad_file(path, fmt::format("its mode is {:04o}, so that every user may change whom this "
                                      "process trusts: run chmod o-w {}",
                                      file.mode(), path));
  }
  const std::unique_ptr<BIO, FreeBio> bio = bio_of(file.text());
  std::vector<CertificateRef> found;
  ERR_clear_error();
  while (bio != nullptr) {
    CertificateRef each(PEM_read_bio_X509(bio.get(), nullptr, no_pass_phrase, nullptr));
    if (each == nullptr) break;
    found.push_back(std::move(each));
  }
  const bool is_at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!is_at_end)
    return bad_file(path, fmt::format("certificate {} is damaged: write the file again as PEM",
                                      found.size() + 1));
  if (found.empty())
    return bad_file(path, "it holds no certificate in PEM form, '-----BEGIN CERTIFICATE-----'");
  return found;
}

// As PostgreSQL's clients have it: a key that root has put there, such as a volume of Kubernetes
// with an fsGroup, may be readable by its group.
Status check_key_mode(const std::string& path, const trust::KeyFile& file) {
  const unsigned refused = file.owner() == 0 ? 037U : 077U;
  if ((file.mode() & refused) == 0) return {};
  return bad_file(path, fmt::format("its mode is {:04o}, so that others than its owner may read or "
                                    "change this private key: run chmod 600 {}, or in Kubernetes "
                                    "set defaultMode: 0400 for its volume",
                                    file.mode(), path));
}

Result<std::unique_ptr<EVP_PKEY, FreeOfOpenSsl>> read_private_key(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(const trust::KeyFile file, read_file(path, kMaxPrivateKeyBytes));
  SPARCL_RETURN_IF_ERROR(check_key_mode(path, file));
  const std::unique_ptr<BIO, FreeBio> bio = bio_of(file.text());
  std::unique_ptr<EVP_PKEY, FreeOfOpenSsl> key;
  if (bio != nullptr)
    key.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_pass_phrase, nullptr));
  ERR_clear_error();
  if (key != nullptr) return key;
  const bool is_encrypted = file.text().find("ENCRYPTED") != std::string_view::npos;
  return bad_file(path, is_encrypted
                            ? "the private key has a pass phrase: write it without one"
                            : "it holds no private key in PEM form, '-----BEGIN PRIVATE KEY-----'");
}

Status refused_by_openssl(const char* what) {
  return Status(Code::kUnsupported, fmt::format("OpenSSL refuses {}: {}", what, ssl_error_text()));
}

}  // namespace

void FreeOfOpenSsl::operator()(X509* certificate) const { X509_free(certificate); }
void FreeOfOpenSsl::operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }

CertificateFolder::Mark CertificateFolder::mark() const {
  Mark mark{};
  auto at = mark.begin();
  for (const std::string& path : {authorities_path(), chain_path(), key_path()}) {
    struct stat about {};
    if (::stat(path.c_str(), &about) != 0) about = {};
    for (const std::int64_t each :
         {static_cast<std::int64_t>(about.st_dev), static_cast<std::int64_t>(about.st_ino),
          static_cast<std::int64_t>(about.st_size), static_cast<std::int64_t>(about.st_mtim.tv_sec),
          static_cast<std::int64_t>(about.st_mtim.tv_nsec),
          static_cast<std::int64_t>(about.st_ctim.tv_sec),
          static_cast<std::int64_t>(about.st_ctim.tv_nsec)})
      *at++ = each;
  }
  return mark;
}

Result<Certificates> CertificateFolder::load() const {
  const Mark before = mark();
  Certificates read;
  SPARCL_ASSIGN_OR_RETURN(read.authorities, read_certificates(authorities_path()));
  SPARCL_ASSIGN_OR_RETURN(read.chain, read_certificates(chain_path()));
  SPARCL_ASSIGN_OR_RETURN(read.key, read_private_key(key_path()));
  if (mark() != before)
    return Status(Code::kInProgress,
                  fmt::format("{}: its files changed while they were read: try again", path_));
  X509* const own = read.chain.front().get();
  const bool is_pair = X509_check_private_key(own, read.key.get()) == 1;
  ERR_clear_error();
  if (!is_pair) {
    return bad_file(key_path(),
                    fmt::format("it is not the key of the first certificate of {}: write both "
                                "files together",
                                chain_path()));
  }
  if (has_expired(own)) {
    return Status(Code::kUnauthorized,
                  fmt::format("{}: the certificate ({}) has expired at {}: renew it", chain_path(),
                              certificate_name(own), end_of_validity(own)));
  }
  return read;
}

Status Certificates::install(SSL_CTX* context) const {
  ERR_clear_error();
  if (SSL_CTX_use_certificate(context, chain.front().get()) != 1 ||
      SSL_CTX_use_PrivateKey(context, key.get()) != 1)
    return refused_by_openssl("tls.crt with tls.key");
  for (const CertificateRef& each : std::span(chain).subspan(1)) {
    if (SSL_CTX_add1_chain_cert(context, each.get()) != 1)
      return refused_by_openssl("a later certificate of tls.crt");
  }
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);  // an intermediate may be the authority
  for (const CertificateRef& each : authorities) {
    if (X509_STORE_add_cert(store, each.get()) != 1 ||
        SSL_CTX_add_client_CA(context, each.get()) != 1)
      return refused_by_openssl("a certificate of ca.crt");
  }
  return {};
}

}  // namespace sparcl::net
