#include "src/net/certificate_text.hpp"

#include <fmt/format.h>
#include <openssl/asn1.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>
#include <memory>

#include "src/base/shown_text.hpp"

namespace sparcl::net {
namespace {

struct FreeNames {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};

std::string time_text(const ASN1_TIME* time) {
  std::tm at{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &at) != 1) return "an unknown time";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", at.tm_year + 1900, at.tm_mon + 1,
                     at.tm_mday, at.tm_hour, at.tm_min, at.tm_sec);
}

std::string serial_text(const X509* certificate) {
  constexpr int kMaxSerialBytes = 20;  // RFC 5280, section 4.1.2.2
  const ASN1_INTEGER* serial = X509_get0_serialNumber(certificate);
  std::string text;
  for (int i = 0; i < std::min(ASN1_STRING_length(serial), kMaxSerialBytes); ++i)
    text += fmt::format("{:02X}", ASN1_STRING_get0_data(serial)[i]);
  return text;
}

}  // namespace

std::string ssl_error_text() {
  const unsigned long code = ERR_peek_last_error();
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  ERR_clear_error();
  return code == 0 ? "no reason is given" : text.data();
}

std::string certificate_name(const X509* certificate) {
  std::array<char, 128> subject{};
  if (X509_NAME_oneline(X509_get_subject_name(certificate), subject.data(), subject.size()) ==
      nullptr)
    subject = {};
  const std::string name = shown_line(subject.data());
  return fmt::format("{}{}serial {}", name, name.empty() ? "" : ", ", serial_text(certificate));
}

std::string end_of_validity(const X509* certificate) {
  return time_text(X509_get0_notAfter(certificate));
}

bool has_expired(const X509* certificate) {
  return X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0;  // 0: it cannot be read
}

std::vector<std::string> uris_of(const X509* certificate) {
  std::vector<std::string> uris;
  const std::unique_ptr<GENERAL_NAMES, FreeNames> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int type = 0;
    const void* const value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &type);
    if (type != GEN_URI) continue;
    const auto* uri = static_cast<const ASN1_IA5STRING*>(value);
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<std::size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
}

std::string chain_fault(const X509_STORE_CTX* store, const std::string& authorities,
                        bool peer_is_client) {
  const int error = X509_STORE_CTX_get_error(store);
  const X509* const at = X509_STORE_CTX_get_current_cert(store);
  const std::string certificate =
      fmt::format("its certificate ({})", at != nullptr ? certificate_name(at) : "unknown");
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fmt::format("{} has expired at {}: renew it there", certificate,
                         at != nullptr ? end_of_validity(at) : "an unknown time");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("{} is not valid before {}: compare the clocks of both machines",
                         certificate, time_text(at != nullptr ? X509_get0_notBefore(at) : nullptr));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return fmt::format(
          "{} is not of an authority in {}: both sides need certificates of one "
          "authority",
          certificate, authorities);
    case X509_V_ERR_INVALID_PURPOSE:
      return fmt::format("{} may not be used by a {}: its extendedKeyUsage lacks {}", certificate,
                         peer_is_client ? "client" : "server",
                         peer_is_client ? "clientAuth" : "serverAuth");
    default:
      return fmt::format("{} is refused: {}", certificate, X509_verify_cert_error_string(error));
  }
}

std::string alert_fault(const std::string& own_path) {
  const unsigned long error = ERR_peek_last_error();
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) return {};
  switch (ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET) {
    case SSL_AD_CERTIFICATE_EXPIRED:
      return fmt::format("it says that the certificate {} has expired: renew it", own_path);
    case SSL_AD_UNKNOWN_CA:
      return fmt::format(
          "it does not know the authority of the certificate {}: both sides need "
          "certificates of one authority",
          own_path);
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
      return fmt::format(
          "it refuses the use of the certificate {}: its extendedKeyUsage needs "
          "clientAuth for clients and serverAuth for servers",
          own_path);
    case SSL_AD_HANDSHAKE_FAILURE:
      return fmt::format(
          "it refuses the certificate {}: that has no role, or too weak a role (subjectAltName "
          "URI:sparcl:ROLE), or another program answers there",
          own_path);
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_DECRYPT_ERROR:
      return fmt::format("it refuses the certificate {}: its log has the reason", own_path);
    case SSL_AD_CERTIFICATE_REQUIRED:
      return "it wants a certificate: give this side --certificates FOLDER";
    default:
      return {};
  }
}

}  // namespace sparcl::net
