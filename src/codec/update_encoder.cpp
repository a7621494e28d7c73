#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "src/base/bytes.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/change_rule.hpp"
#include "src/codec/change_scan.hpp"
#include "src/codec/class_encoder.hpp"
#include "src/codec/class_regions.hpp"
#include "src/codec/early_writer.hpp"
#include "src/codec/frame_writer.hpp"
#include "src/codec/group_encoder.hpp"
#include "src/codec/layout.hpp"
#include "src/codec/state_hash.hpp"
#include "src/codec/time_cost.hpp"
#include "src/codec/update.hpp"
#include "src/codec/update_header.hpp"

namespace sparcl::codec {

namespace {

// With a rule: from this part of a block on, the target is made anew (see select()), and the block can travel whole.
constexpr std::size_t kRuledPart = 8;

// Is what a block costs by itself worth sharing? Not where many elements change, unless they stand so close that they take few
// bits.
bool is_sparse(const BlockChanges& changes) {
  const std::uint16_t* positions = changes.positions.data();
  const std::size_t spread = positions[changes.count - 1] - positions[0] + std::size_t{1};
  const bool is_one_cluster = changes.count < changes.shape().elements / 8 && spread < 8 * changes.count;
  return changes.count <= changes.shape().elements / 32 || is_one_cluster;
}

struct Part {  // a block at work
  std::uint64_t index = 0;
  std::vector<Piece> pieces;
  BlockChanges changes;
  ModeChoice choice{nullptr, kCannot};
};

// As it stands in the stream, but for a gap.
std::size_t section_bytes(std::size_t content_bytes) {
  std::byte varint[kMaxVarintBytes];
  return 1 + store_varint(varint, content_bytes) + content_bytes;
}

}  // namespace

struct UpdateEncoder::Impl {
  Impl(const BlockMap& block_map, std::span<const std::byte* const> base_arrays, std::span<const std::byte* const> target_arrays,
       const EncodeOptions& encode_options, const kernels::KernelSet& kernel_set)
      : map(block_map),
        base(base_arrays.begin(), base_arrays.end()),
        target(target_arrays.begin(), target_arrays.end()),
        options(encode_options),
        hints(encode_options.hints.begin(), encode_options.hints.end()),
        kernels(kernel_set),
        scan(map, base, target, hints, kernels),
        forward(map, options.bring_forward, kernels, !options.bring_forward.empty()),
        classes(kernels),
        group(kernels),
        regions(map, base, target, options.mode == &kClassesMode) {
    for (Part& part : parts) prepare(part);
    prepare(grouped_part);
    stats.elements = map.element_count();
    for (std::size_t i = 0; i < base.size(); ++i)
      has_whole_base = has_whole_base && (base[i] != nullptr || map.arrays()[i].count == 0);
  }

  void prepare(Part& part) const {
    part.changes.kernels = &kernels;
    part.changes.has_steps = true;
    part.changes.forced = options.mode != nullptr;
    part.changes.thorough = options.fewest_bytes;
  }

  Status check() const;
  Status start(ByteSink& sink);
  Status encode_block(ByteSink& sink);
  void encode_superblock(const Superblock& superblock, const ClassTable& table, ByteSink& sink);
  bool classes_are_best(std::size_t class_bytes, std::size_t part_count);
  void write_classes(std::size_t part_count, std::size_t bytes, const ClassTable& table, ByteSink& sink);
  const ClassTable* table_for(const Superblock& superblock);
  void open(Part& part, std::uint64_t index);
  bool selects() const { return (options.rule != nullptr || options.values.is_lossy()) && has_whole_base; }
  std::size_t select(Part& part, std::size_t found);
  void set_views(Part& part, std::uint64_t index);
  void add_to_hashes(const Part& part);
  void choose(Part& part);
  bool travels_whole(const BlockChanges& changes) const;
  void encode_part(Part& part, ByteSink& sink);
  bool add_to_group(const Part& part, ByteSink& sink);
  void end_group(ByteSink& sink);
  void write_group(std::size_t bytes, ByteSink& sink);
  void restore(const GroupEncoder::Part& grouped);
  void encode_fresh(Part& part, ByteSink& sink);
  void write_block(Part& part, const kernels::ChangeHashes& hashes, ByteSink& sink);
  kernels::ChangeHashes hash_changes(const Part& part);
  kernels::ChangeHashes hash_listed(const Part& part) const;
  Hash128 hash_block(const Part& part, std::span<const std::byte* const> arrays) {
    return block_hash(view(part, arrays), part.index, kernels, hash_scratch);
  }
  void bring_forward(const Part& part);
  void bring_forward(std::uint64_t index, const BlockView& target_view, std::span<const std::uint16_t> positions,
                     std::span<const std::byte> old_values, std::span<const std::byte> new_values);
  void end(ByteSink& sink);

