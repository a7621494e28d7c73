#pragma once
// Elements as planes of their bytes, each raw or entropy-coded (docs/reference/wire-format.md). The
// exponents of floats and the high bytes of small integers take a few bits; the low bytes are
// noise.

#include <array>
#include <cstdint>
#include <span>

#include "src/codec/block_view.hpp"
#include "src/codec/rans_stream.hpp"
#include "src/codec/scratch.hpp"

namespace sparcl::codec {

// Planes that are ready to be written.
class BytePlanes {
 public:
  void prepare(const kernels::KernelSet& kernels, BlockShape shape, const std::byte* elements);
  std::size_t bytes() const;
  void write(std::byte* out) const;

 private:
  bool is_coded(std::size_t plane) const { return (coded_ >> plane & 1) != 0; }
  void consider(const kernels::KernelSet& kernels, std::size_t plane);

  std::size_t count_ = 0;
  std::size_t planes_count_ = 0;
  unsigned coded_ = 0;  // bit j: plane j is entropy-coded
  Scratch<std::uint8_t> planes_;
  std::array<Frequencies, 8> tables_;
  std::array<RansStream, 8> streams_;
};

class BytePlanesReader {
 public:
  // Untrusted bytes, kBitSlackBytes readable after them. Returns nullptr, or a description of the
  // error.
  const char* read(const kernels::KernelSet& kernels, BlockShape shape,
                   std::span<const std::byte> payload, std::byte* elements);

 private:
  Scratch<std::uint8_t> planes_;
  std::array<Frequencies, 8> tables_;
  RansStreamReader stream_;
};

}  // namespace sparcl::codec
