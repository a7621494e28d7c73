#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "src/base/bytes.hpp"
#include "src/codec/base_check.hpp"
#include "src/codec/class_decoder.hpp"
#include "src/codec/early_writer.hpp"
#include "src/codec/frame_reader.hpp"
#include "src/codec/group_decoder.hpp"
#include "src/codec/layout.hpp"
#include "src/codec/payload.hpp"
#include "src/codec/state_hash.hpp"
#include "src/codec/superblock.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {
namespace {

struct BlockEntry {  // where a block lies in the stream
  std::uint64_t index;
  std::uint64_t first;
  std::uint32_t bytes;
  std::uint16_t old_check;  // of a block that lists positions
  std::uint8_t mode;
  std::uint8_t slot;    // that it was checked in (its first block): there is room for it, so that apply() allocates nothing
  std::uint32_t table;  // of a block of classes: the place of its table
};

// A block that has been decoded and whose lines are on their way from memory; used one block later.
struct Slot {
  std::uint64_t index = 0;
  std::uint16_t old_check = 0;
  bool of_classes = false;  // its changes are found by what is held: one of the blocks of a superblock, or in mode coded
  bool is_part = false;     // one of several blocks that share an old check
  bool is_last = false;     // and the last of them
  bool fits = true;         // the last: all changes of the superblock were found
  std::vector<Piece> pieces;
  BlockShape shape;
  DecodedBlock block;
  Payload payload;
};

struct Header {
  std::uint64_t base_version = 0;
  std::uint64_t target_version = 0;
  std::uint32_t flags = 0;
};

Status corrupt(std::string_view what) { return Status(Code::kCorrupt, std::string(what)); }

}  // namespace

struct UpdateDecoder::Impl {
  Impl(const BlockMap& block_map, std::span<std::byte* const> held_arrays, Verify verify_level, const Hash128& schema,
       const kernels::KernelSet& kernel_set, Writing writing)
      : map(block_map),
        held(held_arrays.begin(), held_arrays.end()),
        verify(verify_level),
        expected_schema(schema),
        kernels(kernel_set),
        frame(StreamKind::kUpdate),
        check(verify_level, schema, kernel_set),
        classes(kernel_set),
        early(block_map, held, kernel_set, writing == Writing::kEarly && verify_level != Verify::kFull) {}

  Status advance(const Staging& staging, std::uint64_t available, std::uint64_t budget_blocks, bool& more);
  Status handle(const Staging& staging, const Section& section);
  Status handle_block(const Staging& staging, BlockEntry& entry);
  Status read_header(const std::byte* at);
  Status read_chunk_end(const std::byte* at);
  Status placed(const Status& status, std::uint64_t first, std::uint64_t last) const;
  Status read_end(const std::byte* at, std::uint64_t bytes);
  Status add_table(const std::byte* at, std::uint64_t bytes);
  Status add_entry(const Staging& staging, const Section& section);
  Status add_superblock(BlockEntry& entry);
  Status add_group(const Staging& staging, BlockEntry& entry);
  std::uint64_t hashes_before(const Section& found) const;
  std::uint64_t hash_unchanged(std::uint64_t end, std::uint64_t budget);
  Status load(const Staging& staging, const BlockEntry& entry, Slot& slot);
  Status read_classes(const Staging& staging, const BlockEntry& entry);
  void load_part(const BlockEntry& entry, std::uint64_t index, Slot& slot);
  Status read_group(const Staging& staging, const BlockEntry& entry);
  void load_grouped(const BlockEntry& entry, Slot& slot);
  void check_pending(const Slot* next);
  bool holds_base(const Slot& slot, const BaseCheck::Compared& compared) const;
  void end_parts(const Slot& slot);
  void write_pending(const Slot* next);
  Status apply_entry(const Staging& staging, const BlockEntry& entry);
  Status apply_group(const Staging& staging, const BlockEntry& entry);
  void write_behind(Slot& slot);
  Status apply(const Staging& staging);

  kernels::Upcoming accesses_of(const Slot* slot) const;
  WritableBlockView view(const Slot& slot) const { return {slot.shape, slot.pieces, held}; }
  Slot& spare() { return slots[pending == &slots[0] ? 1 : 0]; }