  bool lacks_base(const Part& part) const {
    return std::any_of(part.pieces.begin(), part.pieces.end(), [&](const Piece& piece) { return base[piece.array] == nullptr; });
  }
  static BlockView view(const Part& part, std::span<const std::byte* const> arrays) {
    return {part.changes.shape(), part.pieces, arrays};
  }

  const BlockMap& map;
  std::vector<const std::byte*> base;
  std::vector<const std::byte*> target;
  EncodeOptions options;
  std::vector<const ChangedHint*> hints;
  const kernels::KernelSet& kernels;
  ChangeScan scan;
  EarlyWriter forward;

  EncodeStats stats;
  FrameWriter frame;
  bool has_whole_base = true;
  bool started = false;
  bool finished = false;
  std::uint64_t next_block = 0;
  std::uint64_t gap = 0;  // unchanged blocks since the last that was written
  std::uint64_t opened_elements = 0;
  std::uint64_t coded_elements = 0;
  Hash128 whole_sum;   // over all blocks of the base, or of the target where the base is not whole or not asked for
  Hash128 change_sum;  // what the changes add to the base's

  std::array<Part, kSuperBlocks> parts;  // of a superblock; the first alone where each block is coded by itself
  ClassEncoder classes;
  GroupEncoder group;
  std::uint64_t group_gap = 0;  // unchanged blocks before it
  kernels::ChangeHashes group_hashes;
  Part grouped_part;  // one of its blocks
  ClassRegions regions;
  std::vector<std::byte> hash_scratch;
  std::vector<std::byte> ruled_block;
  std::byte* ruled_array = nullptr;
  Piece ruled_piece{};
};

Status UpdateEncoder::Impl::check() const {
  if (base.size() != map.arrays().size() || target.size() != map.arrays().size()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} base and {} target arrays for {} in the map", base.size(), target.size(), map.arrays().size()));
  }
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] == nullptr && map.arrays()[i].count > 0)
      return Status(Code::kInvalidArgument, fmt::format("target array {} is NULL", i));
  }
  if (options.attachment.size() > kMaxAttachmentBytes) {
    return Status(Code::kInvalidArgument, fmt::format("an attachment of {} bytes: at most {} travel with an update",
                                                      options.attachment.size(), kMaxAttachmentBytes));
  }
  return scan.check();
}

Status UpdateEncoder::Impl::start(ByteSink& sink) {
  SPARCL_RETURN_IF_ERROR(check());
  std::uint32_t flags = 0;
  if (options.with_state_hash) flags = kFlagTargetHash | (has_whole_base ? kFlagBaseHash : 0);
  const UpdateHeader header{options.base_version,
                            options.target_version,
                            options.schema_hash,
                            layout_hash(map),
                            map.element_count(),
                            static_cast<std::uint32_t>(map.arrays().size()),
                            flags};
  frame.write_prefix(StreamKind::kUpdate, sink);
  frame.write_checked_section(kTagUpdateHeader, serialise(header), sink);
  if (!options.attachment.empty()) frame.write_section(kTagAttachment, options.attachment, sink);
  if (const std::vector<std::byte> runs = serialise_runs(map); options.with_runs && runs.size() <= kMaxSectionBytes) {
    frame.write_section(kTagRuns, runs, sink);
  }
  started = true;
  return {};
}

void UpdateEncoder::Impl::open(Part& part, std::uint64_t index) {
  set_views(part, index);
  opened_elements += part.changes.shape().elements;
  if (!part.changes.fresh) part.changes.make_room();
}

