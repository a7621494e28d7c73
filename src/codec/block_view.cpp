#include "src/codec/block_view.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sparcl::codec {
namespace {

// Calls a kernel that takes elements at positions, piece by piece, for pieces with positions.
// `next` is passed with the last piece.
template <class Byte, class Values, class Kernel>
void by_piece(const BasicBlockView<Byte>& view, Positions positions, Values* values,
              const kernels::Upcoming& next, Kernel* kernel) {
  if (view.pieces.size() == 1) {
    const Piece& piece = view.pieces[0];
    return kernel(view.data(piece), positions.data(), positions.size(), piece.offset, values, next);
  }
  const std::size_t width = view.shape.element_bytes();
  std::size_t done = 0;
  for (const Piece& piece : view.pieces) {
    if (done == positions.size()) return;
    const std::uint32_t end = piece.offset + piece.count;
    const auto last = std::lower_bound(positions.begin() + static_cast<std::ptrdiff_t>(done),
                                       positions.end(), end);
    const std::size_t before =
        std::exchange(done, static_cast<std::size_t>(last - positions.begin()));
    if (done == before) continue;
    kernel(view.data(piece), positions.data() + before, done - before, piece.offset,
           values + before * width, done == positions.size() ? next : kernels::Upcoming{});
  }
}

}  // namespace

std::span<const std::byte> whole_block(const BlockView& view, std::vector<std::byte>& scratch) {
  if (view.pieces.size() == 1) return {view.data(view.pieces[0]), view.shape.bytes()};
  if (scratch.size() < view.shape.bytes()) scratch.resize(view.shape.bytes());
  copy_block(view, scratch.data());
  return {scratch.data(), view.shape.bytes()};
}

void copy_block(const BlockView& view, std::byte* out) {
  const std::size_t width = view.shape.element_bytes();
  for (const Piece& piece : view.pieces)
    std::memcpy(out + piece.offset * width, view.data(piece), piece.count * width);
}

void overwrite_block(const kernels::KernelSet& kernels, const WritableBlockView& view,
                     const std::byte* bytes, kernels::Output output) {
  const std::size_t width = view.shape.element_bytes();
  for (const Piece& piece : view.pieces) {
    kernels.entries.copy_bytes(bytes + piece.offset * width, piece.count * width, output,
                               view.data(piece));
  }
}

void gather(const kernels::KernelSet& kernels, const BlockView& view, Positions positions,
            std::byte* values, const kernels::Upcoming& next) {
  by_piece(view, positions, values, next, kernels.of(view.shape.datatype).gather);
}

void scatter(const kernels::KernelSet& kernels, const WritableBlockView& view, Positions positions,
             const std::byte* values, const kernels::Upcoming& next) {
  by_piece(view, positions, values, next, kernels.of(view.shape.datatype).scatter);
}

void exchange(const kernels::KernelSet& kernels, const WritableBlockView& view, Positions positions,
              std::byte* values, const kernels::Upcoming& next) {
  if (positions.size() < view.shape.elements) {
    return by_piece(view, positions, values, next, kernels.of(view.shape.datatype).exchange);
  }
  const std::size_t width = view.shape.element_bytes();
  for (const Piece& piece : view.pieces) {
    std::byte* at = view.data(piece);
    std::swap_ranges(at, at + piece.count * width, values + piece.offset * width);
  }
}

void add_steps_at(const kernels::KernelSet& kernels, const WritableBlockView& view,
                  Positions positions, const std::byte* steps, const kernels::Upcoming& next) {
  by_piece(view, positions, steps, next, kernels.order_of(view.shape.datatype).add_steps_at);
}

kernels::Upcoming upcoming(const BlockView& view, Positions positions) {
  if (positions.empty()) return {};
  const auto piece = std::upper_bound(view.pieces.begin(), view.pieces.end(), positions[0],
                                      [](std::uint16_t position, const Piece& each) {
                                        return position < each.offset;
                                      }) -
                     1;
  const auto end =
      std::lower_bound(positions.begin(), positions.end(), piece->offset + piece->count);
  return {view.data(*piece), positions.data(), static_cast<std::size_t>(end - positions.begin()),
          piece->offset};
}

}  // namespace sparcl::codec
