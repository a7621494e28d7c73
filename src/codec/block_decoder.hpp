#pragma once
// One worker of an UpdateDecoder: decodes blocks, compares them with the held values, and writes
// them. Blocks are independent of each other, so that several workers can run in parallel.

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
#include "src/codec/block_window.hpp"
#include "src/codec/change_log.hpp"
#include "src/codec/class_decoder.hpp"
#include "src/codec/early_writer.hpp"
#include "src/codec/group_decoder.hpp"
#include "src/codec/payload.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

// The input that all workers share.
struct DecodeInput {
  const BlockMap& map;
  std::vector<std::byte*> held;
  Verify verify;
  const kernels::KernelSet& kernels;
  std::deque<ClassTable> tables;
  ArrayName array_name;
  const BlockWindow* window = nullptr;  // nullptr: all blocks are held
};

// The memory budget for the changes that workers keep after checking them.
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
        is_over_(writing == Writing::kOver),
        check_(input.verify, input.kernels),
        classes_(input.kernels),
        early_(input.map, input.held, input.kernels,
               writing == Writing::kEarly && input.verify != Verify::kFull) {}

  // Decodes the blocks of an entry and compares them with the held values, except for the last
  // block. Its lines are prefetched, and the next call or flush() checks it.
  Status check(const Staging& staging, BlockEntry& entry);
  void flush() { check_pending(nullptr); }

  void hash_fresh() { check_.hash_fresh(); }

  BlockFindings take_findings();

  // Writes the checked entries, except for the last block of the last one: flush_writes() writes
  // that block.
  Status apply(const Staging& staging, const BlockEntry& entry);
  void begin_writes(kernels::Output whole_blocks) {
    pending_ = nullptr;
    whole_blocks_ = whole_blocks;
  }
  void flush_writes() { write_pending(nullptr); }

  EarlyWriter& early() { return early_; }

  // Keeps the changes that check() sees, as long as budget and memory suffice. The budget outlives
  // the decoder.
  void keep_changes(ChangesBudget& budget) { changes_budget_ = &budget; }
  ChangeLog take_changes() { return std::exchange(changes_, {}); }

 private:
  // A decoded block whose lines are being prefetched; used one block later.
  struct Slot {
    std::uint64_t index = 0;
    BlockRange checked;  // the blocks that share its old check
    std::uint16_t old_check = 0;
    bool of_classes = false;  // its changes are found from the held values: one of the blocks of a
                              // superblock, or in mode coded
    bool is_part = false;     // one of several blocks that share an old check
    bool is_last = false;     // the last of them
    bool is_cut = false;      // others of them are outside the window: their check says nothing
    bool fits = true;         // the last of them: all changes of the superblock were found
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
  void write_over(Slot& slot);
  void keep(const Slot& slot, const BlockCheck::Compared& compared);
  void add_unchanged(std::uint64_t first, std::uint64_t last);
  bool holds_base(const Slot& slot, const BlockCheck::Compared& compared) const;
  void end_parts(const Slot& slot);
  Status apply_classes(const Staging& staging, const BlockEntry& entry);
  Status apply_group(const Staging& staging, const BlockEntry& entry);
  void write_pending(const Slot* next);
  void write_behind(Slot& slot);

  bool is_held(std::uint64_t index) const {
    return input_.window == nullptr || input_.window->has(index);
  }
  kernels::Upcoming accesses_of(const Slot* slot) const;
  WritableBlockView view(const Slot& slot) const { return {slot.shape, slot.pieces, input_.held}; }
  Slot& spare() { return slots_[pending_ == &slots_[0] ? 1 : 0]; }

  const DecodeInput& input_;
  const bool is_over_;
  BlockCheck check_;
  ClassDecoder classes_;
  GroupDecoder group_;
  EarlyWriter early_;
  kernels::Output whole_blocks_ =
      kernels::Output::kCached;  // how blocks that are sent whole are written
  ChangesBudget* changes_budget_ = nullptr;
  ChangeLog changes_;
  BlockFindings findings_;

  Hash128 part_hash_;  // of the held values of the parts read
  Payload part_payload_;
  std::vector<std::byte> held_block_;    // in one piece
  std::vector<std::byte> added_values_;  // room for the values of a block in mode added
  std::vector<Piece> unchanged_pieces_;
  std::array<Slot, 2> slots_;
  Slot* pending_ = nullptr;  // decoded, but not checked (or written) yet
};

}  // namespace sparcl::codec