void UpdateEncoder::Impl::set_views(Part& part, std::uint64_t index) {
  part.index = index;
  const DataType datatype = map.block(index, part.pieces);
  part.changes.target = {shape_of(datatype, part.pieces), part.pieces, target};
  part.changes.fresh = !has_whole_base && lacks_base(part);
  part.changes.count = 0;
  // Only where the receiver can tell a wrong base from its own target, and where all of the block's old values are known.
  part.changes.may_need_base = options.with_state_hash && has_whole_base && !part.changes.fresh;
  if (part.changes.may_need_base) part.changes.base = view(part, base);
}

// The next block, or the next superblock.
Status UpdateEncoder::Impl::encode_block(ByteSink& sink) {
  if (const auto superblock = superblock_at(map, next_block)) {
    if (const ClassTable* table = table_for(*superblock)) {
      encode_superblock(*superblock, *table, sink);
      return {};
    }
  }
  Part& part = parts[0];
  open(part, next_block++);
  BlockChanges& changes = part.changes;
  if (!changes.fresh) {
    SPARCL_RETURN_IF_ERROR(scan.scan(changes.shape().datatype, part.pieces,
                                     {changes.positions.data(), changes.old_values.data(), changes.new_values.data()},
                                     changes.count));
    if (selects() && changes.count > 0) changes.count = select(part, changes.count);
  }
  add_to_hashes(part);
  if (add_to_group(part, sink)) return {};
  choose(part);
  encode_part(part, sink);
  return {};
}

// Keeps what the rule leaves, with the values that lossy coding gives it. Where that is so much that a mode may want the whole
// block, the target is made anew: the base with what is sent, which is what the receivers will hold.
std::size_t UpdateEncoder::Impl::select(Part& part, std::size_t found) {
  BlockChanges& changes = part.changes;
  const BlockShape shape = changes.shape();
  FoundChanges left{
      part.index, shape.datatype, part.pieces, changes.positions.data(), changes.old_values.data(), changes.new_values.data(),
      found};
  if (options.rule != nullptr) left.count = options.rule->keep(left);
  const std::size_t count = changes.lossy.choose(options.values, options.target_version, left);
  stats.lossy.add(changes.lossy.error());
  const bool is_target = count == found && !changes.lossy.active();
  if (is_target || (count < shape.elements / kRuledPart && options.mode == nullptr)) return count;
  ruled_block.resize(shape.bytes());
  copy_block(view(part, base), ruled_block.data());
  ruled_array = ruled_block.data();
  ruled_piece = {0, 0, shape.elements, 0};
  const WritableBlockView ruled{shape, {&ruled_piece, 1}, {&ruled_array, 1}};
  scatter(kernels, ruled, {changes.positions.data(), count}, changes.new_values.data());
  changes.target = ruled;
  return count;
}

// Only where the receiver can tell a wrong base from its own target: it cannot by the changes alone, which it needs its base to
// find.
const ClassTable* UpdateEncoder::Impl::table_for(const Superblock& superblock) {
  const bool wanted = options.mode == &kClassesMode || (options.allow_classes && options.mode == nullptr);
  if (!wanted || !options.with_state_hash || !has_whole_base || !hints.empty() || selects()) return nullptr;
  return regions.table_for(superblock);
}

void UpdateEncoder::Impl::encode_superblock(const Superblock& superblock, const ClassTable& table, ByteSink& sink) {
  end_group(sink);
  const auto part_count = static_cast<std::size_t>(superblock.last - superblock.first);
  classes.begin(table, superblock.elements);
  for (std::size_t i = 0; i < part_count; ++i) {
    Part& part = parts[i];
    open(part, next_block++);
    BlockChanges& changes = part.changes;
    changes.count = classes.scan(view(part, base), view(part, target),
                                 {changes.positions.data(), changes.old_values.data(), changes.new_values.data()});
    add_to_hashes(part);
  }
  const std::size_t bytes = classes.plan();
  if (bytes > 0 && classes_are_best(bytes, part_count)) {
    write_classes(part_count, bytes, table, sink);
    return;
  }
  for (std::size_t i = 0; i < part_count; ++i) {
    if (!add_to_group(parts[i], sink)) encode_part(parts[i], sink);
  }
}