  const BlockMap& map;
  std::vector<std::byte*> held;
  Verify verify;
  Hash128 expected_schema;
  const kernels::KernelSet& kernels;
  FrameReader frame;
  BaseCheck check;
  ClassDecoder classes;
  GroupDecoder group;
  EarlyWriter early;

  ArrayName array_name;
  Status error;  // the first one
  Header header;
  std::vector<std::byte> attachment;
  std::vector<BlockEntry> entries;
  std::vector<ClassTable> tables;
  bool table_is_used = true;    // the last one
  std::uint64_t next_part = 0;  // of the last entry: its blocks [next_part, next_block) are to come
  Hash128 part_hash;            // of those before
  bool fits_held = true;        // Verify::kOff: all blocks of classes
  Payload part_payload;
  std::vector<std::byte> held_block;       // in one piece
  std::vector<std::byte> added_values;     // room for those of a block in mode added
  std::uint64_t next_block = 0;            // the least index that the next block can have
  std::uint64_t hashed_block = 0;          // kFull: all below are in the hashes
  std::size_t chunk_entries = 0;           // those of the chunk begin here
  std::optional<std::uint64_t> odd_block;  // the first whose old values are not the base's, as far as its short check tells
  std::uint64_t coded_elements = 0;
  std::uint64_t changed = 0;
  std::optional<Hash128> target_hash;
  bool ended = false;
  bool finished = false;
  std::optional<Section> section;  // found, and not handled yet
  std::array<Slot, 2> slots;
  Slot* pending = nullptr;  // decoded, and not checked (or written) yet
  std::vector<std::byte> scratch;
};

Status UpdateDecoder::Impl::advance(const Staging& staging, std::uint64_t available, std::uint64_t budget_blocks, bool& more) {
  more = false;
  for (std::uint64_t budget = std::max<std::uint64_t>(budget_blocks, 1);;) {
    if (!section) {
      Section found_section;
      bool found = false;
      SPARCL_RETURN_IF_ERROR(frame.next(staging, available, found_section, found));
      if (!found) return {};
      section = found_section;
      if (is_block(section->tag)) SPARCL_RETURN_IF_ERROR(add_entry(staging, *section));
    }
    const std::uint64_t unchanged_end = hashes_before(*section);
    if (budget == 0 && (is_block(section->tag) || hashed_block < unchanged_end)) {
      more = true;
      return {};
    }
    if (hashed_block < unchanged_end) {
      budget -= hash_unchanged(unchanged_end, budget);
      continue;
    }
    SPARCL_RETURN_IF_ERROR(handle(staging, *section));
    if (is_block(section->tag)) --budget;
    if (next_part == next_block) section.reset();
  }
}

// With kFull: all blocks below the result must be in the hashes before this section is handled.
std::uint64_t UpdateDecoder::Impl::hashes_before(const Section& found) const {
  if (verify != Verify::kFull) return 0;
  if (is_block(found.tag)) return entries.back().index;
  return found.tag == kTagEnd ? map.block_count() : 0;
}

// The blocks below `end` that the update leaves alone; at most `budget` of them. Returns how many.
std::uint64_t UpdateDecoder::Impl::hash_unchanged(std::uint64_t end, std::uint64_t budget) {
  std::uint64_t done = 0;
  std::vector<Piece> pieces;
  for (; hashed_block < end && done < budget; ++hashed_block, ++done) {
    const DataType datatype = map.block(hashed_block, pieces);
    check.add_unchanged(hashed_block, BasicBlockView<std::byte>{shape_of(datatype, pieces), pieces, held});
  }
  return done;
}

Status UpdateDecoder::Impl::handle(const Staging& staging, const Section& found) {
  if (is_block(found.tag)) {
    return handle_block(staging, entries.back());
  }
  check_pending(nullptr);
  const std::byte* at = staging.contiguous(found.first, static_cast<std::size_t>(found.bytes), scratch);
  switch (found.tag) {
    case kTagUpdateHeader:
      return read_header(at);
    case kTagAttachment:
      attachment.assign(at, at + found.bytes);
      return {};
    case kTagClassTable:
      return add_table(at, found.bytes);
    case kTagChunkEnd:
      return read_chunk_end(at);
    default:
      return read_end(at, found.bytes);
  }
}

