#include "bench/codec/zstd_parts.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

namespace sparcl::bench {
namespace {

struct Lengths {
  std::uint32_t coded;
  std::uint32_t plain;
};

}  // namespace

std::size_t zstd_checked(std::size_t result) {
  if (ZSTD_isError(result) != 0) {
    fmt::print(stderr, "zstd: {}\n", ZSTD_getErrorName(result));
    std::exit(1);
  }
  return result;
}

ZstdWriter::ZstdWriter(int level) : context_(ZSTD_createCCtx(), ZSTD_freeCCtx) {
  zstd_checked(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level));
}

void ZstdWriter::add(std::span<const std::byte> bytes) {
  const std::size_t at = out_.size();
  out_.resize(at + sizeof(Lengths) + ZSTD_compressBound(bytes.size()));
  const std::size_t used =
      zstd_checked(ZSTD_compress2(context_.get(), out_.data() + at + sizeof(Lengths),
                                  out_.size() - at - sizeof(Lengths), bytes.data(), bytes.size()));
  const Lengths lengths{static_cast<std::uint32_t>(used), static_cast<std::uint32_t>(bytes.size())};
  std::memcpy(out_.data() + at, &lengths, sizeof(lengths));
  out_.resize(at + sizeof(Lengths) + used);
}

ZstdReader::ZstdReader(std::span<const std::byte> bytes)
    : context_(ZSTD_createDCtx(), ZSTD_freeDCtx), bytes_(bytes) {}

std::span<const std::byte> ZstdReader::next() {
  Lengths lengths;
  std::memcpy(&lengths, bytes_.data(), sizeof(lengths));
  content_.resize(lengths.plain);
  const std::size_t got =
      zstd_checked(ZSTD_decompressDCtx(context_.get(), content_.data(), content_.size(),
                                       bytes_.data() + sizeof(Lengths), lengths.coded));
  bytes_ = bytes_.subspan(sizeof(Lengths) + lengths.coded);
  return std::span(content_).first(got);
}

}  // namespace sparcl::bench
