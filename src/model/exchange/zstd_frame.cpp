#include "src/model/exchange/zstd_frame.hpp"

#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

namespace sparcl::model {
namespace {

bool lacks_memory(std::size_t zstd_result) {
  return ZSTD_getErrorCode(zstd_result) == ZSTD_error_memory_allocation;
}

}  // namespace

Result<std::vector<std::byte>> pack_frame(std::span<const std::byte> bytes, int level) {
  std::vector<std::byte> out(ZSTD_compressBound(bytes.size()));
  const std::size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), level);
  if (lacks_memory(size)) return no_memory();
  if (ZSTD_isError(size) != 0)
    return Status(Code::kInternalError, fmt::format("zstd: {}", ZSTD_getErrorName(size)));
  out.resize(size);
  return out;
}

Result<std::vector<std::byte>> unpack_frame(std::span<const std::byte> frame,
                                            std::uint64_t min_bytes, std::uint64_t max_bytes) {
  const unsigned long long content = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (content == ZSTD_CONTENTSIZE_ERROR) return corrupt("it is no zstd frame");
  if (content == ZSTD_CONTENTSIZE_UNKNOWN)
    return corrupt("its zstd frame does not name the size of its content");
  if (content < min_bytes || content > max_bytes) {
    return corrupt(
        fmt::format("its zstd frame says that it holds {} bytes, {} are expected", content,
                    min_bytes == max_bytes ? fmt::format("{}", max_bytes)
                                           : fmt::format("{} to {}", min_bytes, max_bytes)));
  }
  const std::size_t length = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(length) != 0)
    return corrupt(fmt::format("its zstd frame is damaged: {}", ZSTD_getErrorName(length)));
  if (length != frame.size())
    return corrupt(fmt::format("{} bytes follow its zstd frame", frame.size() - length));
  std::vector<std::byte> out(static_cast<std::size_t>(content));
  const std::size_t size = ZSTD_decompress(out.data(), out.size(), frame.data(), frame.size());
  if (lacks_memory(size)) return no_memory();
  if (ZSTD_isError(size) != 0)
    return corrupt(fmt::format("its zstd frame is damaged: {}", ZSTD_getErrorName(size)));
  if (size != out.size()) return corrupt("its zstd frame is cut off");
  return out;
}

Status unpack_xor(std::span<const std::byte> frame, std::span<std::byte> bytes) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> difference,
                          unpack_frame(frame, bytes.size(), bytes.size()));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] ^= difference[i];
  return {};
}

Result<std::vector<std::byte>> pack_xor(std::vector<std::byte> old_bytes,
                                        std::span<const std::byte> new_bytes, int level) {
  for (std::size_t i = 0; i < old_bytes.size(); ++i) old_bytes[i] ^= new_bytes[i];
  return pack_frame(old_bytes, level);
}

}  // namespace sparcl::model