// Also chooses the modes of the blocks by themselves, unless classes are asked for, or so good that there is no need.
bool UpdateEncoder::Impl::classes_are_best(std::size_t class_bytes, std::size_t part_count) {
  if (options.mode == &kClassesMode) return true;
  const std::size_t as_classes = section_bytes(class_bytes + kOldCheckBytes) + regions.share_bytes();
  std::size_t least = 0;
  for (std::size_t i = 0; i < part_count; ++i) least += parts[i].changes.least_bytes();
  if (as_classes < least) return true;
  std::size_t as_blocks = 0;
  for (std::size_t i = 0; i < part_count; ++i) {
    Part& part = parts[i];
    if (part.changes.count == 0) continue;
    choose(part);
    as_blocks += section_bytes(part.choice.bytes + (part.choice.mode->whole ? 0 : kOldCheckBytes));
  }
  return as_classes < as_blocks;
}

void UpdateEncoder::Impl::write_classes(std::size_t part_count, std::size_t bytes, const ClassTable& table, ByteSink& sink) {
  if (regions.must_write()) {
    std::array<std::byte, kMaxTableBytes> content;
    store(table, content.data());
    frame.write_section(kTagClassTable, {content.data(), table.bytes()}, sink);
    regions.note_written();
  }
  kernels::ChangeHashes hashes;
  for (std::size_t i = 0; i < part_count; ++i) {
    if (parts[i].changes.count == 0) continue;
    const kernels::ChangeHashes own = hash_listed(parts[i]);
    hashes = {hashes.old_values + own.old_values, hashes.new_values + own.new_values};
  }
  change_sum = change_sum + hashes.new_values - hashes.old_values;
  std::byte* payload = frame.begin_block(kClassesMode.id, gap, bytes, sink, kOldCheckBytes);
  classes.write(payload);
  store_le(payload + bytes, old_check_of(hashes.old_values));
  frame.end_block(hashes.old_values, hashes.new_values, sink);
  gap = 0;
  stats.changed += classes.changes();
  coded_elements += classes.changes();
  for (std::size_t i = 0; i < part_count; ++i) bring_forward(parts[i]);
  if (frame.chunk_is_full()) frame.end_chunk(sink);
}

// Of the state: changes are added where they are coded.
void UpdateEncoder::Impl::add_to_hashes(const Part& part) {
  if (!options.with_state_hash) return;
  if (!has_whole_base) {
    whole_sum = whole_sum + hash_block(part, target);
  } else if (!options.base_hash) {
    whole_sum = whole_sum + hash_block(part, base);
  }
}

// The mode of a block that has changes.
void UpdateEncoder::Impl::choose(Part& part) {
  BlockChanges& changes = part.changes;
  if (changes.fresh) part.choice = choose_mode(changes);
  if (changes.fresh || changes.count == 0) return;
  if (travels_whole(changes)) {
    part.choice = {&kDenseMode, changes.shape().bytes()};
    return;
  }
  changes.set_changes(changes.count);
  part.choice = {options.mode, options.mode != nullptr ? options.mode->cost(changes) : kCannot};
  if (part.choice.bytes == kCannot) part.choice = choose_mode(changes);
}

// To be through sooner: known before any list is made.
bool UpdateEncoder::Impl::travels_whole(const BlockChanges& changes) const {
  if (options.wire_ps_per_byte == 0 || options.mode != nullptr) return false;
  const BlockShape shape = changes.shape();
  if (selects() && changes.count < shape.elements / kRuledPart) return false;
  return whole_is_faster(shape, changes.count, changes.positions.data()[changes.count - 1], options.wire_ps_per_byte);
}

// In the mode that was chosen.
void UpdateEncoder::Impl::encode_part(Part& part, ByteSink& sink) {
  const BlockShape shape = part.changes.shape();
  const std::size_t count = part.changes.count;
  if (part.changes.fresh) {
    encode_fresh(part, sink);
  } else if (count == 0) {
    ++gap;
  } else {
    stats.changed += count;
    coded_elements += part.choice.mode->whole ? shape.elements : count;
    const kernels::ChangeHashes hashes = hash_changes(part);
    change_sum = change_sum + hashes.new_values - hashes.old_values;
    write_block(part, hashes, sink);
    bring_forward(part);
  }
  if (frame.chunk_is_full()) frame.end_chunk(sink);
}

