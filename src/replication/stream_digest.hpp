#pragma once
// SHA-256 of an update's bytes as they come: what a signed commit names.

#include <array>
#include <cstdint>

#include "src/base/sha256.hpp"
#include "src/base/staging.hpp"

namespace sparcl::replication {

class StreamDigest {
 public:
  // The first `end` bytes lie in `bytes`, those given before as they were then.
  void advance(const Staging& bytes, std::uint64_t end);
  // Once. SystemError where the library refuses.
  Result<std::array<std::byte, 32>> finish();

 private:
  Sha256 sha_;
  std::uint64_t hashed_bytes_ = 0;
};

}  // namespace sparcl::replication
