#pragma once
// The digests by which other programs check the bytes of one tensor.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/status.hpp"

namespace sparcl::model {

enum class TensorDigest {
  kAdler32,         // 8 hexadecimal digits
  kAdler32Decimal,  // a decimal number
  kXxh3,            // XXH3-128 in canonical order: the high word first, 32 hexadecimal digits
  kSha256,          // 64 hexadecimal digits
};

// "adler32", "xxh3-128": what an index calls it.
std::string_view digest_name(TensorDigest kind);
// Unsupported: it is "blake3", or no name of the above.
Result<TensorDigest> find_digest(std::string_view name);

Result<std::string> digest_of(TensorDigest kind, std::span<const std::byte> bytes);

}  // namespace sparcl::model