// A block; of several that share a section the next one.
Status UpdateDecoder::Impl::handle_block(const Staging& staging, BlockEntry& entry) {
  Slot& slot = spare();
  if (next_part == entry.index) entry.slot = &slot == &slots[1] ? 1 : 0;
  if (is_group(entry.mode)) {
    if (next_part == entry.index) {
      SPARCL_RETURN_IF_ERROR(read_group(staging, entry));
      coded_elements += group.changes();
    }
    load_grouped(entry, slot);
    if (verify == Verify::kFull) hash_unchanged(slot.index, kMaxGroupBlocks);
    next_part = group.has_more() ? entry.index + group.next_block() : next_block;
  } else if (entry.mode == kClassesMode.id) {
    if (next_part == entry.index) {
      SPARCL_RETURN_IF_ERROR(read_classes(staging, entry));
      coded_elements += classes.changes();
    }
    load_part(entry, next_part++, slot);
  } else {
    SPARCL_RETURN_IF_ERROR(load(staging, entry, slot));
    coded_elements += slot.block.count;
    ++next_part;
  }
  check_pending(&slot);
  pending = &slot;
  hashed_block = slot.index + 1;
  return {};
}

Status UpdateDecoder::Impl::read_header(const std::byte* at) {
  header = {load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8), load_le<std::uint32_t>(at + 52)};
  const Hash128 schema{load_le<std::uint64_t>(at + 16), load_le<std::uint64_t>(at + 24)};
  const auto elements = load_le<std::uint64_t>(at + 40);
  const auto arrays = load_le<std::uint32_t>(at + 48);
  if ((header.flags & ~kFlags) != 0) return corrupt("the header has flags that wire version 0 does not define");
  if ((header.flags & kFlagNoDigests) != 0) {
    if ((header.flags & kFlags) != kFlags) return corrupt("an update without digests has no state hashes either");
    check.expect_no_digests();
  }
  if (schema != expected_schema) {
    return Status(
        Code::kMismatch,
        fmt::format("the update is for a state of {} arrays and {} elements with schema {}; held are {} and {} with schema {}",
                    arrays, elements, to_hex(schema), map.arrays().size(), map.element_count(), to_hex(expected_schema)));
  }
  if (load_le<std::uint64_t>(at + 32) != layout_hash(map) || elements != map.element_count() || arrays != map.arrays().size()) {
    return Status(Code::kMismatch,
                  fmt::format("the update is for {} arrays and {} elements of other types or sizes than the {} and {} held", arrays,
                              elements, map.arrays().size(), map.element_count()));
  }
  if (verify == Verify::kFull && (header.flags & kFlagTargetHash) == 0) {
    return Status(Code::kUnsupported,
                  "the update carries no state hash, so a full check is not possible: encode it with one, or verify `touched`");
  }
  if (verify == Verify::kTouched && (header.flags & kFlagNoDigests) != 0) {
    return Status(Code::kUnsupported, "the update was composed without its base, so it carries state hashes only: verify `full`");
  }
  return {};
}

Status UpdateDecoder::Impl::add_table(const std::byte* at, std::uint64_t bytes) {
  if (!table_is_used) return corrupt("a table of classes is followed by another, and no block uses it");
  if (const char* wrong = parse({at, static_cast<std::size_t>(bytes)}, tables.emplace_back())) {
    return corrupt(fmt::format("a table of classes {}", wrong));
  }
  table_is_used = false;
  return {};
}

