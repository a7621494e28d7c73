#include "src/store/s3/sigv4.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "src/trust/hex.hpp"
#include "src/trust/keyed_hash.hpp"
#include "src/trust/sha256.hpp"

namespace sparcl::store {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

std::span<const std::byte> as_bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

// Without spaces at the ends; several in a row become one.
std::string folded(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c != ' ' || (!text.empty() && text.back() != ' ')) text += c;
  }
  if (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

// By name; the values of one name in their order, with commas.
std::map<std::string, std::string> merged(const NamedTexts& headers) {
  std::map<std::string, std::string> all;
  for (const auto& [name, value] : headers) {
    const auto [at, is_new] = all.try_emplace(name, folded(value));
    if (!is_new) at->second += "," + folded(value);
  }
  return all;
}

std::string signed_names(const NamedTexts& headers) {
  std::string names;
  for (const auto& [name, value] : merged(headers)) names += (names.empty() ? "" : ";") + name;
  return names;
}

}  // namespace

std::string uri_encoded(std::string_view text, bool keeps_slash) {
  std::string encoded;
  for (const char c : text) {
    if (is_unreserved(c) || (c == '/' && keeps_slash))
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string query_text(const NamedTexts& query) {
  NamedTexts encoded;
  for (const auto& [name, value] : query)
    encoded.emplace_back(uri_encoded(name, false), uri_encoded(value, false));
  std::ranges::sort(encoded);
  std::string text;
  for (const auto& [name, value] : encoded) text += (text.empty() ? "" : "&") + name + "=" + value;
  return text;
}

std::string canonical_request(const RequestToSign& request) {
  std::string headers;
  for (const auto& [name, value] : merged(request.headers)) headers += name + ":" + value + "\n";
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path,
                     query_text(request.query), headers, signed_names(request.headers),
                     request.body_sha256);
}

Result<std::string> authorization(const RequestToSign& request, const AwsKeys& keys,
                                  const AwsScope& scope) {
  const std::string day = scope.time.substr(0, 8);
  const std::string within = fmt::format("{}/{}/{}/aws4_request", day, scope.region, scope.service);
  const std::string canonical = canonical_request(request);
  const std::span<const std::byte> piece = as_bytes_of(canonical);
  SPARCL_ASSIGN_OR_RETURN(const std::string digest, sha256_hex({&piece, 1}));
  const std::string text = fmt::format("{}\n{}\n{}\n{}", kAlgorithm, scope.time, within, digest);
  const std::string first = "AWS4" + keys.secret;
  SPARCL_ASSIGN_OR_RETURN(trust::KeyedHash key,
                          trust::keyed_hash(as_bytes_of(first), as_bytes_of(day)));
  for (const std::string_view part :
       {std::string_view(scope.region), std::string_view(scope.service),
        std::string_view("aws4_request"), std::string_view(text)}) {
    SPARCL_ASSIGN_OR_RETURN(key, trust::keyed_hash(key, as_bytes_of(part)));
  }
  return fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm, keys.key_id,
                     within, signed_names(request.headers), trust::hex_of(key));
}

Result<std::string> sha256_hex(std::span<const std::span<const std::byte>> pieces) {
  trust::Sha256 sum;
  for (const std::span<const std::byte> piece : pieces) sum.update(piece);
  SPARCL_ASSIGN_OR_RETURN(const trust::Sha256::Digest digest, sum.finish());
  return trust::to_hex(digest);
}

std::string aws_time(std::int64_t seconds_since_1970) {
  using namespace std::chrono;
  const sys_seconds time{seconds(seconds_since_1970)};
  const auto day = floor<days>(time);
  const year_month_day date{day};
  const hh_mm_ss clock{time - day};
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

}  // namespace sparcl::store
