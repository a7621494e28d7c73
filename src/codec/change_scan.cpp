#include "src/codec/change_scan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/codec/array_source.hpp"

namespace sparcl::codec {
namespace {

Status bad_hint(std::uint32_t array, std::string_view what) {
  return Status(Code::kInvalidArgument,
                fmt::format("hint of changed elements for array {}: {}", array, what));
}

}  // namespace

// A piece's elements, from its first one on.
struct ChangeScan::PieceBytes {
  const Piece& piece;
  std::size_t width;
  const std::byte* base;
  const std::byte* target;
  std::uint64_t end;  // of the elements of its array that lie behind both
};

Status ChangeScan::check() const {
  if (hints_.empty()) return {};
  if (hints_.size() != map_.arrays().size()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} hints for {} arrays: give one an array, or none", hints_.size(),
                              map_.arrays().size()));
  }
  for (std::uint32_t i = 0; i < hints_.size(); ++i) {
    const std::uint64_t count = map_.arrays()[i].count;
    if (hints_[i] == nullptr) continue;
    const ChangedHint& hint = *hints_[i];
    if (hint.block_elements > 0) {
      const std::uint64_t bits = count / hint.block_elements + (count % hint.block_elements != 0);
      if (hint.blocks.size() < bits / 64 + (bits % 64 != 0))
        return bad_hint(i, fmt::format("its bitmap has fewer than {} bits", bits));
    } else if (!hint.indices.empty() && hint.indices.back() >= count) {
      return bad_hint(i, fmt::format("index {} of {} elements", hint.indices.back(), count));
    }
  }
  return {};
}

Status ChangeScan::scan(const BlockView& base, const BlockView& target,
                        std::span<const Piece> pieces, const ChangeOutput& out,
                        std::size_t& count) {
  count = 0;
  const std::size_t width = target.shape.element_bytes();
  const bool in_place =
      base.pieces.data() == pieces.data() && target.pieces.data() == pieces.data();
  for (const Piece& piece : pieces) {
    const ChangedHint* hint = hints_.empty() ? nullptr : hints_[piece.array];
    const std::uint64_t end =
        in_place ? map_.arrays()[piece.array].count : piece.first + piece.count;
    const PieceBytes bytes{piece, width, data_of(base, pieces, piece),
                           data_of(target, pieces, piece), end};
    if (hint == nullptr) {
      count += compare(bytes, piece.first, piece.count, out.after(count, width));
    } else if (hint->block_elements > 0) {
      count += scan_blocks(bytes, *hint, out.after(count, width));
    } else {
      std::size_t found = 0;
      SPARCL_RETURN_IF_ERROR(scan_indices(bytes, *hint, out.after(count, width), found));
      count += found;
    }
  }
  return {};
}

std::size_t ChangeScan::compare(const PieceBytes& bytes, std::uint64_t first, std::uint64_t count,
                                const ChangeOutput& out) const {
  auto* diff =
      kernels_.elements[static_cast<std::size_t>(std::countr_zero(bytes.width))].diff_values;
  const std::uint64_t skipped = first - bytes.piece.first;
  return diff(bytes.base + skipped * bytes.width, bytes.target + skipped * bytes.width, count,
              static_cast<std::uint32_t>(bytes.piece.offset + skipped), out.positions,
              out.old_values, out.new_values);
}

std::size_t ChangeScan::scan_blocks(const PieceBytes& bytes, const ChangedHint& hint,
                                    const ChangeOutput& out) const {
  const Piece& piece = bytes.piece;
  const std::uint64_t end = piece.first + piece.count;
  std::size_t found = 0;
  for (std::uint64_t bit = piece.first / hint.block_elements; bit * hint.block_elements < end;
       ++bit) {
    if (((hint.blocks[bit / 64] >> (bit % 64)) & 1) == 0) continue;
    const std::uint64_t first = std::max(piece.first, bit * hint.block_elements);
    // Written without (bit + 1) * block_elements, which may pass 2^64.
    const std::uint64_t last = end - bit * hint.block_elements <= hint.block_elements
                                   ? end
                                   : (bit + 1) * hint.block_elements;
    found += compare(bytes, first, last - first, out.after(found, bytes.width));
  }
  return found;
}

// Those of the piece that differ; stops at one that does not ascend. The elements lie far apart, in
// memory that is not in a cache: they are asked for some changes ahead.
template <class T>
std::size_t ChangeScan::take_indices(const PieceBytes& bytes,
                                     std::span<const std::uint64_t> indices,
                                     const ChangeOutput& out) {
  constexpr std::size_t kAhead = 96;
  const Piece& piece = bytes.piece;
  const std::uint64_t end = piece.first + piece.count;
  const std::uint64_t last = bytes.end - 1;
  const auto load = [&piece](const std::byte* first, std::uint64_t index) {
    T value;
    std::memcpy(&value, first + (index - piece.first) * sizeof value, sizeof value);
    return value;
  };
  std::size_t found = 0;
  std::uint64_t least = next_ == 0 ? piece.first : std::max(piece.first, indices[next_ - 1] + 1);
  for (; next_ < indices.size() && indices[next_] < end && indices[next_] >= least; ++next_) {
    const std::uint64_t index = indices[next_];
    const std::uint64_t ahead =
        std::min(indices[std::min(next_ + kAhead, indices.size() - 1)], last);
    __builtin_prefetch(bytes.base + (ahead - piece.first) * sizeof(T), 0, 2);
    __builtin_prefetch(bytes.target + (ahead - piece.first) * sizeof(T), 0, 2);
    const T old_value = load(bytes.base, index);
    const T new_value = load(bytes.target, index);
    const ChangeOutput at = out.after(found, sizeof(T));
    *at.positions = static_cast<std::uint16_t>(piece.offset + (index - piece.first));
    std::memcpy(at.old_values, &old_value, sizeof(T));
    std::memcpy(at.new_values, &new_value, sizeof(T));
    found += old_value != new_value;
    least = index + 1;
  }
  return found;
}

Status ChangeScan::scan_indices(const PieceBytes& bytes, const ChangedHint& hint,
                                const ChangeOutput& out, std::size_t& found) {
  const Piece& piece = bytes.piece;
  if (array_ != piece.array || piece.first == 0) {
    array_ = piece.array;
    next_ = 0;
  }
  const std::uint64_t end = piece.first + piece.count;
  switch (bytes.width) {
    case 1:
      found = take_indices<std::uint8_t>(bytes, hint.indices, out);
      break;
    case 2:
      found = take_indices<std::uint16_t>(bytes, hint.indices, out);
      break;
    case 4:
      found = take_indices<std::uint32_t>(bytes, hint.indices, out);
      break;
    default:
      found = take_indices<std::uint64_t>(bytes, hint.indices, out);
      break;
  }
  if (next_ < hint.indices.size() && hint.indices[next_] < end) {
    return bad_hint(piece.array,
                    fmt::format("index {} (entry {}) does not ascend", hint.indices[next_], next_));
  }
  const bool is_last = end == map_.arrays()[piece.array].count;
  if (is_last && next_ < hint.indices.size())
    return bad_hint(piece.array, fmt::format("entry {} is not below its end", next_));
  return {};
}

}  // namespace sparcl::codec
