#pragma once
// zstd for the benchmarks' peers: frames one after the other, each behind the lengths of both its
// sides. Ends the program on errors.

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sparcl::bench {

class ZstdWriter {
 public:
  explicit ZstdWriter(int level);
  void add(std::span<const std::byte> bytes);
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context_;
  std::vector<std::byte> out_;
};

class ZstdReader {
 public:
  explicit ZstdReader(std::span<const std::byte> bytes);
  bool done() const { return bytes_.empty(); }
  // The next frame's content: valid until the next call.
  std::span<const std::byte> next();

 private:
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context_;
  std::span<const std::byte> bytes_;
  std::vector<std::byte> content_;
};

std::size_t zstd_checked(std::size_t result);  // ends the program if it is an error

}  // namespace sparcl::bench
