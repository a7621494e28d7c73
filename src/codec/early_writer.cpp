#include "src/codec/early_writer.hpp"

#include <cstring>

#include "src/base/failpoint.hpp"

namespace sparcl::codec {
namespace {

static_assert(kSegmentBytes >= kBlockElements * (sizeof(std::uint64_t) + sizeof(std::uint16_t)),
              "a block's log fits one segment");

}  // namespace

std::byte* EarlyWriter::room(std::size_t bytes) {
  if (segments_.empty() || used_ + bytes > kSegmentBytes) {
    segments_.push_back(take_segment());
    used_ = 0;
  }
  std::byte* at = segments_.back().data() + used_;
  used_ += (bytes + 1) & ~std::size_t{1};  // positions stay aligned
  return at;
}

void EarlyWriter::write(std::uint64_t index, const WritableBlockView& view, Positions positions,
                        std::span<const std::byte> old_values,
                        std::span<const std::byte> new_values) {
  // The log is complete before the first byte is written: running out of memory here leaves the
  // block old.
  const std::size_t values_bytes = (old_values.size() + 1) & ~std::size_t{1};
  std::byte* at = room(values_bytes + positions.size_bytes());
  std::memcpy(at, old_values.data(), old_values.size());
  std::memcpy(at + values_bytes, positions.data(), positions.size_bytes());
  pieces_.reserve(view.pieces.size());
  log_.push_back({index, positions.size(), at});
  scatter(kernels_, view, positions, new_values.data());
  SPARCL_FAILPOINT("update.early_write");
}

void EarlyWriter::add_to(ChangeLog& log) const {
  std::size_t bytes = 0;
  for (const Replaced& block : log_)
    bytes += ChangeLog::bytes_of(block.count, width_of(block.index));
  log.reserve(log_.size(), bytes);
  for (const Replaced& block : log_) {
    const std::size_t width = width_of(block.index);
    log.add(block.index, width, positions_of(block, width), {block.values, block.count * width});
  }
}

std::size_t EarlyWriter::width_of(std::uint64_t index) const {
  return element_bytes(map_.run_of(index).datatype);
}

Positions EarlyWriter::positions_of(const Replaced& block, std::size_t width) {
  const std::size_t values_bytes = (block.count * width + 1) & ~std::size_t{1};
  return {reinterpret_cast<const std::uint16_t*>(block.values + values_bytes), block.count};
}

void EarlyWriter::take_back() {
  for (const Replaced& block : log_) {  // blocks are disjoint: any order will do
    const DataType datatype = map_.block(block.index, pieces_);
    const WritableBlockView view{shape_of(datatype, pieces_), pieces_, held_};
    scatter(kernels_, view, positions_of(block, element_bytes(datatype)), block.values);
  }
  log_.clear();
}

}  // namespace sparcl::codec
