#include "src/trust/keyed_hash.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "src/base/error_text.hpp"

namespace sparcl::trust {

Result<KeyedHash> keyed_hash(std::span<const std::byte> key, std::span<const std::byte> bytes) {
  KeyedHash hash;
  unsigned length = 0;
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  auto* out = reinterpret_cast<unsigned char*>(hash.data());
  const void* key_data =
      key.empty()
          ? ""
          : static_cast<const void*>(key.data());  // nullptr would mean the key of the last call
  const bool made =
      key.size() <= INT_MAX && HMAC(EVP_sha256(), key_data, static_cast<int>(key.size()), data,
                                    bytes.size(), out, &length) != nullptr;
  if (made && length == hash.size()) return hash;
  return Status(
      Code::kSystemError,
      "libcrypto gives no HMAC-SHA256 here: its configuration forbids it, or memory ran out");
}

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= a[i] ^ b[i];
    asm volatile("" : "+r"(difference));  // or a compiler may leave the loop early
  }
  return difference == std::byte{0};
}

Status fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno != EINTR)
      return Status(Code::kSystemError, fmt::format("getrandom(): {}", error_text(errno)));
    if (got > 0) out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace sparcl::trust
