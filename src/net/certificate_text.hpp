#pragma once
// The content of certificates, and why OpenSSL refuses them, in words.

#include <string>
#include <vector>

struct x509_st;            // OpenSSL's X509
struct x509_store_ctx_st;  // OpenSSL's X509_STORE_CTX

namespace sparcl::net {

// The last error of OpenSSL in this thread, whose queue is emptied.
std::string ssl_error_text();

std::string certificate_name(const x509_st* certificate);  // "/CN=trainer, serial 4F2A"
std::string end_of_validity(const x509_st* certificate);   // "2026-11-26 19:30:00 UTC"
bool has_expired(const x509_st* certificate);
// The URIs of its subjectAltName.
std::vector<std::string> uris_of(const x509_st* certificate);

// Why X509_verify_cert() refuses a peer's chain. authorities: the path of the accepted ones.
std::string chain_fault(const x509_store_ctx_st* store, const std::string& authorities,
                        bool peer_is_client);
// The peer's TLS alert about this process's certificate, `own_path`, in words. Empty: the last
// error of OpenSSL in this thread is no such alert.
std::string alert_fault(const std::string& own_path);

}  // namespace sparcl::net
