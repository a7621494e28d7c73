#include "src/codec/block_encoder.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/base/float_environment.hpp"
#include "src/codec/change_log.hpp"
#include "src/codec/change_rule.hpp"
#include "src/codec/state_hash.hpp"
#include "src/codec/time_cost.hpp"
#include "src/codec/update_header.hpp"

namespace sparcl::codec {
namespace {

// The size in the stream, without a gap.
std::size_t section_bytes(std::size_t content_bytes) {
  std::byte varint[kMaxVarintBytes];
  return 1 + store_varint(varint, content_bytes) + content_bytes;
}

// Limit where some changes are sent of a target that is not read whole: with at least this part of
// a block it is rebuilt, and the block can be sent whole.
constexpr std::size_t kRuledPart = 8;
// Below this part the target may contain changes that the rule left out, so mode packed must not be
// used. It is not: mode verbatim takes at most 13 bits for each of one byte in eight, 0.2 of the
// block.
static_assert(13 * kMinPackedPart <= 8 * kRuledPart);

// Is the overhead of a block worth sharing? Not if many elements change, unless they are so close
// together that they take few bits.
bool is_sparse(const BlockChanges& changes) {
  const std::uint16_t* positions = changes.positions.data();
  const std::size_t spread = positions[changes.count - 1] - positions[0] + std::size_t{1};
  const bool is_one_cluster =
      changes.count < changes.shape().elements / 8 && spread < 8 * changes.count;
  return changes.count <= changes.shape().elements / 32 || is_one_cluster;
}

}  // namespace

void CodedBlocks::clear() {
  blocks.clear();
  payloads.clear();
  elements = 0;
  whole_sum = {};
  lossy = {};
  left_out = {};
}

BlockEncoder::BlockEncoder(const EncoderInput& input)
    : input_(input),
      scan_(input.map, input.hints, input.kernels),
      forward_(input.map, input.options.bring_forward, input.kernels,
               !input.options.bring_forward.empty()),
      classes_(input.kernels),
      group_(input.kernels) {
  for (Part& part : parts_) prepare(part);
  prepare(grouped_part_);
}

void BlockEncoder::prepare(Part& part) const {
  part.changes.kernels = &input_.kernels;
  part.changes.has_steps = true;
  part.changes.forced = input_.options.mode != nullptr;
  part.changes.for_devices = input_.options.for_devices;
  part.changes.thorough = input_.options.fewest_bytes;
}

Status BlockEncoder::encode(const CodingUnit& unit) {
  if (unit.table != nullptr) {
    encode_superblock(unit);
  } else if (!input_.leaves_out(unit.first)) {
    SPARCL_RETURN_IF_ERROR(encode_block(unit.first));
  }
  if (unit.ends_region) end_group();
  return {};
}

void BlockEncoder::open(Part& part, std::uint64_t index) {
  set_views(part, index);
  coded_.elements += part.changes.shape().elements;
  if (!part.changes.fresh) part.changes.make_room();
}

BlockShape BlockEncoder::set_place(Part& part, std::uint64_t index) const {
  part.index = index;
  const DataType datatype = input_.map.block(index, part.pieces);
  return shape_of(datatype, part.pieces);
}

void BlockEncoder::set_views(Part& part, std::uint64_t index) {
  const BlockShape shape = set_place(part, index);
  part.changes.fresh = !input_.has_whole_base && lacks_base(part);
  if (!part.changes.fresh) part.base = part.base_input.read(input_.base, shape, part.pieces);
  part.target = input_.knows_changes() ? part.base
                                       : part.target_input.read(input_.target, shape, part.pieces);
  part.changes.target = part.target;
  part.changes.count = 0;
  // Only if the receiver can tell a wrong base from its own target, and if all old values of the
  // block are known.
  part.changes.may_need_base =
      input_.options.with_state_hash && input_.has_whole_base && !part.changes.fresh;
  if (part.changes.may_need_base) part.changes.base = part.base;
}

bool BlockEncoder::lacks_base(const Part& part) const {
  return std::any_of(part.pieces.begin(), part.pieces.end(),
                     [&](const Piece& piece) { return !input_.base.has(piece.array); });
}

Status BlockEncoder::encode_block(std::uint64_t index) {
  Part& part = parts_[0];
  open(part, index);
  BlockChanges& changes = part.changes;
  if (input_.knows_changes()) {
    take_known(part);
  } else if (!changes.fresh) {
    SPARCL_RETURN_IF_ERROR(
        scan_.scan(part.base, part.target, part.pieces,
                   {changes.positions.data(), changes.old_values.data(), changes.new_values.data()},
                   changes.count));
    if (input_.selects() && changes.count > 0) changes.count = select(part, changes.count);
  }
  add_to_whole(part);
  if (add_to_group(part)) return {};
  choose(part);
  add_block(part);
  return {};
}

void BlockEncoder::take_known(Part& part) {
  ChangeLog::Block known;
  if (!input_.options.known_changes->find(part.index, known)) return;
  BlockChanges& changes = part.changes;
  changes.count = known.positions.size();
  std::ranges::copy(known.positions, changes.positions.data());
  std::memcpy(changes.new_values.data(), known.values,
              changes.count * changes.shape().element_bytes());
  gather(input_.kernels, part.base, known.positions, changes.old_values.data());
  if (needs_target(changes)) rebuild_target(part);
}

// Keeps the changes that the rule selects, with the values that lossy coding gives them.
std::size_t BlockEncoder::select(Part& part, std::size_t found) {
  const FloatEnvironment exact;  // rules compare numbers: the same result in every thread
  BlockChanges& changes = part.changes;
  const BlockShape shape = changes.shape();
  FoundChanges left{part.index,
                    shape.datatype,
                    part.pieces,
                    changes.positions.data(),
                    changes.old_values.data(),
                    changes.new_values.data(),
                    found};
  if (input_.options.rule != nullptr && input_.has_whole_base) {
    if (input_.options.measure_left_out) left_out_.note(left);
    left.count = input_.options.rule->keep(left);
    if (input_.options.measure_left_out) coded_.left_out.add(left_out_.compare(left));
  }
  const ValueCoding values = input_.has_whole_base ? input_.options.values : ValueCoding();
  const std::size_t count = changes.lossy.choose(values, input_.options.target_version, left);
  coded_.lossy.add(changes.lossy.error());
  const bool is_target = count == found && !changes.lossy.active() && input_.hints.empty();
  changes.count = count;
  if (!is_target && needs_target(changes)) rebuild_target(part);
  return count;
}

// May a mode need the whole block? Not if few elements change.
bool BlockEncoder::needs_target(const BlockChanges& changes) const {
  return changes.count >= changes.shape().elements / kRuledPart || input_.options.mode != nullptr;
}

// The base with the sent changes, as the receivers will hold it.
void BlockEncoder::rebuild_target(Part& part) {
  BlockChanges& changes = part.changes;
  const BlockShape shape = changes.shape();
  rebuilt_block_.resize(shape.bytes());
  copy_block(part.base, rebuilt_block_.data());
  rebuilt_array_ = rebuilt_block_.data();
  rebuilt_piece_ = {0, 0, shape.elements, 0};
  const WritableBlockView rebuilt{shape, {&rebuilt_piece_, 1}, {&rebuilt_array_, 1}};
  scatter(input_.kernels, rebuilt, {changes.positions.data(), changes.count},
          changes.new_values.data());
  changes.target = rebuilt;
}

void BlockEncoder::encode_superblock(const CodingUnit& unit) {
  end_group();
  const auto part_count = static_cast<std::size_t>(unit.last - unit.first);
  std::uint32_t elements = 0;
  for (std::size_t i = 0; i < part_count; ++i) {
    open(parts_[i], unit.first + i);
    elements += parts_[i].changes.shape().elements;
  }
  classes_.begin(unit.table->table, elements);
  for (std::size_t i = 0; i < part_count; ++i) {
    Part& part = parts_[i];
    BlockChanges& changes = part.changes;
    changes.count = classes_.scan(
        part.base, part.target, part.pieces,
        {changes.positions.data(), changes.old_values.data(), changes.new_values.data()});
    add_to_whole(part);
  }
  const std::size_t bytes = classes_.plan();
  if (bytes > 0 && classes_are_best(bytes, part_count, *unit.table))
    return add_classes(unit, bytes);
  for (std::size_t i = 0; i < part_count; ++i) {
    if (!add_to_group(parts_[i])) add_block(parts_[i]);
  }
}

// Also chooses the modes of the single blocks, unless classes are requested, or so good that the
// comparison is unnecessary.
bool BlockEncoder::classes_are_best(std::size_t class_bytes, std::size_t part_count,
                                    const RegionTable& table) {
  if (input_.options.mode == &kClassesMode) return true;
  const std::size_t as_classes = section_bytes(class_bytes + kOldCheckBytes) + table.share_bytes;
  std::size_t least = 0;
  for (std::size_t i = 0; i < part_count; ++i) least += parts_[i].changes.min_bytes();
  if (as_classes < least) return true;
  std::size_t as_blocks = 0;
  for (std::size_t i = 0; i < part_count; ++i) {
    Part& part = parts_[i];
    if (part.changes.count == 0) continue;
    choose(part);
    as_blocks += section_bytes(part.choice.bytes + (part.choice.mode->whole ? 0 : kOldCheckBytes));
  }
  return as_classes < as_blocks;
}

void BlockEncoder::add_classes(const CodingUnit& unit, std::size_t bytes) {
  CodedBlock block;
  block.index = unit.first;
  block.last = unit.last;
  block.mode = &kClassesMode;
  block.table = unit.table;
  block.bytes = bytes + kOldCheckBytes;
  block.elements = block.changed = classes_.changes();
  for (std::uint64_t i = 0; i < unit.last - unit.first; ++i) {
    if (parts_[i].changes.count == 0) continue;
    const kernels::ChangeHashes own = hash_listed(parts_[i]);
    block.hashes = {block.hashes.old_values + own.old_values,
                    block.hashes.new_values + own.new_values};
  }
  std::byte* payload = add_payload(block);
  classes_.write(payload);
  store_le(payload + bytes, old_check_of(block.hashes.old_values));
  for (std::uint64_t i = 0; i < unit.last - unit.first; ++i) bring_forward(parts_[i]);
}

// Adds to the state's sums; changes are added where they are coded.
void BlockEncoder::add_to_whole(const Part& part) {
  if (!input_.options.with_state_hash || input_.is_of_some_blocks()) return;
  if (!input_.has_whole_base) {
    coded_.whole_sum = coded_.whole_sum + hash_block(part.target, part.index);
  } else if (!input_.options.base_hash) {
    coded_.whole_sum = coded_.whole_sum + hash_block(part.base, part.index);
  }
}

// The mode of a changed block.
void BlockEncoder::choose(Part& part) {
  BlockChanges& changes = part.changes;
  if (changes.fresh) part.choice = choose_mode(changes);
  if (changes.fresh || changes.count == 0) return;
  if (travels_whole(changes)) {
    part.choice = {&kDenseMode, changes.shape().bytes()};
    return;
  }
  changes.set_changes(changes.count);
  const BlockMode* wanted = input_.options.mode;
  part.choice = {wanted, wanted != nullptr ? wanted->cost(changes) : kCannot};
  if (part.choice.bytes == kCannot) part.choice = choose_mode(changes);
}

// For speed: decided before any list is made.
bool BlockEncoder::travels_whole(const BlockChanges& changes) const {
  const LinkTime& link = input_.options.link;
  if (link.ps_per_byte == 0 || input_.options.mode != nullptr) return false;
  const BlockShape shape = changes.shape();
  if ((input_.selects() || input_.knows_changes()) && !needs_target(changes)) return false;
  return whole_is_faster(shape, changes.count, changes.positions.data()[changes.count - 1], link);
}

// Adds the block in the chosen mode.
void BlockEncoder::add_block(Part& part) {
  const BlockChanges& changes = part.changes;
  if (!changes.fresh && changes.count == 0) return;
  const BlockMode& mode = *part.choice.mode;
  CodedBlock block;
  block.index = part.index;
  block.last = part.index + 1;
  block.mode = &mode;
  block.bytes = part.choice.bytes + (mode.whole ? 0 : kOldCheckBytes);
  block.is_target = mode.in_place && changes.target.arrays.data() == input_.target.arrays.data();
  block.elements = mode.whole ? changes.shape().elements : changes.count;
  block.changed = changes.fresh ? changes.shape().elements : changes.count;
  if (!changes.fresh) block.hashes = hash_changes(part);
  std::byte* payload = add_payload(block);
  if (!block.is_target) mode.encode(part.changes, payload);
  if (!mode.whole) store_le(payload + part.choice.bytes, old_check_of(block.hashes.old_values));
  if (!changes.fresh) bring_forward(part);
}

// Blocks with few changes wait for their neighbours. Other blocks would not become smaller in a
// group, and end the group before them.
bool BlockEncoder::add_to_group(const Part& part) {
  const BlockChanges& changes = part.changes;
  const BlockMode* asked = input_.options.mode;
  if (changes.count == 0 && !changes.fresh) return false;
  const bool forced = asked != nullptr && is_group(asked->id);
  const bool is_free =
      asked == nullptr && !input_.options.values.is_lossy() && !input_.options.for_devices;
  const bool may = !changes.fresh &&
                   (forced ? changes.count <= kMaxGroupChanges : is_free && is_sparse(changes));
  if (!may || !group_.has_room(part.index, changes.count) ||
      (!group_.empty() && input_.map.run_of(group_.first_block()).end() <= part.index)) {
    end_group();
  }
  if (!may) return false;
  const kernels::ChangeHashes own = hash_listed(part);
  group_hashes_ = {group_hashes_.old_values + own.old_values,
                   group_hashes_.new_values + own.new_values};
  group_.add(part.index, changes);
  return true;
}

void BlockEncoder::end_group() {
  if (group_.empty()) return;
  const std::uint64_t first = group_.first_block();
  const auto elements =
      static_cast<std::uint32_t>(input_.map.run_of(first).elements(first, group_.last_block() + 1));
  const BlockMode* asked = input_.options.mode;
  const std::size_t bytes = asked != nullptr || group_.parts().size() > 1
                                ? group_.plan(elements, asked, input_.options.fewest_bytes)
                                : kCannot;
  if (bytes != kCannot) {
    write_group(bytes);
  } else {
    for (const GroupEncoder::Part& grouped : group_.parts()) {
      restore(grouped);
      choose(grouped_part_);
      add_block(grouped_part_);
    }
  }
  group_.clear();
  group_hashes_ = {};
}

void BlockEncoder::write_group(std::size_t bytes) {
  CodedBlock block;
  block.index = group_.first_block();
  block.last = group_.last_block() + 1;
  block.mode = &group_.mode();
  block.bytes = bytes + kOldCheckBytes;
  block.elements = block.changed = group_.count();
  block.hashes = group_hashes_;
  std::byte* payload = add_payload(block);
  parts_[0].changes.make_room();
  group_.write(payload);
  store_le(payload + bytes, old_check_of(block.hashes.old_values));
  if (!forward_.active()) return;
  for (const GroupEncoder::Part& grouped : group_.parts()) {
    const BlockShape shape = set_place(grouped_part_, grouped.index);
    bring_forward(grouped_part_, shape, group_.positions(grouped), group_.old_values(grouped),
                  group_.new_values(grouped));
  }
}

// Restores a block that is coded alone after all: copies its changes to grouped_part_.
void BlockEncoder::restore(const GroupEncoder::Part& grouped) {
  set_views(grouped_part_, grouped.index);
  BlockChanges& changes = grouped_part_.changes;
  changes.make_room();
  changes.count = grouped.count;
  std::ranges::copy(group_.positions(grouped), changes.positions.data());
  std::ranges::copy(group_.old_values(grouped), changes.old_values.data());
  std::ranges::copy(group_.new_values(grouped), changes.new_values.data());
}

// Room for its payload, after the other payloads.
std::byte* BlockEncoder::add_payload(const CodedBlock& block) {
  coded_.blocks.push_back(block);
  if (block.is_target) return nullptr;
  const std::size_t at = coded_.payloads.size();
  coded_.payloads.resize(at + block.bytes);
  return coded_.payloads.data() + at;
}

// Hashes the values that the receiver will see: the changed elements, or the whole block.
kernels::ChangeHashes BlockEncoder::hash_changes(const Part& part) {
  if (!part.choice.mode->whole) return hash_listed(part);
  return {hash_block(part.base, part.index), hash_block(part.changes.target, part.index)};
}

kernels::ChangeHashes BlockEncoder::hash_listed(const Part& part) const {
  const BlockChanges& changes = part.changes;
  return changes_hash(input_.kernels, changes.shape().datatype,
                      {changes.positions.data(), changes.count}, changes.old_values.data(),
                      changes.new_values.data(), part.index);
}

Hash128 BlockEncoder::hash_block(const BlockView& view, std::uint64_t index) {
  return block_hash(view, index, input_.kernels, hash_scratch_);
}

void BlockEncoder::bring_forward(const Part& part) {
  const BlockChanges& changes = part.changes;
  if (!forward_.active() || changes.count == 0) return;
  const std::size_t value_bytes = changes.count * changes.shape().element_bytes();
  bring_forward(part, changes.shape(), {changes.positions.data(), changes.count},
                {changes.old_values.data(), value_bytes}, {changes.new_values.data(), value_bytes});
}

void BlockEncoder::bring_forward(const Part& part, BlockShape shape, Positions positions,
                                 std::span<const std::byte> old_values,
                                 std::span<const std::byte> new_values) {
  forward_.write(part.index, {shape, part.pieces, input_.options.bring_forward}, positions,
                 old_values, new_values);
}

}  // namespace sparcl::codec
