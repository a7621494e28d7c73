#include "src/codec/block_decoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "src/codec/layout.hpp"
#include "src/codec/state_hash.hpp"
#include "src/codec/superblock.hpp"

namespace sparcl::codec {
namespace {

Positions first_positions(std::size_t count) {
  static const auto all = [] {
    std::vector<std::uint16_t> positions(kBlockElements);
    std::iota(positions.begin(), positions.end(), std::uint16_t{0});
    return positions;
  }();
  return Positions(all).first(count);
}

}  // namespace

Status BlockDecoder::check(const Staging& staging, BlockEntry& entry) {
  entry.slot = &spare() == &slots_[1] ? 1 : 0;
  if (is_group(entry.mode)) {
    SPARCL_RETURN_IF_ERROR(read_group(staging, entry));
    findings_.elements += group_.changes();
    for (std::uint64_t next = entry.index; group_.has_more();) {
      Slot& slot = spare();
      load_grouped(entry, slot);
      if (!is_held(slot.index)) continue;
      add_unchanged(std::exchange(next, slot.index + 1), slot.index);
      check_behind(slot);
    }
  } else if (entry.mode == kClassesMode.id) {
    SPARCL_RETURN_IF_ERROR(read_classes(staging, entry));
    findings_.elements += classes_.changes();
    for (std::uint64_t index = entry.index; index < entry.last; ++index) {
      Slot& slot = spare();
      load_part(entry, index, slot);
      check_behind(slot);
    }
  } else {
    Slot& slot = spare();
    SPARCL_RETURN_IF_ERROR(load(staging, entry, slot));
    findings_.elements += slot.block.count;
    check_behind(slot);
  }
  return {};
}

void BlockDecoder::check_behind(Slot& slot) {
  if (is_over_) return write_over(slot);
  check_pending(&slot);
  pending_ = &slot;
}

// At once: nothing is held whose lines would be fetched meanwhile.
void BlockDecoder::write_over(Slot& slot) {
  check_.add_over(slot.index, slot.block, slot.shape.element_bytes());
  pending_ = &slot;
  write_pending(nullptr);
}

BlockFindings BlockDecoder::take_findings() {
  findings_.sums = check_.take_sums();
  return std::exchange(findings_, {});
}

// kFull: adds blocks that the update does not change.
void BlockDecoder::add_unchanged(std::uint64_t first, std::uint64_t last) {
  for (; input_.verify == Verify::kFull && first < last; ++first) {
    const DataType datatype = input_.map.block(first, unchanged_pieces_);
    check_.add_unchanged(first, WritableBlockView{shape_of(datatype, unchanged_pieces_),
                                                  unchanged_pieces_, input_.held});
  }
}

Status BlockDecoder::read_group(const Staging& staging, const BlockEntry& entry) {
  const std::span<const std::byte> bytes =
      part_payload_.load(staging, entry.first, entry.bytes, false);
  const BlockMap::BlockRun run = input_.map.run_of(entry.index);
  const std::uint64_t last = entry.index + static_cast<std::uint8_t>(bytes[0]);
  const auto elements = static_cast<std::uint32_t>(run.elements(entry.index, last + 1));
  if (const char* wrong = group_.read(input_.kernels, entry.mode, run.datatype, elements, bytes)) {
    return unreadable(input_.map, entry, input_.array_name, wrong);
  }
  return {};
}

// Loads the next changed block of the group.
void BlockDecoder::load_grouped(const BlockEntry& entry, Slot& slot) {
  const std::uint32_t in_group = group_.next_block();
  slot.index = entry.index + in_group;
  slot.checked = {entry.index, entry.last - 1};
  slot.old_check = entry.old_check;
  slot.of_classes = false;
  slot.is_cut = input_.window != nullptr && !input_.window->has_all(entry.index, entry.last);
  slot.is_part = !slot.is_cut;
  slot.fits = true;
  const DataType datatype = input_.map.block(slot.index, slot.pieces);
  slot.shape = shape_of(datatype, slot.pieces);
  group_.take(in_group, slot.shape, slot.block);
  slot.is_last = !group_.has_more();
}

// Reads the part of a block of classes that does not depend on the held values.
Status BlockDecoder::read_classes(const Staging& staging, const BlockEntry& entry) {
  const std::span<const std::byte> bytes =
      part_payload_.load(staging, entry.first, entry.bytes, false);
  if (const char* wrong = classes_.read(input_.tables[entry.table],
                                        superblock_at(input_.map, entry.index)->elements, bytes)) {
    return corrupt(fmt::format("block {} (mode classes, {} bytes at byte {}) {}", entry.index,
                               entry.bytes, entry.first, wrong));
  }
  return {};
}

void BlockDecoder::load_part(const BlockEntry& entry, std::uint64_t index, Slot& slot) {
  slot.index = index;
  slot.checked = {entry.index, entry.last - 1};
  slot.old_check = entry.old_check;
  slot.of_classes = slot.is_part = true;
  slot.is_cut = false;
  slot.is_last = index + 1 == entry.last;
  const DataType datatype = input_.map.block(index, slot.pieces);
  slot.shape = shape_of(datatype, slot.pieces);
  classes_.next_block(view(slot), slot.block);
  slot.fits = !slot.is_last || classes_.fits();
}

Status BlockDecoder::load(const Staging& staging, const BlockEntry& entry, Slot& slot) {
  slot.index = entry.index;
  slot.checked = {entry.index, entry.index};
  slot.of_classes = slot.is_part = slot.is_cut = false;
  slot.old_check = entry.old_check;
  const DataType datatype = input_.map.block(entry.index, slot.pieces);
  slot.shape = shape_of(datatype, slot.pieces);
  const BlockMode& mode = *find_block_mode(entry.mode);
  const std::span<const std::byte> bytes =
      slot.payload.load(staging, entry.first, entry.bytes, mode.in_place);
  if (const char* wrong = mode.decode(slot.shape, bytes, input_.kernels, slot.block)) {
    return unreadable(input_.map, entry, input_.array_name, wrong);
  }
  if (slot.block.kind == DecodedKind::kAdded) {
    added_values_.resize(
        std::max(added_values_.size(), slot.block.count * slot.shape.element_bytes()));
  }
  if (mode.resolve != nullptr) {
    slot.of_classes = slot.is_part = true;
    slot.is_last = true;
    slot.fits = mode.resolve(slot.shape, whole_block(view(slot), held_block_).data(),
                             input_.kernels, slot.block);
  }
  return {};
}

kernels::Upcoming BlockDecoder::accesses_of(const Slot* slot) const {
  if (slot == nullptr || slot->block.kind == DecodedKind::kWhole) return {};
  return upcoming(view(*slot), slot->block.changed());
}

void BlockDecoder::check_pending(const Slot* next) {
  if (pending_ == nullptr) return;
  const Slot& slot = *pending_;
  pending_ = nullptr;
  const bool lists = slot.block.kind != DecodedKind::kWhole;
  const bool changes = !lists || slot.block.count > 0;
  if (changes && (input_.verify != Verify::kOff || early_.active())) {
    const BlockCheck::Compared compared =
        check_.add_changed(slot.index, view(slot), slot.block, accesses_of(next));
    if (changes_budget_ != nullptr) keep(slot, compared);
    if (slot.is_part) part_hash_ = part_hash_ + compared.held_hash;
    const bool is_base = holds_base(slot, compared);
    if (lists && !is_base && !findings_.odd_blocks) findings_.odd_blocks = slot.checked;
    if (early_.active() && lists) {
      if (is_base) {
        early_.write(slot.index, view(slot), slot.block.changed(), compared.held_values,
                     compared.new_values);
      } else {
        early_.stop();  // the held state is the target already, or a wrong base: the chunk's
                        // digests decide
      }
    }
  } else if (input_.verify == Verify::kFull) {
    check_.add_unchanged(slot.index, view(slot));
  }
  if (slot.is_part && slot.is_last) end_parts(slot);
}

void BlockDecoder::keep(const Slot& slot, const BlockCheck::Compared& compared) try {
  const bool is_known = input_.verify == Verify::kFull ||
                        !slot.block.fresh;  // otherwise the old values were not checked
  if (!is_known) changes_budget_->spend_all();
  if (changes_budget_->is_spent()) return void(changes_ = {});
  const std::size_t before = changes_.bytes();
  const bool is_whole = slot.block.kind == DecodedKind::kWhole;
  const Positions positions =
      is_whole ? first_positions(slot.shape.elements) : slot.block.changed();
  changes_.add(slot.index, slot.shape.element_bytes(), positions, compared.new_values);
  changes_budget_->spend(changes_.bytes() - before);
} catch (const std::bad_alloc&) {  // the changes can be decoded again
  changes_budget_->spend_all();
  changes_ = {};
}

// Blocks of classes and of a group share one check, which the last block completes. If it fails,
// the writes of the earlier blocks are undone.
bool BlockDecoder::holds_base(const Slot& slot, const BlockCheck::Compared& compared) const {
  return input_.verify == Verify::kOff || slot.is_part || slot.is_cut ||
         old_check_of(compared.held_hash) == slot.old_check;
}

void BlockDecoder::end_parts(const Slot& slot) {
  if (slot.of_classes) check_.add_classes(slot.fits);
  const bool is_base =
      slot.fits && (input_.verify == Verify::kOff || old_check_of(part_hash_) == slot.old_check);
  if (early_.active() && !is_base) early_.stop();
  if (!is_base && !findings_.odd_blocks) findings_.odd_blocks = slot.checked;
  part_hash_ = {};
}

// Each block is decoded before the previous one is written, so that its lines are prefetched
// meanwhile. The time is then that of the lines touched, not the sum of their latencies.
Status BlockDecoder::apply(const Staging& staging, const BlockEntry& entry) {
  if (is_group(entry.mode)) return apply_group(staging, entry);
  if (entry.mode == kClassesMode.id) return apply_classes(staging, entry);
  Slot& slot = slots_[entry.slot];
  if (pending_ == &slot) write_pending(nullptr);
  SPARCL_RETURN_IF_ERROR(load(staging, entry, slot));
  write_behind(slot);
  return {};
}

// Blocks of classes are sorted as they come: there is no list of changes to look ahead with.
Status BlockDecoder::apply_classes(const Staging& staging, const BlockEntry& entry) {
  write_pending(nullptr);
  SPARCL_RETURN_IF_ERROR(read_classes(staging, entry));
  for (std::uint64_t index = entry.index; index < entry.last; ++index) {
    Slot& slot = slots_[(entry.slot + (index - entry.index)) % 2];  // with room for its pieces
    const DataType datatype = input_.map.block(index, slot.pieces);
    slot.shape = shape_of(datatype, slot.pieces);
    classes_.apply_block(view(slot));
  }
  return {};
}

Status BlockDecoder::apply_group(const Staging& staging, const BlockEntry& entry) {
  SPARCL_RETURN_IF_ERROR(read_group(staging, entry));
  for (std::size_t part = entry.slot; group_.has_more();) {
    Slot& slot = slots_[part % 2];
    if (pending_ == &slot) write_pending(nullptr);
    load_grouped(entry, slot);
    if (!is_held(slot.index)) continue;
    write_behind(slot);
    ++part;
  }
  return {};
}

void BlockDecoder::write_pending(const Slot* next) {
  if (pending_ == nullptr) return;
  const DecodedBlock& block = pending_->block;
  switch (block.kind) {
    case DecodedKind::kWhole:
      overwrite_block(input_.kernels, view(*pending_), block.whole, whole_blocks_);
      break;
    case DecodedKind::kValues:
      scatter(input_.kernels, view(*pending_), block.changed(), block.values.data(),
              accesses_of(next));
      break;
    case DecodedKind::kSteps:
      add_steps_at(input_.kernels, view(*pending_), block.changed(), block.values.data(),
                   accesses_of(next));
      break;
    case DecodedKind::kMixed:  // files only: speed does not matter
      add_steps_at(input_.kernels, view(*pending_), block.changed(), block.values.data(), {});
      scatter(input_.kernels, view(*pending_), block.replaced_positions(),
              block.replaced_values.data(), {});
      break;
    case DecodedKind::kAdded:
      gather(input_.kernels, view(*pending_), block.changed(), added_values_.data());
      add_codes(pending_->shape.datatype, block.code_kind, block.scale, added_values_.data(),
                block.values.data(), block.count, added_values_.data());
      scatter(input_.kernels, view(*pending_), block.changed(), added_values_.data(),
              accesses_of(next));
      break;
  }
  pending_ = nullptr;
}

// Writes the block before `slot`'s, and leaves `slot`'s block to the next call.
void BlockDecoder::write_behind(Slot& slot) {
  write_pending(&slot);
  pending_ = &slot;
}

}  // namespace sparcl::codec
