#include "src/codec/group_decoder.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"

namespace sparcl::codec {

const char* GroupDecoder::read(const kernels::KernelSet& kernels, unsigned mode, DataType datatype, std::uint32_t elements,
                               std::span<const std::byte> content) {
  elements_ = elements;
  count_ = taken_ = 0;
  is_two_level_ = mode == kTwoLevelGroupId;
  if (content.empty()) return "is empty";
  const auto last_block = static_cast<std::uint32_t>(content[0]);
  ByteReader reader(content.subspan(1));
  std::uint64_t count = 0;
  if (!reader.read_varint(count) || count == 0 || count > elements || count > kMaxGroupChanges)
    return "has an invalid change count";
  content = content.subspan(1 + reader.position());
  count_ = static_cast<std::size_t>(count);
  if (is_two_level_ && !two_level_.read_head(content, elements, count_)) return "has invalid sizes of gaps";
  if (const char* wrong = steps_reader_.read_head(content, count_)) return wrong;
  BitCursor bits{content.data(), 0, 8 * std::uint64_t{content.size()}};
  if (const char* wrong = read_lists(kernels, datatype, bits)) return wrong;
  const bool reaches_both = next_block() == 0 && positions_.data()[count_ - 1] / kBlockElements == last_block;
  return reaches_both ? nullptr : "begins or ends with a block that does not change";
}

const char* GroupDecoder::read_lists(const kernels::KernelSet& kernels, DataType datatype, BitCursor& bits) {
  std::uint32_t* positions = positions_.need(count_ + kernels::kPositionSlack);
  std::byte* steps = steps_.need(count_ * element_bytes(datatype));
  const bool has_planes =
      is_two_level_ ? two_level_.read_planes(kernels.lists, bits) : list_.read_planes(kernels.lists, bits, elements_, count_);
  if (!has_planes) return "ends inside its positions, or has long gaps past its end";
  if (const char* wrong = steps_reader_.read_planes(kernels, datatype, bits, steps)) return wrong;
  const bool has_positions =
      is_two_level_ ? two_level_.read_unary(kernels.lists, bits, positions) : list_.read_unary(kernels.lists, bits, positions);
  if (!has_positions) return "has positions past its end";
  if (const char* wrong = steps_reader_.read_unary(kernels, datatype, bits, steps)) return wrong;
  return ends_cleanly(bits) ? nullptr : "does not end where its steps do";
}

void GroupDecoder::take(std::uint32_t block_in_group, BlockShape shape, DecodedBlock& block) {
  const std::uint32_t* positions = positions_.data() + taken_;
  const std::uint32_t end = (block_in_group + 1) * kBlockElements;
  const auto* last = std::lower_bound(positions, static_cast<const std::uint32_t*>(positions_.data()) + count_, end);
  const auto count = static_cast<std::size_t>(last - positions);
  make_room(block, shape, count);
  block.kind = DecodedKind::kSteps;
  block.fresh = false;
  std::uint16_t* in_block = block.positions.data();
  for (std::size_t i = 0; i < count; ++i) in_block[i] = static_cast<std::uint16_t>(positions[i]);
  std::memcpy(block.values.data(), steps_.data() + taken_ * shape.element_bytes(), count * shape.element_bytes());
  taken_ += count;
}

}  // namespace sparcl::codec
