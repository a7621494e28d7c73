#pragma once
// Signatures of requests to AWS and to servers that speak its protocol: AWS Signature Version 4, in
// the header Authorization. Paths are encoded once and not normalised, as S3 does it.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::store {

struct AwsKeys {
  std::string key_id, secret, session_token;  // session_token may be ""
  friend bool operator==(const AwsKeys&, const AwsKeys&) = default;
};

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

struct AwsScope {
  std::string time;  // "20130524T000000Z"
  std::string region, service;
};

struct RequestToSign {
  std::string method;
  std::string path;    // of the URL, encoded
  NamedTexts query;    // not encoded, in any order
  NamedTexts headers;  // all that are signed, names in lower case
  std::string body_sha256;
};

// All characters but letters, digits, '-', '.', '_' and '~' as %XX.
std::string uri_encoded(std::string_view text, bool keeps_slash);
// Of a URL: encoded and sorted. "" without parameters.
std::string query_text(const NamedTexts& query);

std::string canonical_request(const RequestToSign& request);
// Of the header Authorization. SystemError: libcrypto refuses.
Result<std::string> authorization(const RequestToSign& request, const AwsKeys& keys,
                                  const AwsScope& scope);

// SHA-256 in hexadecimal digits.
Result<std::string> sha256_hex(std::span<const std::span<const std::byte>> pieces);
// "20130524T000000Z"
std::string aws_time(std::int64_t seconds_since_1970);

}  // namespace sparcl::store
