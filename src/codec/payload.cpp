#include "src/codec/payload.hpp"

#include <cstring>

#include "kernels/bit_stream.hpp"

namespace sparcl::codec {

std::span<const std::byte> Payload::load(const Staging& staging, std::uint64_t first,
                                         std::size_t bytes, bool whole) {
  if (whole) return {staging.contiguous(first, bytes, scratch_), bytes};
  if (scratch_.size() < bytes + kernels::kBitSlackBytes)
    scratch_.resize(bytes + kernels::kBitSlackBytes);
  const std::byte* at = staging.contiguous(first, bytes, scratch_);
  if (at != scratch_.data() && bytes > 0) std::memcpy(scratch_.data(), at, bytes);
  std::memset(scratch_.data() + bytes, 0, kernels::kBitSlackBytes);
  return {scratch_.data(), bytes};
}

}  // namespace sparcl::codec
