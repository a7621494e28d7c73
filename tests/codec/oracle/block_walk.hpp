#pragma once
// Goes through an update's blocks in order: what they change, and the sums that the stream's checks
// are made of.

#include "tests/codec/oracle/blocks.hpp"
#include "tests/codec/oracle/class_blocks.hpp"
#include "tests/codec/oracle/hashes.hpp"

namespace sparcl::oracle {

// Over the blocks since the last chunk end, fresh ones left out: of the elements that they list,
// what is held and what comes out.
struct ChunkSums {
  Hash held;
  Hash result;
  bool has_classes = false;
  bool fits = true;  // each change of a class has found its element
};

class BlockWalk {
 public:
  BlockWalk(const Receiver& receiver, const std::vector<Bytes>& held);

  void read(const Section& section);  // a block or a class table
  // No table is left that no block has used.
  bool tables_are_used() const { return table_is_used_; }
  bool has_classes() const { return has_classes_; }
  ChunkSums end_chunk();

  std::uint64_t block_count() const { return block_count_; }
  std::uint64_t element_count() const { return element_count_; }
  const std::vector<Bytes>& held() const { return held_; }
  const std::vector<Bytes>& result() const { return result_; }  // with all blocks written
  const std::vector<Bytes>& held_and_fresh() const {
    return held_and_fresh_;
  }  // with the fresh ones alone
  Hash state_hash(const std::vector<Bytes>& arrays) const;

 private:
  const Block& next_block(ByteCursor& content, bool has_gap);
  void read_superblock(ByteCursor& content, const Block& first);
  void read_group(unsigned mode, ByteCursor& content, const Block& first);
  void add(const Block& block, const Changes& changes, const Values& old);

  const Receiver& receiver_;
  const std::vector<Block> blocks_;
  const std::vector<Bytes>& held_;
  std::vector<Bytes> result_;
  std::vector<Bytes> held_and_fresh_;
  std::uint64_t next_block_ = 0;
  std::uint64_t block_count_ = 0;
  std::uint64_t element_count_ = 0;
  ChunkSums chunk_;
  ClassTable table_;
  bool table_is_used_ = true;
  bool has_classes_ = false;
};

}  // namespace sparcl::oracle