// Blocks of which few elements change wait for their neighbours. Others, which it would not make smaller, end the group before
// them.
bool UpdateEncoder::Impl::add_to_group(const Part& part, ByteSink& sink) {
  const BlockChanges& changes = part.changes;
  if (changes.count == 0 && !changes.fresh) return false;
  const bool forced = options.mode == &kFlatGroupMode || options.mode == &kTwoLevelGroupMode;
  const bool is_free = options.mode == nullptr && !options.values.is_lossy();
  const bool may = !changes.fresh && (forced ? changes.count <= kMaxGroupChanges : is_free && is_sparse(changes));
  if (!group.empty() && !(may && group.has_room(part.index, changes.count) && map.run_of(group.first_block()).end() > part.index)) {
    end_group(sink);
  }
  if (!may) return false;
  if (group.empty()) {
    group_gap = gap;
    group_hashes = {};
  }
  gap = 0;
  const kernels::ChangeHashes hashes = hash_listed(part);
  group_hashes = {group_hashes.old_values + hashes.old_values, group_hashes.new_values + hashes.new_values};
  group.add(part.index, changes);
  return true;
}

void UpdateEncoder::Impl::end_group(ByteSink& sink) {
  if (group.empty()) return;
  const std::uint64_t first = group.first_block();
  const auto elements = static_cast<std::uint32_t>(map.run_of(first).elements(first, group.last_block() + 1));
  const bool is_asked = options.mode != nullptr;
  const std::size_t bytes =
      is_asked || group.parts().size() > 1 ? group.plan(elements, options.mode, options.fewest_bytes) : kCannot;
  if (bytes != kCannot) {
    write_group(bytes, sink);
  } else {
    const std::uint64_t gap_behind = gap;
    std::uint64_t next = first - group_gap;
    for (const GroupEncoder::Part& grouped : group.parts()) {
      gap = grouped.index - next;
      next = grouped.index + 1;
      restore(grouped);
      choose(grouped_part);
      encode_part(grouped_part, sink);
    }
    gap = gap_behind;
  }
  group.clear();
}

void UpdateEncoder::Impl::write_group(std::size_t bytes, ByteSink& sink) {
  change_sum = change_sum + group_hashes.new_values - group_hashes.old_values;
  std::byte* payload = frame.begin_block(group.mode().id, group_gap, bytes, sink, kOldCheckBytes);
  group.write(parts[0].changes.flags.data(), payload);
  store_le(payload + bytes, old_check_of(group_hashes.old_values));
  frame.end_block(group_hashes.old_values, group_hashes.new_values, sink);
  stats.changed += group.count();
  coded_elements += group.count();
  for (const GroupEncoder::Part& grouped : group.parts()) {
    if (!forward.active()) break;
    set_views(grouped_part, grouped.index);
    bring_forward(grouped.index, grouped_part.changes.target, group.positions(grouped), group.old_values(grouped),
                  group.new_values(grouped));
  }
  if (frame.chunk_is_full()) frame.end_chunk(sink);
}

// A block that is to be coded by itself after all: its changes to grouped_part.
void UpdateEncoder::Impl::restore(const GroupEncoder::Part& grouped) {
  set_views(grouped_part, grouped.index);
  BlockChanges& changes = grouped_part.changes;
  changes.make_room();
  changes.count = grouped.count;
  std::ranges::copy(group.positions(grouped), changes.positions.data());
  std::ranges::copy(group.old_values(grouped), changes.old_values.data());
  std::ranges::copy(group.new_values(grouped), changes.new_values.data());
}

void UpdateEncoder::Impl::encode_fresh(Part& part, ByteSink& sink) {
  stats.changed += part.changes.shape().elements;
  coded_elements += part.changes.shape().elements;
  write_block(part, {}, sink);
}

