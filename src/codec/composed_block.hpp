#pragma once
// The combined effect of several consecutive updates on one block, without its initial values.

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

  // Adds the next update's changes of the block. Two steps become their sum (no change if it is 0).
  // A step onto a known value gives a value. A value replaces all earlier changes.
  void add(const DecodedBlock& next);

  // The elements that the composed block lists, or all if it is dense. 0: no change remains.
  std::size_t coded_elements() const;

  // Writes the block, `gap` blocks after the last one. The mode follows from the known values.
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