Status UpdateDecoder::Impl::add_entry(const Staging& staging, const Section& found) {
  std::uint64_t gap = 0;
  std::uint64_t skipped = 0;
  if (has_gap(found.tag)) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(found.bytes, kMaxVarintBytes));
    ByteReader reader({staging.contiguous(found.first, size, scratch), size});
    if (!reader.read_varint(gap) || gap == 0)
      return corrupt(fmt::format("byte {}: a count of unchanged blocks is invalid", found.first));
    skipped = reader.position();
  }
  if (gap >= map.block_count() - next_block) {
    return corrupt(fmt::format("byte {}: a block past the last of {}", found.first, map.block_count()));
  }
  BlockEntry entry{next_block + gap,
                   found.first + skipped,
                   static_cast<std::uint32_t>(found.bytes - skipped),
                   0,
                   static_cast<std::uint8_t>(mode_of(found.tag)),
                   0,
                   0};
  if (!find_block_mode(entry.mode)->whole) {
    if (entry.bytes < kOldCheckBytes) return corrupt(fmt::format("byte {}: a block ends before its check", found.first));
    entry.bytes -= kOldCheckBytes;
    entry.old_check = load_le<std::uint16_t>(staging.contiguous(entry.first + entry.bytes, kOldCheckBytes, scratch));
  }
  next_part = entry.index;
  next_block = entry.index + 1;
  if (entry.mode == kClassesMode.id) SPARCL_RETURN_IF_ERROR(add_superblock(entry));
  if (is_group(entry.mode)) SPARCL_RETURN_IF_ERROR(add_group(staging, entry));
  if (find_block_mode(entry.mode)->resolve != nullptr && (header.flags & kFlagTargetHash) == 0) {
    return corrupt(fmt::format("block {} (mode {}) is in an update without its target's state hash", entry.index,
                               find_block_mode(entry.mode)->name));
  }
  entries.push_back(entry);
  return {};
}

Status UpdateDecoder::Impl::add_superblock(BlockEntry& entry) {
  const auto superblock = superblock_at(map, entry.index);
  if (!superblock)
    return corrupt(fmt::format("block {} (mode classes) is no 16-bit float, or not the first of a superblock", entry.index));
  if (tables.empty()) return corrupt(fmt::format("block {} (mode classes) comes before a table of classes", entry.index));
  if ((header.flags & kFlagTargetHash) == 0) {
    return corrupt(fmt::format("block {} (mode classes) is in an update without its target's state hash", entry.index));
  }
  entry.table = static_cast<std::uint32_t>(tables.size() - 1);
  table_is_used = true;
  next_block = superblock->last;
  return {};
}

Status UpdateDecoder::Impl::add_group(const Staging& staging, BlockEntry& entry) {
  std::uint64_t blocks = 0;
  if (entry.bytes > 0) blocks = 1 + std::uint64_t{load_le<std::uint8_t>(staging.contiguous(entry.first, 1, scratch))};
  next_block = entry.index + blocks;
  if (blocks == 0 || next_block > map.run_of(entry.index).end()) {
    return corrupt(fmt::format("block {} (mode {}) is of a group that goes on past the last block of its type", entry.index,
                               find_block_mode(entry.mode)->name));
  }
  return {};
}

Status UpdateDecoder::Impl::read_group(const Staging& staging, const BlockEntry& entry) {
  const std::span<const std::byte> bytes = part_payload.load(staging, entry.first, entry.bytes, false);
  const BlockMap::BlockRun run = map.run_of(entry.index);
  const std::uint64_t last = entry.index + static_cast<std::uint8_t>(bytes[0]);
  const auto elements = static_cast<std::uint32_t>(run.elements(entry.index, last + 1));
  if (const char* wrong = group.read(kernels, entry.mode, run.datatype, elements, bytes)) {
    return corrupt(fmt::format("{} (mode {}, {} bytes at byte {}) {}", describe_blocks(map, entry.index, last, array_name),
                               find_block_mode(entry.mode)->name, entry.bytes, entry.first, wrong));
  }
  return {};
}

// The next block of the group that changes.
void UpdateDecoder::Impl::load_grouped(const BlockEntry& entry, Slot& slot) {
  const std::uint32_t in_group = group.next_block();
  slot.index = entry.index + in_group;
  slot.old_check = entry.old_check;
  slot.of_classes = false;
  slot.is_part = true;
  slot.fits = true;
  const DataType datatype = map.block(slot.index, slot.pieces);
  slot.shape = shape_of(datatype, slot.pieces);
  group.take(in_group, slot.shape, slot.block);
  slot.is_last = !group.has_more();
}

