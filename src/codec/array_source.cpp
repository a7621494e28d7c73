#include "src/codec/array_source.hpp"

#include <algorithm>
#include <cstring>

namespace sparcl::codec {

Status RoutedSource::status() const {
  for (const ArraySource* const each : sources_) {
    if (each != nullptr) SPARCL_RETURN_IF_ERROR(each->status());
  }
  return {};
}

const std::byte* ArrayInput::read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
                                  std::size_t width, std::vector<std::byte>& scratch) const {
  if (arrays[array] != nullptr) return arrays[array] + first * width;
  scratch.resize(std::max<std::size_t>(scratch.size(), count * width));
  source->read(array, first, count, scratch.data());
  return scratch.data();
}

BlockView BlockInput::read(const ArrayInput& input, BlockShape shape,
                           std::span<const Piece> pieces) {
  const auto is_in_memory = [&](const Piece& piece) {
    return input.arrays[piece.array] != nullptr;
  };
  if (input.source == nullptr || std::ranges::all_of(pieces, is_in_memory))
    return {shape, pieces, input.arrays};
  made_.resize(std::max(made_.size(), shape.bytes()));
  const std::size_t width = shape.element_bytes();
  for (const Piece& piece : pieces) {
    std::byte* out = made_.data() + piece.offset * width;
    if (is_in_memory(piece)) {
      std::memcpy(out, input.arrays[piece.array] + piece.first * width, piece.count * width);
    } else {
      input.source->read(piece.array, piece.first, piece.count, out);
    }
  }
  array_ = made_.data();
  piece_ = {0, 0, shape.elements, 0};
  return {shape, {&piece_, 1}, {&array_, 1}};
}

}  // namespace sparcl::codec
