#pragma once
// One worker of an UpdateDecoder: decodes blocks, holds them against what is held, and writes them.
// Blocks are independent of each other, so that several workers can be at it.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/staging.hpp"
#include "src/codec/block_check.hpp"
#include "src/codec/block_entry.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/change_log.hpp"
#include "src/codec/class_decoder.hpp"
#include "src/codec/early_writer.hpp"
#include "src/codec/group_decoder.hpp"
#include "src/codec/payload.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

// What all workers see.
struct DecodeInput {
  const BlockMap& map;
  std::vector<std::byte*> held;
  Verify verify;
  const kernels::KernelSet& kernels;
  std::deque<ClassTable> tables;
  ArrayName array_name;
};

// For what all workers keep of the changes that they have checked.
struct ChangesBudget {
  std::uint64_t max_bytes = 0;  // 0: nothing is kept
  std::atomic<std::uint64_t> used_bytes = 0;

  bool is_spent() const { return used_bytes > max_bytes; }
  void spend(std::uint64_t bytes) { used_bytes += bytes; }
  void spend_all() { used_bytes = max_bytes + 1; }
};

class BlockDecoder {
 public:
  BlockDecoder(const DecodeInput& input, Writing writing)
      : input_(input),
        check_(input.verify, input.kernels),
        classes_(input.kernels),
        early_(input.map, input.held, input.kernels,
               writing == Writing::kEarly && input.verify != Verify::kFull) {}

  // Decodes the blocks of an entry and holds them against what is held: all but the last one, whose
  // lines are on their way from memory until the next call, or flush().
  Status check(const Staging& staging, BlockEntry& entry);
  void flush() { check_pending(nullptr); }

  void hash_fresh() { check_.hash_fresh(); }

  BlockFindings take_findings();

  // Writes the entries that it has checked, but for the last one's last block: flush_writes()
  // writes that.
  Status apply(const Staging& staging, const BlockEntry& entry);
  void begin_writes(kernels::Output whole_blocks) {
    pending_ = nullptr;
    whole_blocks_ = whole_blocks;
  }
  void flush_writes() { write_pending(nullptr); }

  EarlyWriter& early() { return early_; }

  // The changes that check() sees, while the budget and memory last. It outlives the decoder.
  void keep_changes(ChangesBudget& budget) { changes_budget_ = &budget; }
  ChangeLog take_changes() { return std::exchange(changes_, {}); }

 private:
  // A block that has been decoded and whose lines are on their way from memory; used one block
  // later.
  struct Slot {
    std::uint64_t index = 0;
    BlockRange checked;  // the blocks whose old check it shares
    std::uint16_t old_check = 0;
    bool of_classes = false;  // its changes are found by what is held: one of the blocks of a
                              // superblock, or in mode coded
    bool is_part = false;     // one of several blocks that share an old check
    bool is_last = false;     // and the last of them
    bool fits = true;         // the last: all changes of the superblock were found
    std::vector<Piece> pieces;
    BlockShape shape;
    DecodedBlock block;
    Payload payload;
  };

  Status load(const Staging& staging, const BlockEntry& entry, Slot& slot);
  Status read_classes(const Staging& staging, const BlockEntry& entry);
  void load_part(const BlockEntry& entry, std::uint64_t index, Slot& slot);
  Status read_group(const Staging& staging, const BlockEntry& entry);
  void load_grouped(const BlockEntry& entry, Slot& slot);
  void check_behind(Slot& slot);
  void check_pending(const Slot* next);
  void keep(const Slot& slot, const BlockCheck::Compared& compared);
  void add_unchanged(std::uint64_t first, std::uint64_t last);
  bool holds_base(const Slot& slot, const BlockCheck::Compared& compared) const;
  void end_parts(const Slot& slot);
  Status apply_classes(const Staging& staging, const BlockEntry& entry);
  Status apply_group(const Staging& staging, const BlockEntry& entry);
  void write_pending(const Slot* next);
  void write_behind(Slot& slot);

  kernels::Upcoming accesses_of(const Slot* slot) const;
  WritableBlockView view(const Slot& slot) const { return {slot.shape, slot.pieces, input_.held}; }
  Slot& spare() { return slots_[pending_ == &slots_[0] ? 1 : 0]; }

  const DecodeInput& input_;
  BlockCheck check_;
  ClassDecoder classes_;
  GroupDecoder group_;
  EarlyWriter early_;
  kernels::Output whole_blocks_ =
      kernels::Output::kCached;  // how those that come whole are written
  ChangesBudget* changes_budget_ = nullptr;
  ChangeLog changes_;
  BlockFindings findings_;

  Hash128 part_hash_;  // of the held values of the parts so far
  Payload part_payload_;
  std::vector<std::byte> held_block_;    // in one piece
  std::vector<std::byte> added_values_;  // room for those of a block in mode added
  std::vector<Piece> unchanged_pieces_;
  std::array<Slot, 2> slots_;
  Slot* pending_ = nullptr;  // decoded, and not checked (or written) yet
};

}  // namespace sparcl::codec
