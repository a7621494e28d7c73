#include "tests/codec/oracle/block_walk.hpp"

namespace sparcl::oracle {

BlockWalk::BlockWalk(const Receiver& receiver, const std::vector<Bytes>& held)
    : receiver_(receiver),
      blocks_(cut_blocks(receiver.arrays)),
      held_(held),
      result_(held),
      held_and_fresh_(held) {}

const Block& BlockWalk::next_block(ByteCursor& content, bool has_gap) {
  if (has_gap) {
    const std::uint64_t gap = content.varint();
    refuse_if(gap == 0 || gap > blocks_.size() - next_block_,
              "a gap of no blocks, or past the last");
    next_block_ += gap;
  }
  refuse_if(next_block_ >= blocks_.size(), "a block past the last");
  return blocks_[next_block_++];
}

void BlockWalk::read(const Section& section) {
  ByteCursor content(section.content);
  if (section.tag == kClassTable) {
    refuse_if(!table_is_used_, "a class table that no block uses");
    table_ = read_class_table(section.content);
    table_is_used_ = false;
    return;
  }
  const Block& block = next_block(content, section.has_gap());
  ++block_count_;
  if (section.mode() == kClasses) {
    read_superblock(content, block);
    return;
  }
  if (section.mode() >= kFlatGroup) {
    read_group(section.mode(), content, block);
    return;
  }
  const Values old = load(held_, block);
  const Changes changes =
      read_block(section.mode(), content.take(content.left()), block, old, Kind::kUpdate);
  element_count_ += changes.positions.size();
  add(block, changes, old);
  if (!changes.needs_base) return;
  chunk_.has_classes = true;
  chunk_.fits = chunk_.fits && changes.fits;
  has_classes_ = true;
}

void BlockWalk::read_superblock(ByteCursor& content, const Block& first) {
  refuse_if(first.kind.bytes != 2 || !first.kind.is_float, "classes of what is no 16-bit float");
  refuse_if(first.in_run % kSuperblock != 0, "classes inside a superblock");
  refuse_if(table_.empty(), "classes without a table");
  std::vector<Block> blocks{first};
  std::vector<Values> olds{load(held_, first)};
  for (; blocks.size() < kSuperblock && next_block_ < blocks_.size() &&
         blocks_[next_block_].in_run > 0;
       ++next_block_) {
    blocks.push_back(blocks_[next_block_]);
    olds.push_back(load(held_, blocks_[next_block_]));
  }
  const SuperChanges super =
      oracle::read_superblock(content.take(content.left()), table_, blocks, olds);
  for (std::size_t i = 0; i < blocks.size(); ++i) add(blocks[i], super.changes[i], olds[i]);
  chunk_.has_classes = true;
  chunk_.fits = chunk_.fits && super.fits;
  element_count_ += super.count;
  table_is_used_ = true;
  has_classes_ = true;
}

void BlockWalk::read_group(unsigned mode, ByteCursor& content, const Block& first) {
  std::vector<Block> blocks{first};
  Values old = load(held_, first);
  for (std::uint64_t more = content.number(1); more > 0; --more) {
    refuse_if(next_block_ == blocks_.size() || blocks_[next_block_].in_run == 0,
              "a group goes on past its run");
    const Block& block = blocks_[next_block_++];
    const Values values = load(held_, block);
    old.insert(old.end(), values.begin(), values.end());
    blocks.push_back(block);
  }
  Block whole = first;
  whole.elements = old.size();
  const unsigned block_mode = mode == kFlatGroup       ? kFlat
                              : mode == kTwoLevelGroup ? kTwoLevel
                                                       : kBlockSparse;
  const Changes changes =
      read_block(block_mode, content.take(content.left()), whole, old, Kind::kUpdate);
  const bool any_count = mode == kBlockSparse && blocks.size() == 1;
  refuse_if(!any_count && changes.positions.size() > kMaxGroupChanges,
            "a group of more changes than there may be");
  element_count_ += changes.positions.size();
  std::vector<Changes> parts(blocks.size());
  for (std::size_t i = 0; i < changes.positions.size(); ++i) {
    Changes& part = parts[changes.positions[i] / kBlockElements];
    part.positions.push_back(changes.positions[i] % kBlockElements);
    part.values.push_back(changes.values[i]);
  }
  refuse_if(parts.front().positions.empty() || parts.back().positions.empty(),
            "a group begins or ends with an unchanged block");
  for (std::size_t i = 0; i < blocks.size(); ++i) add(blocks[i], parts[i], load(held_, blocks[i]));
}

void BlockWalk::add(const Block& block, const Changes& changes, const Values& old) {
  Values listed;
  Values now = old;
  for (std::size_t i = 0; i < changes.positions.size(); ++i) {
    listed.push_back(old[changes.positions[i]]);
    now[changes.positions[i]] = changes.values[i];
  }
  store(result_, block, now);
  if (changes.fresh) {
    store(held_and_fresh_, block, now);
  } else {
    chunk_.held =
        chunk_.held + element_sums(block.index, block.kind.bytes, changes.positions, listed);
    chunk_.result = chunk_.result +
                    element_sums(block.index, block.kind.bytes, changes.positions, changes.values);
  }
}

ChunkSums BlockWalk::end_chunk() {
  const ChunkSums sums = chunk_;
  chunk_ = {};
  return sums;
}

Hash BlockWalk::state_hash(const std::vector<Bytes>& arrays) const {
  Hash sum = receiver_.schema;
  for (const Block& block : blocks_) {
    const Values values = load(arrays, block);
    sum = sum + element_sums(block.index, block.kind.bytes, all_positions(block), values);
  }
  return sum;
}

}  // namespace sparcl::oracle