// Of what the receiver will see of them: the changed elements, or all of the block.
kernels::ChangeHashes UpdateEncoder::Impl::hash_changes(const Part& part) {
  if (!part.choice.mode->whole) return hash_listed(part);
  return {hash_block(part, base), block_hash(part.changes.target, part.index, kernels, hash_scratch)};
}

kernels::ChangeHashes UpdateEncoder::Impl::hash_listed(const Part& part) const {
  const BlockChanges& changes = part.changes;
  return changes_hash(kernels, changes.shape().datatype, {changes.positions.data(), changes.count}, changes.old_values.data(),
                      changes.new_values.data(), part.index);
}

void UpdateEncoder::Impl::write_block(Part& part, const kernels::ChangeHashes& hashes, ByteSink& sink) {
  const ModeChoice& choice = part.choice;
  const std::size_t check_bytes = choice.mode->whole ? 0 : kOldCheckBytes;
  std::byte* payload = frame.begin_block(choice.mode->id, gap, choice.bytes, sink, check_bytes);
  choice.mode->encode(part.changes, payload);
  if (check_bytes > 0) store_le(payload + choice.bytes, old_check_of(hashes.old_values));
  frame.end_block(hashes.old_values, hashes.new_values, sink);
  gap = 0;
}

void UpdateEncoder::Impl::bring_forward(const Part& part) {
  const BlockChanges& changes = part.changes;
  if (!forward.active() || changes.count == 0) return;
  const std::size_t value_bytes = changes.count * changes.shape().element_bytes();
  // Where it lies, not where select() may have made its target anew.
  bring_forward(part.index, view(part, target), {changes.positions.data(), changes.count}, {changes.old_values.data(), value_bytes},
                {changes.new_values.data(), value_bytes});
}

void UpdateEncoder::Impl::bring_forward(std::uint64_t index, const BlockView& target_view, std::span<const std::uint16_t> positions,
                                        std::span<const std::byte> old_values, std::span<const std::byte> new_values) {
  forward.write(index, {target_view.shape, target_view.pieces, options.bring_forward}, positions, old_values, new_values);
}

void UpdateEncoder::Impl::end(ByteSink& sink) {
  end_group(sink);
  frame.end_chunk(sink);
  ByteWriter content;
  content.write(frame.blocks());
  content.write(coded_elements);
  content.write(stats.changed);
  if (options.with_state_hash) {
    stats.target_hash = options.schema_hash + whole_sum;
    if (has_whole_base) {
      stats.base_hash = options.base_hash.value_or(stats.target_hash);
      stats.target_hash = stats.base_hash + change_sum;
      content.write(stats.base_hash.low);
      content.write(stats.base_hash.high);
    }
    content.write(stats.target_hash.low);
    content.write(stats.target_hash.high);
  }
  frame.write_checked_section(kTagEnd, content.bytes(), sink);
  stats.encoded_bytes = frame.total_bytes();
  finished = true;
}

UpdateEncoder::UpdateEncoder(const BlockMap& map, std::span<const std::byte* const> base, std::span<const std::byte* const> target,
                             const EncodeOptions& options, const kernels::KernelSet& kernels)
    : impl_(std::make_unique<Impl>(map, base, target, options, kernels)) {}

UpdateEncoder::~UpdateEncoder() = default;

Status UpdateEncoder::step(std::uint64_t budget_elements, ByteSink& sink) {
  Impl& impl = *impl_;
  if (impl.finished) return {};
  if (!impl.started) SPARCL_RETURN_IF_ERROR(impl.start(sink));
  for (std::uint64_t done = 0; impl.next_block < impl.map.block_count();) {
    const std::uint64_t before = impl.opened_elements;
    SPARCL_RETURN_IF_ERROR(impl.encode_block(sink));
    done += impl.opened_elements - before;
    if (done >= budget_elements && impl.next_block < impl.map.block_count()) return {};
  }
  impl.end(sink);
  return {};
}

void UpdateEncoder::keep_forward() { impl_->forward.keep(); }
bool UpdateEncoder::finished() const { return impl_->finished; }
const EncodeStats& UpdateEncoder::stats() const { return impl_->stats; }

}  // namespace sparcl::codec
