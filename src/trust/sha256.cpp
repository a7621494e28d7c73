#include "src/trust/sha256.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

namespace sparcl::trust {
namespace {

template <class Owner>
EVP_MD_CTX* of(const Owner& context) {
  return static_cast<EVP_MD_CTX*>(context.get());
}

}  // namespace

void Sha256::Free::operator()(void* context) const {
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context));
}

Sha256::Sha256()
    : context_(EVP_MD_CTX_new()),
      ok_(context_ && EVP_DigestInit_ex(of(context_), EVP_sha256(), nullptr) == 1) {}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  ok_ = ok_ && EVP_DigestUpdate(of(context_), bytes.data(), bytes.size()) == 1;
}

Result<Sha256::Digest> Sha256::finish() {
  Digest digest;
  unsigned length = 0;
  if (ok_ && EVP_DigestFinal_ex(of(context_), digest.data(), &length) == 1 &&
      length == digest.size())
    return digest;
  return Status(Code::kSystemError,
                "libcrypto gives no SHA-256 here: its configuration forbids it, or memory ran out");
}

std::string to_hex(const Sha256::Digest& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace sparcl::trust
