#pragma once
// The modes of coding a block. A mode is one file and one row of the table.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/codec/block_sparse_list.hpp"
#include "src/codec/block_view.hpp"
#include "src/codec/byte_planes.hpp"
#include "src/codec/coded_steps.hpp"
#include "src/codec/lossy_values.hpp"
#include "src/codec/scratch.hpp"
#include "src/codec/split_rice.hpp"
#include "src/codec/step_list.hpp"
#include "src/codec/two_level_list.hpp"
#include "src/codec/wire.hpp"

namespace sparcl::codec {

// One block's changes on the sender's side, and work memory that is kept from block to block.
class BlockChanges {
 public:
  const kernels::KernelSet* kernels = nullptr;
  BlockView target;
  BlockView base;         // only if may_need_base
  bool fresh = false;     // no whole base: only modes for fresh blocks are possible
  std::size_t count = 0;  // changed elements, at least 1 unless fresh
  Scratch<std::uint16_t> positions;
  Scratch<std::byte> old_values;  // not in a sparse vector
  Scratch<std::byte> new_values;
  bool has_steps = false;      // old_values is filled
  bool may_need_base = false;  // modes are allowed that cannot be read without the base
  bool for_devices = false;    // only modes that are on_device are allowed
  bool thorough = false;       // bytes matter more than time
  bool forced = false;  // a mode is asked because the user names it: it gives its cost even if it
                        // does not pay

  BlockShape shape() const { return target.shape; }
  // Makes room for the changes of any block of this shape.
  void make_room();
  // The arrays now hold `changed` changes of another block.
  void set_changes(std::size_t changed);

  // Is there a value for each element? A sparse vector has no values for the indices that it leaves
  // out.
  bool has_all_values() const { return has_steps || fresh || count == shape().elements; }
  // Lower bound of the bytes of the cheapest mode that choose_mode() would find, from a few
  // changes; 0 if nothing is known.
  std::size_t min_bytes();
  std::size_t bytes_to_beat =
      0;  // set by choose_mode: a mode that surely needs as many does not compute its cost

  LossyChanges lossy;  // codes of the changes, if new_values are their results
  StepList codes;      // of mode added
  std::vector<std::byte> zeros;
  CodedSteps coded;              // of mode coded
  BytePlanes planes;             // of mode packed
  std::vector<std::byte> whole;  // the block in one piece, if it lies in several

  // Data that several modes need, made when the first of them asks.
  const RiceList& list();
  const StepList& steps();
  const TwoLevelList* two_level();        // nullptr if it would not pay, unless forced
  const BlockSparseList* block_sparse();  // the same

 private:
  enum class State : std::uint8_t { kUnknown, kUseless, kReady };
  State list_state_ = State::kUnknown;
  State steps_state_ = State::kUnknown;
  State two_level_state_ = State::kUnknown;
  State block_sparse_state_ = State::kUnknown;
  RiceList list_;
  StepList steps_;
  TwoLevelList two_level_;
  BlockSparseList block_sparse_;
};

// A list of positions with a head of its own, and the steps of the changes: the data after their
// count.
template <class List>
void write_stepped(BlockChanges& changes, const List& list, std::byte* out) {
  const kernels::ListKernels& lists = changes.kernels->lists;
  const StepList& steps = changes.steps();
  kernels::BitWriter bits{steps.write_head(list.write_head(out))};
  list.write_planes(lists, bits);
  steps.write_planes(bits);
  list.write_unary(lists, bits);
  steps.write_unary(bits);
  bits.finish();
}

enum class DecodedKind : std::uint8_t { kWhole, kValues, kSteps, kMixed, kAdded };

// One block as received.
struct DecodedBlock {
  DecodedKind kind = DecodedKind::kWhole;
  bool fresh = false;
  std::size_t count = 0;
  const std::byte* whole = nullptr;  // kWhole: the whole block, in the payload or in `values`
  Scratch<std::uint16_t> positions;
  Scratch<std::byte> values;  // kValues: new values; kSteps: steps; kMixed: steps, 0 if a value
                              // replaces the element; kAdded: codes of one byte
  RiceListReader list;
  TwoLevelReader two_level;
  StepListReader steps;
  BytePlanesReader planes;
  CodedStepsReader coded;
  CodeKind code_kind = CodeKind::kInt8;  // kAdded
  Scale scale;

