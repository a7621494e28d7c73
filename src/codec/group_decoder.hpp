#pragma once
// Modes flat_group, two_level_group and block_sparse, the receiver's side: the content is read at
// once, then the blocks are taken one by one.

#include <cstdint>
#include <span>

#include "src/codec/block_mode.hpp"
#include "src/codec/scratch.hpp"

namespace sparcl::codec {

class GroupDecoder {
 public:
  // The content, untrusted, kBitSlackBytes zero bytes after it. Its first byte is the number of
  // blocks that it covers; `elements`: of these blocks. Returns nullptr, or a description of the
  // error.
  const char* read(const kernels::KernelSet& kernels, unsigned mode, DataType datatype,
                   std::uint32_t elements, std::span<const std::byte> content);
  std::size_t changes() const { return count_; }

  // The block of the next change, counted from the group's first. Not after the last.
  bool has_more() const { return taken_ < count_; }
  std::uint32_t next_block() const { return positions_.data()[taken_] / kBlockElements; }
  // The changes of this block, which is not before the next one's; maybe none.
  void take(std::uint32_t block_in_group, BlockShape shape, DecodedBlock& block);

 private:
  const char* read_list_head(std::span<const std::byte>& content);
  bool read_list_planes(const kernels::ListKernels& lists, BitCursor& bits);
  bool read_list_unary(const kernels::ListKernels& lists, BitCursor& bits,
                       std::uint32_t* positions);
  const char* read_lists(const kernels::KernelSet& kernels, DataType datatype, BitCursor& bits);

  std::uint32_t elements_ = 0;
  std::size_t count_ = 0;
  std::size_t taken_ = 0;
  unsigned mode_ = kFlatGroupId;
  RiceListReader list_;
  BasicTwoLevelReader<std::uint32_t> two_level_;
  BlockSparseReader block_sparse_;
  StepListReader steps_reader_;
  Scratch<std::uint32_t> positions_;
  Scratch<std::byte> steps_;
};

}  // namespace sparcl::codec
