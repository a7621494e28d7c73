#pragma once
// One worker of an UpdateEncoder: finds the changes of blocks and codes them. Blocks are
// independent of each other, so that several workers can run in parallel. Workers write no stream:
// the encoder puts their results in order.

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "src/codec/array_source.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/change_scan.hpp"
#include "src/codec/class_encoder.hpp"
#include "src/codec/class_regions.hpp"
#include "src/codec/early_writer.hpp"
#include "src/codec/group_encoder.hpp"
#include "src/codec/left_out.hpp"
#include "src/codec/superblock.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

// The input that all workers share.
struct EncoderInput {
  const BlockMap& map;
  ArrayInput base;
  ArrayInput target;
  EncodeOptions options;
  std::vector<const ChangedHint*> hints;
  const kernels::KernelSet& kernels;
  bool has_whole_base = true;

  bool is_of_some_blocks() const { return !options.only_blocks.empty(); }
  bool leaves_out(std::uint64_t block) const {
    return is_of_some_blocks() && (options.only_blocks[block / 64] >> (block % 64) & 1) == 0;
  }
  // Does the update name its base state?
  bool says_base() const {
    return options.with_state_hash && (has_whole_base || is_of_some_blocks());
  }
  // May the encoder send only some of the differences of a block? Hints may leave changes unnamed.
  bool selects() const {
    return !hints.empty() ||
           ((options.rule != nullptr || options.values.is_lossy()) && has_whole_base);
  }
  bool knows_changes() const { return options.known_changes != nullptr; }
  // Only if the receiver can tell a wrong base from its own target. The changes alone do not tell,
  // because the receiver needs its base to find them.
  bool allows_classes() const {
    const bool wanted =
        options.mode == &kClassesMode || (options.allow_classes && options.mode == nullptr);
    return wanted && options.with_state_hash && has_whole_base && !selects() && !knows_changes();
  }
};

// The unit of coding: a superblock, if it has a table; otherwise one block.
struct CodingUnit {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // the block after it
  const RegionTable* table = nullptr;
  bool ends_region = false;  // blocks after it do not share a section with those before
};

// A block section before it has its position in the stream.
struct CodedBlock {
  std::uint64_t index = 0;
  std::uint64_t last = 0;  // the block after it: some cover several
  const BlockMode* mode = nullptr;
  const RegionTable* table = nullptr;  // of mode classes
  std::size_t bytes = 0;               // of the payload with its check
  bool is_target =
      false;  // the payload is the target's block as it is, and not in CodedBlocks::payloads
  std::uint64_t elements = 0;  // elements in the section
  std::uint64_t changed = 0;
  kernels::ChangeHashes hashes;
};

struct CodedBlocks {
  std::vector<CodedBlock> blocks;
  std::vector<std::byte> payloads;  // one after the other
  std::uint64_t elements = 0;       // elements examined
  Hash128 whole_sum;  // of all of them in the base, or in the target if the base is not whole;
                      // if requested
  LossyError lossy;
  LeftOut left_out;

  void clear();
};

class BlockEncoder {
 public:
  explicit BlockEncoder(const EncoderInput& input);

  // Units ascend from call to call. Adds to coded(). Some blocks are added by a later call, because
  // they wait for their neighbours.
  Status encode(const CodingUnit& unit);
  CodedBlocks& coded() { return coded_; }
  Status check_hints() const { return scan_.check(); }
  // The writer that has written to options.bring_forward.
  EarlyWriter& forward() { return forward_; }

 private:
  struct Part {  // a block being coded
    std::uint64_t index = 0;
    std::vector<Piece> pieces;
    BlockView base;  // unless the block is fresh
    BlockView target;
    BlockInput base_input;  // memory of these views
    BlockInput target_input;
    BlockChanges changes;
    ModeChoice choice{nullptr, kCannot};
  };

  void prepare(Part& part) const;
  Status encode_block(std::uint64_t index);
  void encode_superblock(const CodingUnit& unit);
  bool classes_are_best(std::size_t class_bytes, std::size_t part_count, const RegionTable& table);
  void add_classes(const CodingUnit& unit, std::size_t bytes);
  bool add_to_group(const Part& part);
  void end_group();
  void write_group(std::size_t bytes);
  void restore(const GroupEncoder::Part& grouped);
  void open(Part& part, std::uint64_t index);
  BlockShape set_place(Part& part, std::uint64_t index) const;
  void set_views(Part& part, std::uint64_t index);
  void take_known(Part& part);
  std::size_t select(Part& part, std::size_t found);
  bool needs_target(const BlockChanges& changes) const;
  void rebuild_target(Part& part);
  void add_to_whole(const Part& part);
  void choose(Part& part);
  bool travels_whole(const BlockChanges& changes) const;
  void add_block(Part& part);
  std::byte* add_payload(const CodedBlock& block);
  kernels::ChangeHashes hash_changes(const Part& part);
  kernels::ChangeHashes hash_listed(const Part& part) const;
  Hash128 hash_block(const BlockView& view, std::uint64_t index);
  void bring_forward(const Part& part);
  void bring_forward(const Part& part, BlockShape shape, Positions positions,
                     std::span<const std::byte> old_values, std::span<const std::byte> new_values);
  bool lacks_base(const Part& part) const;

  const EncoderInput& input_;
  ChangeScan scan_;
  EarlyWriter forward_;
  ClassEncoder classes_;
  GroupEncoder group_;
  kernels::ChangeHashes group_hashes_;
  Part grouped_part_;  // one of the group's blocks
  CodedBlocks coded_;
  std::array<Part, kSuperBlocks>
      parts_;  // of a superblock; only the first if each block is coded alone
  std::vector<std::byte> hash_scratch_;
  std::vector<std::byte> rebuilt_block_;
  LeftOutMeter left_out_;
  std::byte* rebuilt_array_ = nullptr;
  Piece rebuilt_piece_{};
};

}  // namespace sparcl::codec