// What of a block of classes does not depend on what is held.
Status UpdateDecoder::Impl::read_classes(const Staging& staging, const BlockEntry& entry) {
  const std::span<const std::byte> bytes = part_payload.load(staging, entry.first, entry.bytes, false);
  if (const char* wrong = classes.read(tables[entry.table], superblock_at(map, entry.index)->elements, bytes)) {
    return corrupt(fmt::format("block {} (mode classes, {} bytes at byte {}) {}", entry.index, entry.bytes, entry.first, wrong));
  }
  return {};
}

void UpdateDecoder::Impl::load_part(const BlockEntry& entry, std::uint64_t index, Slot& slot) {
  slot.index = index;
  slot.old_check = entry.old_check;
  slot.of_classes = slot.is_part = true;
  slot.is_last = index + 1 == superblock_at(map, entry.index)->last;
  const DataType datatype = map.block(index, slot.pieces);
  slot.shape = shape_of(datatype, slot.pieces);
  classes.next_block(view(slot), slot.block);
  slot.fits = !slot.is_last || classes.fits();
}

Status UpdateDecoder::Impl::load(const Staging& staging, const BlockEntry& entry, Slot& slot) {
  slot.index = entry.index;
  slot.of_classes = slot.is_part = false;
  slot.old_check = entry.old_check;
  const DataType datatype = map.block(entry.index, slot.pieces);
  slot.shape = shape_of(datatype, slot.pieces);
  const BlockMode& mode = *find_block_mode(entry.mode);
  const std::span<const std::byte> bytes = slot.payload.load(staging, entry.first, entry.bytes, mode.in_place);
  if (const char* wrong = mode.decode(slot.shape, bytes, kernels, slot.block)) {
    return corrupt(fmt::format("{} (mode {}, {} bytes at byte {}) {}", describe_blocks(map, entry.index, entry.index, array_name),
                               mode.name, entry.bytes, entry.first, wrong));
  }
  if (slot.block.kind == DecodedKind::kAdded) {
    added_values.resize(std::max(added_values.size(), slot.block.count * slot.shape.element_bytes()));
  }
  if (mode.resolve != nullptr) {
    slot.of_classes = slot.is_part = true;
    slot.is_last = true;
    slot.fits = mode.resolve(slot.shape, whole_block(view(slot), held_block).data(), kernels, slot.block);
  }
  return {};
}

kernels::Upcoming UpdateDecoder::Impl::accesses_of(const Slot* slot) const {
  if (slot == nullptr || slot->block.kind == DecodedKind::kWhole) return {};
  return upcoming(view(*slot), slot->block.changed());
}

void UpdateDecoder::Impl::check_pending(const Slot* next) {
  if (pending == nullptr) return;
  const Slot& slot = *pending;
  pending = nullptr;
  const bool lists = slot.block.kind != DecodedKind::kWhole;
  const bool changes = !lists || slot.block.count > 0;
  if (changes && (verify != Verify::kOff || early.active())) {
    const BaseCheck::Compared compared = check.add_changed(slot.index, view(slot), slot.block, accesses_of(next));
    if (slot.is_part) part_hash = part_hash + compared.held_hash;
    const bool is_base = holds_base(slot, compared);
    if (lists && !is_base && !odd_block) odd_block = slot.index;
    if (early.active() && lists) {
      if (is_base) {
        early.write(slot.index, view(slot), slot.block.changed(), compared.held_values, compared.new_values);
      } else {
        early.stop();  // what is held is the target already, or a wrong base: the chunk's digests tell which
      }
    }
  } else if (verify == Verify::kFull) {
    check.add_unchanged(slot.index, view(slot));
  }
  if (slot.is_part && slot.is_last) end_parts(slot);
}

// Of classes and of a group only all blocks together have a check: the last one tells, and what was written of the others is taken
// back if it fails.
bool UpdateDecoder::Impl::holds_base(const Slot& slot, const BaseCheck::Compared& compared) const {
  return verify == Verify::kOff || slot.is_part || old_check_of(compared.held_hash) == slot.old_check;
}

void UpdateDecoder::Impl::end_parts(const Slot& slot) {
  if (slot.of_classes) {
    fits_held = fits_held && slot.fits;
    check.add_classes(slot.fits);
  }
  const bool is_base = slot.fits && (verify == Verify::kOff || old_check_of(part_hash) == slot.old_check);
  if (early.active() && !is_base) early.stop();
  if (!is_base && !odd_block) odd_block = slot.index;
  part_hash = {};
}

