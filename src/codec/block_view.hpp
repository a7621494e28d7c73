#pragma once
// A block's elements in place: pieces of one or several arrays.

#include <span>

#include "kernels/kernel_set.hpp"
#include "src/base/checksum.hpp"
#include "src/codec/block_map.hpp"

namespace sparcl::codec {

struct BlockShape {
  DataType datatype = DataType::kUint8;
  std::uint32_t elements = 0;

  std::size_t element_bytes() const { return sparcl::element_bytes(datatype); }
  std::size_t bytes() const { return elements * element_bytes(); }
};

inline BlockShape shape_of(DataType datatype, std::span<const Piece> pieces) {
  return {datatype, pieces.empty() ? 0 : pieces.back().offset + pieces.back().count};
}

// Byte is std::byte or const std::byte. The pieces and the list of arrays outlive the view.
template <class Byte>
struct BasicBlockView {
  BlockShape shape;
  std::span<const Piece> pieces;
  std::span<Byte* const> arrays;

  Byte* data(const Piece& piece) const {
    return arrays[piece.array] + piece.first * shape.element_bytes();
  }
  operator BasicBlockView<const std::byte>() const {
    return {shape, pieces, std::span<const std::byte* const>(arrays.data(), arrays.size())};
  }
};
using BlockView = BasicBlockView<const std::byte>;
using WritableBlockView = BasicBlockView<std::byte>;

// The block's bytes as one piece: in place if it is one, otherwise copied to `scratch`.
std::span<const std::byte> whole_block(const BlockView& view, std::vector<std::byte>& scratch);
void copy_block(const BlockView& view, std::byte* out);
void overwrite_block(const kernels::KernelSet& kernels, const WritableBlockView& view,
                     const std::byte* bytes, kernels::Output output);

// At ascending positions of the block. `next`: the array that is accessed afterwards
// (kernels::Upcoming).
using Positions = std::span<const std::uint16_t>;
void gather(const kernels::KernelSet& kernels, const BlockView& view, Positions positions,
            std::byte* values, const kernels::Upcoming& next = {});
void scatter(const kernels::KernelSet& kernels, const WritableBlockView& view, Positions positions,
             const std::byte* values, const kernels::Upcoming& next = {});
void exchange(const kernels::KernelSet& kernels, const WritableBlockView& view, Positions positions,
              std::byte* values, const kernels::Upcoming& next = {});
void add_steps_at(const kernels::KernelSet& kernels, const WritableBlockView& view,
                  Positions positions, const std::byte* steps, const kernels::Upcoming& next = {});

// The first accesses of this block, as a hint for a call before it.
kernels::Upcoming upcoming(const BlockView& view, Positions positions);

}  // namespace sparcl::codec
