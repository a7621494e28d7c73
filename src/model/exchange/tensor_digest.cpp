#include "src/model/exchange/tensor_digest.hpp"

#include <fmt/format.h>

#include "src/base/checksum.hpp"
#include "src/model/text.hpp"
#include "src/trust/sha256.hpp"

namespace sparcl::model {

std::string_view digest_name(TensorDigest kind) {
  switch (kind) {
    case TensorDigest::kXxh3:
      return "xxh3-128";
    case TensorDigest::kSha256:
      return "sha256";
    default:
      return "adler32";
  }
}

Result<TensorDigest> find_digest(std::string_view name) {
  for (const TensorDigest kind :
       {TensorDigest::kAdler32, TensorDigest::kXxh3, TensorDigest::kSha256}) {
    if (digest_name(kind) == name) return kind;
  }
  return Status(Code::kUnsupported,
                fmt::format("checksums of format {} cannot be verified: write adler32 or xxh3-128",
                            in_quotes(name)));
}

Result<std::string> digest_of(TensorDigest kind, std::span<const std::byte> bytes) {
  switch (kind) {
    case TensorDigest::kAdler32:
      return fmt::format("{:08x}", adler32(bytes));
    case TensorDigest::kAdler32Decimal:
      return fmt::format("{}", adler32(bytes));
    case TensorDigest::kXxh3: {
      const Hash128 hash = xxh3_128(bytes);
      return fmt::format("{:016x}{:016x}", hash.high, hash.low);
    }
    case TensorDigest::kSha256:
      break;
  }
  trust::Sha256 sha256;
  sha256.update(bytes);
  SPARCL_ASSIGN_OR_RETURN(const trust::Sha256::Digest digest, sha256.finish());
  return trust::to_hex(digest);
}

}  // namespace sparcl::model
