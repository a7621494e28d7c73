#pragma once
// One block as several updates in a row leave it, without the values that it begins with.

#include <cstdint>
#include <vector>

#include "src/codec/block_mode.hpp"
#include "src/codec/frame_writer.hpp"

namespace sparcl::codec {

class ComposedBlock {
 public:
  explicit ComposedBlock(const kernels::KernelSet& kernels) : kernels_(kernels) {
    changes_.kernels = &kernels;
  }

  void begin(BlockShape shape);

  // What the next update does to the block. A step onto a step is their sum (none, where that is
  // 0); a step onto a known value gives a value; a value replaces whatever was before.
  void add(const DecodedBlock& next);

  // Elements that the composed block lists, or all if it is dense. 0: nothing is left of it.
  std::size_t coded_elements() const;

  // Writes the block, `gap` blocks after the last one; the mode follows from what is known.
  void write(std::uint64_t gap, FrameWriter& frame, ByteSink& sink);

 private:
  struct Changes {  // ascending
    std::vector<std::uint16_t> positions;
    std::vector<std::uint8_t> is_value;
    std::vector<std::byte> bytes;  // a value, or a step
  };
  struct Part {  // a payload
    const BlockMode* mode;
    std::vector<std::byte> bytes;
  };

  void add_to_whole(const DecodedBlock& next);
  void merge(const DecodedBlock& next);
  void push(std::uint16_t position, bool is_value, const std::byte* bytes);
  void combine(std::size_t before, const std::byte* bytes, bool is_value);
  Part code(bool values, std::span<const BlockMode* const> modes);
  void write_payload(unsigned mode, std::span<const std::byte> payload, std::size_t trailer_bytes,
                     std::uint64_t gap, FrameWriter& frame, ByteSink& sink) const;

  const kernels::KernelSet& kernels_;
  BlockShape shape_;
  bool is_whole_ = false;
  std::vector<std::byte> whole_;
  Changes held_;
  Changes merged_;
  BlockChanges changes_;
};

}  // namespace sparcl::codec
