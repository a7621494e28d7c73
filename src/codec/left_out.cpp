#include "src/codec/left_out.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "src/base/bytes.hpp"
#include "src/base/number.hpp"

namespace sparcl::codec {

std::vector<std::byte> serialise(const LeftOut& left_out) {
  ByteWriter writer;
  writer.write(left_out.count);
  writer.write(std::bit_cast<std::uint64_t>(left_out.squares));
  writer.write(std::bit_cast<std::uint64_t>(left_out.largest));
  return writer.take();
}

std::optional<LeftOut> parse_left_out(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  LeftOut found;
  std::uint64_t squares = 0, largest = 0;
  if (!reader.read(found.count) || !reader.read(squares) || !reader.read(largest) ||
      reader.remaining() != 0)
    return {};
  found.squares = std::bit_cast<double>(squares);
  found.largest = std::bit_cast<double>(largest);
  return found.squares >= 0 && found.largest >= 0 ? std::optional(found) : std::nullopt;
}

void LeftOutMeter::note(const FoundChanges& found) {
  const std::size_t width = element_bytes(found.datatype);
  positions_.assign(found.positions, found.positions + found.count);
  sizes_.resize(found.count);
  for (std::size_t i = 0; i < found.count; ++i) {
    const double size = std::fabs(load_number(found.datatype, found.new_values + i * width) -
                                  load_number(found.datatype, found.old_values + i * width));
    sizes_[i] = std::isnan(size) ? std::numeric_limits<double>::infinity() : size;
  }
}

LeftOut LeftOutMeter::compare(const FoundChanges& kept) const {
  LeftOut left_out;
  std::size_t next = 0;  // of those that are kept, in their order
  for (std::size_t i = 0; i < positions_.size(); ++i) {
    const double square = sizes_[i] * sizes_[i];
    left_out.change_squares += square;
    if (next < kept.count && kept.positions[next] == positions_[i]) {
      ++next;
      continue;
    }
    ++left_out.count;
    left_out.squares += square;
    left_out.largest = std::max(left_out.largest, sizes_[i]);
  }
  return left_out;
}

}  // namespace sparcl::codec
