#pragma once
// Goes through the blocks of a sparse vector in order.

#include "tests/codec/oracle/blocks.hpp"
#include "tests/codec/oracle/hashes.hpp"

namespace sparcl::oracle {

class SparseWalk {
 public:
  explicit SparseWalk(std::uint8_t data_type) : kind_(element_kind(data_type)) {}

  void read(const Section& section);  // a block
  Hash end_chunk();                   // the sums of the chunk's values

  std::uint64_t block_count() const { return block_count_; }
  const std::vector<std::uint64_t>& indices() const { return indices_; }
  const Bytes& values() const { return values_; }

 private:
  ElementKind kind_;
  std::vector<std::uint64_t> indices_;
  Bytes values_;
  std::uint64_t next_block_ = 0;
  std::uint64_t block_count_ = 0;
  Hash sums_;
};

}  // namespace sparcl::oracle