Status UpdateDecoder::Impl::read_chunk_end(const std::byte* at) {
  const std::size_t first_entry = std::exchange(chunk_entries, entries.size());
  if (!fits_held && verify == Verify::kOff) {
    return placed(Status(Code::kWrongBase, "what is held is not the base: changes that are found by its old values are not there"),
                  entries[first_entry].index, entries.back().index);
  }
  if (verify == Verify::kOff) return {};
  Status status = check.end_chunk({load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8)});
  if (check.needs_held_hash()) early.stop();
  if (!status.ok() && first_entry < entries.size()) return placed(status, entries[first_entry].index, entries.back().index);
  if (verify == Verify::kTouched && !check.needs_held_hash()) odd_block.reset();  // a full check is over with the last chunk
  return status;
}

// A digest covers many blocks; the first whose own check fails is the place.
Status UpdateDecoder::Impl::placed(const Status& status, std::uint64_t first, std::uint64_t last) const {
  const std::string where = describe_blocks(map, odd_block.value_or(first), odd_block.value_or(last), array_name);
  return Status(status.code(), fmt::format("{} (in {})", status.message(), where));
}

Status UpdateDecoder::Impl::read_end(const std::byte* at, std::uint64_t bytes) {
  const bool has_base = (header.flags & kFlagBaseHash) != 0;
  const bool has_target = (header.flags & kFlagTargetHash) != 0;
  if (!table_is_used) return corrupt("a table of classes is used by no block");
  if (bytes != kEndBytes + 16 * (std::uint64_t{has_base} + std::uint64_t{has_target}))
    return corrupt("the end has another length than its flags say");
  changed = load_le<std::uint64_t>(at + 16);
  if (load_le<std::uint64_t>(at) != entries.size() || load_le<std::uint64_t>(at + 8) != coded_elements ||
      changed > coded_elements) {
    return corrupt("the totals at the end are not those of the blocks before it");
  }
  StateHashes said;
  at += 24;
  if (has_base) {
    said.base = Hash128{load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8)};
    at += 16;
  }
  if (has_target) said.target = Hash128{load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8)};
  target_hash = said.target;
  if (check.needs_held_hash()) {
    const std::vector<const std::byte*> arrays(held.begin(), held.end());
    check.set_held_hash(state_hash(map, arrays, expected_schema));
  }
  if (verify != Verify::kOff) {
    const Status status = check.finish(said);
    if (!status.ok()) return status.code() == Code::kWrongBase && odd_block ? placed(status, *odd_block, *odd_block) : status;
  }
  ended = true;
  return {};
}

void UpdateDecoder::Impl::write_pending(const Slot* next) {
  if (pending == nullptr) return;
  const DecodedBlock& block = pending->block;
  switch (block.kind) {
    case DecodedKind::kWhole:
      overwrite_block(view(*pending), block.whole);
      break;
    case DecodedKind::kValues:
      scatter(kernels, view(*pending), block.changed(), block.values.data(), accesses_of(next));
      break;
    case DecodedKind::kSteps:
      add_steps_at(kernels, view(*pending), block.changed(), block.values.data(), accesses_of(next));
      break;
    case DecodedKind::kMixed:  // files only: speed is no concern
      add_steps_at(kernels, view(*pending), block.changed(), block.values.data(), {});
      scatter(kernels, view(*pending), block.replaced_positions(), block.replaced_values.data(), {});
      break;
    case DecodedKind::kAdded:
      gather(kernels, view(*pending), block.changed(), added_values.data());
      add_codes(pending->shape.datatype, block.code_kind, block.scale, added_values.data(), block.values.data(), block.count,
                added_values.data());
      scatter(kernels, view(*pending), block.changed(), added_values.data(), accesses_of(next));
      break;
  }
  pending = nullptr;
}

