#pragma once
// A secret of 32 bytes, in memory that is locked where that is allowed and is left out of core
// dumps. It is zeroed on destruction.

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "src/base/status.hpp"

namespace sparcl::trust {

constexpr std::size_t kSecretBytes = 32;

class SecretBytes {
 public:
  static Result<SecretBytes> zeros();
  static Result<SecretBytes> random();
  // HMAC-SHA256 of `label`, with `from` as its key: a one-step key derivation (NIST SP 800-108),
  // for secrets that are random already. Different labels give independent secrets.
  static Result<SecretBytes> derive(std::span<const std::byte, kSecretBytes> from,
                                    std::span<const std::byte> label);

  std::span<std::byte, kSecretBytes> bytes() {
    return std::span<std::byte, kSecretBytes>(*memory_);
  }
  std::span<const std::byte, kSecretBytes> bytes() const {
    return std::span<const std::byte, kSecretBytes>(*memory_);
  }

 private:
  using Memory = std::array<std::byte, kSecretBytes>;
  struct Free {
    void operator()(Memory* memory) const;
  };
  explicit SecretBytes(Memory* memory) : memory_(memory) {}

  std::unique_ptr<Memory, Free> memory_;
};

}  // namespace sparcl::trust
