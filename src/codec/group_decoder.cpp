#include "src/codec/group_decoder.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"

namespace sparcl::codec {

const char* GroupDecoder::read(const kernels::KernelSet& kernels, unsigned mode, DataType datatype,
                               std::uint32_t elements, std::span<const std::byte> content) {
  elements_ = elements;
  count_ = taken_ = 0;
  mode_ = mode;
  if (content.empty()) return "is empty";
  const auto last_block = static_cast<std::uint32_t>(content[0]);
  ByteReader reader(content.subspan(1));
  std::uint64_t count = 0;
  const std::uint64_t most = max_group_changes(mode, last_block + std::uint64_t{1});
  if (!reader.read_varint(count) || count == 0 || count > elements || count > most)
    return "has an invalid change count";
  content = content.subspan(1 + reader.position());
  count_ = static_cast<std::size_t>(count);
  if (const char* wrong = read_list_head(content)) return wrong;
  if (const char* wrong = steps_reader_.read_head(content, count_)) return wrong;
  BitCursor bits{content.data(), 0, 8 * std::uint64_t{content.size()}};
  if (const char* wrong = read_lists(kernels, datatype, bits)) return wrong;
  const bool reaches_both =
      next_block() == 0 && positions_.data()[count_ - 1] / kBlockElements == last_block;
  return reaches_both ? nullptr : "begins or ends with a block that does not change";
}

const char* GroupDecoder::read_list_head(std::span<const std::byte>& content) {
  if (mode_ == kTwoLevelGroupId && !two_level_.read_head(content, elements_, count_))
    return "has invalid sizes of gaps";
  if (mode_ == kBlockSparseId && !block_sparse_.read_head(content, elements_, count_))
    return "has invalid sub-blocks";
  return nullptr;
}

bool GroupDecoder::read_list_planes(const kernels::ListKernels& lists, BitCursor& bits) {
  if (mode_ == kTwoLevelGroupId) return two_level_.read_planes(lists, bits);
  if (mode_ == kBlockSparseId) return block_sparse_.read_planes(lists, bits);
  return list_.read_planes(lists, bits, elements_, count_);
}

bool GroupDecoder::read_list_unary(const kernels::ListKernels& lists, BitCursor& bits,
                                   std::uint32_t* positions) {
  if (mode_ == kTwoLevelGroupId) return two_level_.read_unary(lists, bits, positions);
  if (mode_ == kBlockSparseId) return block_sparse_.read_unary(lists, bits, positions);
  return list_.read_unary(lists, bits, positions);
}

const char* GroupDecoder::read_lists(const kernels::KernelSet& kernels, DataType datatype,
                                     BitCursor& bits) {
  std::uint32_t* positions = positions_.need(count_ + kernels::kPositionSlack);
  std::byte* steps = steps_.need(count_ * element_bytes(datatype));
  if (!read_list_planes(kernels.lists, bits))
    return "ends inside its positions, or has long gaps or sub-blocks past its end";
  if (const char* wrong = steps_reader_.read_planes(kernels, datatype, bits, steps)) return wrong;
  if (!read_list_unary(kernels.lists, bits, positions)) return "has positions past its end";
  if (const char* wrong = steps_reader_.read_unary(kernels, datatype, bits, steps)) return wrong;
  return ends_cleanly(bits) ? nullptr : "does not end where its steps do";
}

void GroupDecoder::take(std::uint32_t block_in_group, BlockShape shape, DecodedBlock& block) {
  const std::uint32_t* positions = positions_.data() + taken_;
  const std::uint32_t end = (block_in_group + 1) * kBlockElements;
  const auto* last = std::lower_bound(
      positions, static_cast<const std::uint32_t*>(positions_.data()) + count_, end);
  const auto count = static_cast<std::size_t>(last - positions);
  make_room(block, shape, count);
  block.kind = DecodedKind::kSteps;
  block.fresh = false;
  std::uint16_t* in_block = block.positions.data();
  for (std::size_t i = 0; i < count; ++i) in_block[i] = static_cast<std::uint16_t>(positions[i]);
  std::memcpy(block.values.data(), steps_.data() + taken_ * shape.element_bytes(),
              count * shape.element_bytes());
  taken_ += count;
}

}  // namespace sparcl::codec