Status UpdateDecoder::Impl::apply_entry(const Staging& staging, const BlockEntry& entry) {
  if (is_group(entry.mode)) return apply_group(staging, entry);
  if (entry.mode != kClassesMode.id) {
    Slot& slot = slots[entry.slot];
    if (pending == &slot) write_pending(nullptr);
    SPARCL_RETURN_IF_ERROR(load(staging, entry, slot));
    write_behind(slot);
    return {};
  }
  write_pending(nullptr);
  SPARCL_RETURN_IF_ERROR(read_classes(staging, entry));
  Slot& slot = slots[entry.slot];
  const std::uint64_t last = superblock_at(map, entry.index)->last;
  for (std::uint64_t index = entry.index; index < last; ++index) {
    const DataType datatype = map.block(index, slot.pieces);
    slot.shape = shape_of(datatype, slot.pieces);
    classes.apply_block(view(slot));
  }
  return {};
}

Status UpdateDecoder::Impl::apply_group(const Staging& staging, const BlockEntry& entry) {
  SPARCL_RETURN_IF_ERROR(read_group(staging, entry));
  for (std::size_t part = entry.slot; group.has_more(); ++part) {
    Slot& slot = slots[part % 2];
    if (pending == &slot) write_pending(nullptr);
    load_grouped(entry, slot);
    write_behind(slot);
  }
  return {};
}

// Writes the block before `slot`'s, and leaves that one to the next call.
void UpdateDecoder::Impl::write_behind(Slot& slot) {
  write_pending(&slot);
  pending = &slot;
}

// Each block is decoded before the one before it is written, so that the next lines are on their way while these are at work: the
// time is that of the lines touched, not the sum of their latencies.
Status UpdateDecoder::Impl::apply(const Staging& staging) {
  pending = nullptr;
  if (check.already_applied()) early.stop();
  for (const BlockEntry& entry : entries) {
    // Fresh blocks are written even where the rest is in place already: what they replace was never looked at.
    if (check.already_applied() && !find_block_mode(entry.mode)->fresh) continue;
    if (early.active() && !find_block_mode(entry.mode)->whole) continue;
    if (const Status status = apply_entry(staging, entry); !status.ok()) {
      return Status(Code::kInternalError, "an update that had passed its check failed to decode: " + status.message());
    }
  }
  write_pending(nullptr);
  early.keep();
  return {};
}

UpdateDecoder::UpdateDecoder(const BlockMap& map, std::span<std::byte* const> held, Verify verify, const Hash128& expected_schema,
                             const kernels::KernelSet& kernels, Writing writing)
    : impl_(std::make_unique<Impl>(map, held, verify, expected_schema, kernels, writing)) {}

UpdateDecoder::~UpdateDecoder() = default;

void UpdateDecoder::set_array_name(ArrayName name) { impl_->array_name = std::move(name); }

Status UpdateDecoder::advance(const Staging& staging, std::uint64_t available, std::uint64_t budget_blocks, bool& more) {
  more = false;
  if (impl_->error.ok()) impl_->error = impl_->advance(staging, available, budget_blocks, more);
  if (!impl_->error.ok()) impl_->early.stop();  // at once: the caller may look at its arrays while it holds on to the decoder
  return impl_->error;
}

Status UpdateDecoder::finish(std::uint64_t stream_bytes) {
  if (impl_->error.ok()) impl_->error = impl_->frame.finish(stream_bytes);
  if (impl_->error.ok() && !impl_->ended) {
    impl_->error = Status(Code::kInternalError, "finish() came before advance() had checked all blocks");
  }
  impl_->finished = impl_->error.ok();
  if (!impl_->finished) impl_->early.stop();
  return impl_->error;
}

bool UpdateDecoder::already_applied() const { return impl_->finished && impl_->check.already_applied(); }
std::uint64_t UpdateDecoder::base_version() const { return impl_->header.base_version; }
std::uint64_t UpdateDecoder::target_version() const { return impl_->header.target_version; }
std::uint64_t UpdateDecoder::changed() const { return impl_->changed; }
std::span<const std::byte> UpdateDecoder::attachment() const { return impl_->attachment; }
std::optional<Hash128> UpdateDecoder::target_hash() const { return impl_->target_hash; }
void UpdateDecoder::track(const Hash128& held_hash) { impl_->check.track(held_hash); }

Status UpdateDecoder::apply(const Staging& staging) {
  if (!impl_->finished) return Status(Code::kInvalidUsage, "apply() before finish() has approved the update");
  return impl_->apply(staging);
}

}  // namespace sparcl::codec
