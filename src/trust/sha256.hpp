#pragma once
// SHA-256 by OpenSSL's libcrypto, which uses the CPU's own instructions if there are any.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "src/base/status.hpp"

namespace sparcl::trust {

class Sha256 {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  // Call it once, at the end. SystemError if the library refuses: a FIPS policy, or no memory.
  Result<Digest> finish();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;
  bool ok_;
};

std::string to_hex(const Sha256::Digest& digest);

}  // namespace sparcl::trust
