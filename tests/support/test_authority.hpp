#pragma once
// An authority of a test, and folders of certificates as net::CertificateFolder reads them.

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace sparcl::test {

struct CertificateTerms {
  std::string role;  // "publish"; empty: none
  long from_s = -3600;
  long until_s = 3600;  // from now
  std::string use = "serverAuth,clientAuth";
  std::string names = "IP:127.0.0.1,DNS:localhost";  // beside the role; empty: none
};

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name = "test authority")
      : key_(EVP_EC_gen("P-256")), own_(X509_new()) {
    begin(own_.get(), name, key_.get(), {});
    add(own_.get(), NID_basic_constraints, "critical,CA:TRUE");
    add(own_.get(), NID_subject_key_identifier, "hash");
    X509_set_issuer_name(own_.get(), X509_get_subject_name(own_.get()));
    EXPECT_GT(X509_sign(own_.get(), key_.get(), EVP_sha256()), 0);
  }

  std::string text() const { return text_of(own_.get()); }

  // Writes ca.crt, tls.crt and tls.key; each is replaced whole.
  std::string write(const std::string& folder, const CertificateTerms& terms) const {
    const Key key(EVP_EC_gen("P-256"));
    const Certificate made(X509_new());
    begin(made.get(), terms.role.empty() ? "plain" : terms.role, key.get(), terms);
    X509_set_issuer_name(made.get(), X509_get_subject_name(own_.get()));
    std::string names = terms.role.empty() ? "" : "URI:sparcl:" + terms.role;
    if (!terms.names.empty()) names += (names.empty() ? "" : ",") + terms.names;
    if (!names.empty()) add(made.get(), NID_subject_alt_name, names);
    if (!terms.use.empty()) add(made.get(), NID_ext_key_usage, terms.use);
    EXPECT_GT(X509_sign(made.get(), key_.get(), EVP_sha256()), 0);
    std::filesystem::create_directories(folder);
    replace(folder + "/ca.crt", text(), 0644);
    replace(folder + "/tls.crt", text_of(made.get()), 0644);
    const Bio bio(BIO_new(BIO_s_mem()));
    EXPECT_EQ(PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr),
              1);
    replace(folder + "/tls.key", drain(bio.get()), 0600);
    return folder;
  }
  std::string write(const std::string& folder, const std::string& role) const {
    CertificateTerms terms;
    terms.role = role;
    return write(folder, terms);
  }

  static void replace(const std::string& path, const std::string& text, mode_t mode) {
    std::ofstream(path + ".new") << text;
    EXPECT_EQ(::chmod((path + ".new").c_str(), mode), 0);
    std::filesystem::rename(path + ".new", path);
  }

 private:
  struct Free {
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(BIO* bio) const { BIO_free(bio); }
  };
  using Certificate = std::unique_ptr<X509, Free>;
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Bio = std::unique_ptr<BIO, Free>;

  static std::string drain(BIO* bio) {
    char* data = nullptr;
    const long bytes = BIO_get_mem_data(bio, &data);
    return {data, static_cast<std::size_t>(bytes)};
  }
  static std::string text_of(X509* certificate) {
    const Bio bio(BIO_new(BIO_s_mem()));
    EXPECT_EQ(PEM_write_bio_X509(bio.get(), certificate), 1);
    return drain(bio.get());
  }
  static void begin(X509* made, const std::string& name, EVP_PKEY* key,
                    const CertificateTerms& terms) {
    static long serial = 4711;
    X509_set_version(made, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made), serial++);
    X509_gmtime_adj(X509_getm_notBefore(made), terms.from_s);
    X509_gmtime_adj(X509_getm_notAfter(made), terms.until_s);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_pubkey(made, key);
  }
  static void add(X509* made, int what, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, made, made, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str());
    EXPECT_NE(extension, nullptr) << value;
    X509_add_ext(made, extension, -1);
    X509_EXTENSION_free(extension);
  }

  Key key_;
  Certificate own_;
};

}  // namespace sparcl::test