  // kMixed only: the changes (by their number, and by their position) that a value replaces.
  std::size_t replaced_count = 0;
  Scratch<std::uint16_t> replaced;
  Scratch<std::uint16_t> replaced_at;
  Scratch<std::byte> replaced_values;

  std::span<const std::uint16_t> changed() const { return {positions.data(), count}; }
  std::span<const std::uint16_t> replaced_positions() const {
    return {replaced_at.data(), replaced_count};
  }
};

constexpr std::size_t kCannot = std::numeric_limits<std::size_t>::max();

struct BlockMode {
  std::uint8_t id;
  const char* name;
  bool in_sparse;  // allowed in sparse vectors
  bool whole;      // it holds all elements of the block, and no positions
  // Exact bytes of the payload, or kCannot.
  std::size_t (*cost)(BlockChanges& changes);
  // Writes exactly that many bytes; called after cost() for the same block.
  void (*encode)(BlockChanges& changes, std::byte* out);
  // The payload is untrusted; kBitSlackBytes zero bytes follow it unless `in_place`. Returns
  // nullptr, or a description of the error.
  const char* (*decode)(BlockShape shape, std::span<const std::byte> payload,
                        const kernels::KernelSet& kernels, DecodedBlock& block);
  bool in_place = false;  // the payload is the block itself: it is used in place, never copied
  bool fresh = false;     // of a block without a base on the sender
  // For modes whose changes can be found only with the held block (all of it, in one piece). Called
  // after decode(). False if they do not fit it: the held block is not the base, and the result is
  // undefined.
  bool (*resolve)(BlockShape shape, const std::byte* held, const kernels::KernelSet& kernels,
                  DecodedBlock& block) = nullptr;
  bool on_device = false;  // kernels on device memory read it, too (kernels/device_blocks.hpp)
};

// Mode packed can win only if the other modes take at least 1 / kMinPackedPart of the block.
constexpr std::size_t kMinPackedPart = 4;

extern const BlockMode kDenseMode;
extern const BlockMode kFreshMode;
extern const BlockMode kVerbatimMode;
extern const BlockMode kFlatMode;
extern const BlockMode kClassesMode;  // for superblocks (class_encoder.hpp)
extern const BlockMode kMixedMode;
extern const BlockMode kTwoLevelMode;
extern const BlockMode kTwoLevelVerbatimMode;
extern const BlockMode kPackedMode;
extern const BlockMode kPackedFreshMode;
extern const BlockMode kCodedMode;
extern const BlockMode kAddedMode;
extern const BlockMode kFlatGroupMode;  // for groups of blocks (group_encoder.hpp)
extern const BlockMode kTwoLevelGroupMode;
extern const BlockMode kBlockSparseMode;  // for groups, or for a single block
constexpr std::uint8_t kFlatGroupId = 12;
constexpr std::uint8_t kTwoLevelGroupId = 13;
constexpr std::uint8_t kBlockSparseId = 14;
constexpr std::uint64_t kMaxGroupBlocks = 256;
// Keeps marks below 65,536 for all positions. Mode block_sparse of one block has no limit of its
// own.
constexpr std::size_t kMaxGroupChanges = 16384;

constexpr std::uint64_t max_group_changes(unsigned mode, std::uint64_t blocks) {
  return mode == kBlockSparseId && blocks == 1 ? kBlockElements : kMaxGroupChanges;
}

constexpr bool is_group(unsigned mode) { return mode >= kFlatGroupId && mode <= kBlockSparseId; }

std::span<const BlockMode* const> block_modes();
// nullptr if there is none.
const BlockMode* find_block_mode(unsigned id);

struct ModeChoice {
  const BlockMode* mode;
  std::size_t bytes;
};
// The cheapest in bytes, including the bytes after its payload in an update; on a tie the first.
ModeChoice choose_mode(BlockChanges& changes);

// The bytes of mode coded, estimated without its tables; kCannot if the mode is not considered.
std::size_t min_coded_bytes(BlockChanges& changes);

// Reads k at the front of a payload: 1 <= k <= the block's elements. False if it is missing or
// invalid.
bool read_change_count(std::span<const std::byte>& payload, BlockShape shape, std::size_t& count);

// For every mode with positions: sets block.count and makes room.
void make_room(DecodedBlock& block, BlockShape shape, std::size_t count);

// kMixed: writes the replacing values to their positions among the new values of all changes.
void replace_values(const DecodedBlock& block, BlockShape shape, std::byte* new_values);

}  // namespace sparcl::codec
