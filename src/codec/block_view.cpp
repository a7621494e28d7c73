#include "src/codec/block_view.hpp"

#include <algorithm>
#include <cstring>

namespace sparcl::codec {
namespace {

// Calls visit(piece, its positions, how many came before them, what comes next) for the pieces that hold any.
template <class Visit>
void split_by_piece(std::span<const Piece> pieces, Positions positions, const kernels::Upcoming& next, Visit visit) {
  if (pieces.size() == 1) {
    visit(pieces[0], positions, std::size_t{0}, next);
    return;
  }
  std::size_t done = 0;
  for (const Piece& piece : pieces) {
    if (done == positions.size()) return;
    const std::uint32_t end = piece.offset + piece.count;
    const auto last = std::lower_bound(positions.begin() + static_cast<std::ptrdiff_t>(done), positions.end(), end);
    const std::size_t count = static_cast<std::size_t>(last - positions.begin()) - done;
    if (count > 0)
      visit(piece, positions.subspan(done, count), done, done + count == positions.size() ? next : kernels::Upcoming{});
    done += count;
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
  for (const Piece& piece : view.pieces) std::memcpy(out + piece.offset * width, view.data(piece), piece.count * width);
}

void overwrite_block(const WritableBlockView& view, const std::byte* bytes) {
  const std::size_t width = view.shape.element_bytes();
  for (const Piece& piece : view.pieces) std::memcpy(view.data(piece), bytes + piece.offset * width, piece.count * width);
}

void gather(const kernels::KernelSet& kernels, const BlockView& view, Positions positions, std::byte* values,
            const kernels::Upcoming& next) {
  const std::size_t width = view.shape.element_bytes();
  auto* kernel = kernels.of(view.shape.datatype).gather;
  split_by_piece(view.pieces, positions, next,
                 [&](const Piece& piece, Positions part, std::size_t before, const kernels::Upcoming& hint) {
                   kernel(view.data(piece), part.data(), part.size(), piece.offset, values + before * width, hint);
                 });
}

void scatter(const kernels::KernelSet& kernels, const WritableBlockView& view, Positions positions, const std::byte* values,
             const kernels::Upcoming& next) {
  const std::size_t width = view.shape.element_bytes();
  auto* kernel = kernels.of(view.shape.datatype).scatter;
  split_by_piece(view.pieces, positions, next,
                 [&](const Piece& piece, Positions part, std::size_t before, const kernels::Upcoming& hint) {
                   kernel(view.data(piece), part.data(), part.size(), piece.offset, values + before * width, hint);
                 });
}

void add_steps_at(const kernels::KernelSet& kernels, const WritableBlockView& view, Positions positions, const std::byte* steps,
                  const kernels::Upcoming& next) {
  const std::size_t width = view.shape.element_bytes();
  auto* kernel = kernels.order_of(view.shape.datatype).add_steps_at;
  split_by_piece(view.pieces, positions, next,
                 [&](const Piece& piece, Positions part, std::size_t before, const kernels::Upcoming& hint) {
                   kernel(view.data(piece), part.data(), part.size(), piece.offset, steps + before * width, hint);
                 });
}

kernels::Upcoming upcoming(const BlockView& view, Positions positions) {
  if (positions.empty()) return {};
  const auto piece = std::upper_bound(view.pieces.begin(), view.pieces.end(), positions[0],
                                      [](std::uint16_t position, const Piece& each) { return position < each.offset; }) -
                     1;
  const auto end = std::lower_bound(positions.begin(), positions.end(), piece->offset + piece->count);
  return {view.data(*piece), positions.data(), static_cast<std::size_t>(end - positions.begin()), piece->offset};
}

}  // namespace sparcl::codec
