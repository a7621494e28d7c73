// The sections of an update's stream, one after the other, as untrusted bytes.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "src/base/bytes.hpp"
#include "src/codec/layout.hpp"
#include "src/codec/state_hash.hpp"
#include "src/codec/superblock.hpp"
#include "src/codec/update_decoder_impl.hpp"

namespace sparcl::codec {

Status UpdateDecoder::Impl::read_header(const std::byte* at) {
  header = {load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8),
            load_le<std::uint32_t>(at + 52)};
  const Hash128 schema{load_le<std::uint64_t>(at + 16), load_le<std::uint64_t>(at + 24)};
  const auto elements = load_le<std::uint64_t>(at + 40);
  const auto arrays = load_le<std::uint32_t>(at + 48);
  if ((header.flags & ~kFlags) != 0)
    return corrupt("the header has flags that this wire version does not define");
  if ((header.flags & kFlagNoDigests) != 0) {
    if ((header.flags & kFlags) != kFlags)
      return corrupt("an update without digests has no state hashes either");
    check.expect_no_digests();
  }
  if ((header.flags & kFlagBaseHash) != 0) {
    for (const auto& worker : workers) worker->hash_fresh();
    if (elsewhere != nullptr) elsewhere->hash_fresh();
  }
  if (schema != expected_schema) {
    return Status(Code::kMismatch,
                  fmt::format("the update is for a state of {} arrays and {} elements with schema "
                              "{}; held are {} and {} with schema {}",
                              arrays, elements, to_hex(schema), input.map.arrays().size(),
                              input.map.element_count(), to_hex(expected_schema)));
  }
  if (load_le<std::uint64_t>(at + 32) != layout_hash(input.map) ||
      elements != input.map.element_count() || arrays != input.map.arrays().size()) {
    return Status(Code::kMismatch, fmt::format("the update is for {} arrays and {} elements of "
                                               "other types or sizes than the {} and {} held",
                                               arrays, elements, input.map.arrays().size(),
                                               input.map.element_count()));
  }
  if (input.verify == Verify::kFull && (header.flags & kFlagTargetHash) == 0) {
    return Status(Code::kUnsupported,
                  "the update carries no state hash, so a full check is not possible: encode it "
                  "with one, or verify `touched`");
  }
  if (input.verify == Verify::kTouched && (header.flags & kFlagNoDigests) != 0) {
    return Status(
        Code::kUnsupported,
        "the update was composed without its base, so it carries state hashes only: verify `full`");
  }
  return {};
}

Status UpdateDecoder::Impl::add_table(const std::byte* at, std::uint64_t bytes) {
  if (!table_is_used)
    return corrupt("a table of classes is followed by another, and no block uses it");
  if (const char* wrong =
          parse({at, static_cast<std::size_t>(bytes)}, input.tables.emplace_back())) {
    return corrupt(fmt::format("a table of classes {}", wrong));
  }
  if (elsewhere != nullptr) elsewhere->add_table(input.tables.back());
  table_is_used = false;
  return {};
}

// What lies outside the window is skipped. A part of a chunk has no digests.
bool UpdateDecoder::Impl::skip_outside(const BlockEntry& entry) {
  if (input.window == nullptr) return false;
  const std::uint64_t held = input.window->count(entry.index, entry.last);
  window_blocks += held;
  chunk_is_whole = chunk_is_whole && held == entry.last - entry.index;
  skipped_entries += held == 0 ? 1 : 0;
  return held == 0;
}

// False: it is outside the window.
Result<bool> UpdateDecoder::Impl::add_entry(const Staging& staging, const Section& found) {
  SPARCL_ASSIGN_OR_RETURN(const Gap gap, read_gap(staging, found, scratch));
  if (gap.blocks >= input.map.block_count() - next_block) {
    return corrupt(
        fmt::format("byte {}: a block past the last of {}", found.first, input.map.block_count()));
  }
  BlockEntry entry{next_block + gap.blocks,
                   next_block + gap.blocks + 1,
                   found.first + gap.bytes,
                   static_cast<std::uint32_t>(found.bytes - gap.bytes),
                   0,
                   static_cast<std::uint8_t>(mode_of(found.tag)),
                   0,
                   0,
                   0};
  if (!find_block_mode(entry.mode)->whole) {
    if (entry.bytes < kOldCheckBytes)
      return corrupt(fmt::format("byte {}: a block ends before its check", found.first));
    entry.bytes -= kOldCheckBytes;
    entry.old_check = load_le<std::uint16_t>(
        staging.contiguous(entry.first + entry.bytes, kOldCheckBytes, scratch));
  }
  if (writing == Writing::kOver && !find_block_mode(entry.mode)->whole) {
    return corrupt(fmt::format("block {} (mode {}) is not sent whole, and no base is held",
                               entry.index, find_block_mode(entry.mode)->name));
  }
  if (entry.mode == kClassesMode.id) SPARCL_RETURN_IF_ERROR(add_superblock(entry));
  if (is_group(entry.mode)) SPARCL_RETURN_IF_ERROR(add_group(staging, entry));
  if (find_block_mode(entry.mode)->resolve != nullptr && (header.flags & kFlagTargetHash) == 0) {
    return corrupt(fmt::format("block {} (mode {}) is in an update without its target's state hash",
                               entry.index, find_block_mode(entry.mode)->name));
  }
  next_block = entry.last;
  if (skip_outside(entry)) return false;
  entries.push_back(entry);
  return true;
}

Status UpdateDecoder::Impl::add_superblock(BlockEntry& entry) {
  const auto superblock = superblock_at(input.map, entry.index);
  if (!superblock)
    return corrupt(
        fmt::format("block {} (mode classes) is no 16-bit float, or not the first of a superblock",
                    entry.index));
  if (input.tables.empty())
    return corrupt(
        fmt::format("block {} (mode classes) comes before a table of classes", entry.index));
  if ((header.flags & kFlagTargetHash) == 0) {
    return corrupt(fmt::format(
        "block {} (mode classes) is in an update without its target's state hash", entry.index));
  }
  entry.table = static_cast<std::uint32_t>(input.tables.size() - 1);
  table_is_used = true;
  entry.last = superblock->last;
  return {};
}

Status UpdateDecoder::Impl::add_group(const Staging& staging, BlockEntry& entry) {
  std::uint64_t blocks = 0;
  if (entry.bytes > 0)
    blocks = 1 + std::uint64_t{load_le<std::uint8_t>(staging.contiguous(entry.first, 1, scratch))};
  entry.last = entry.index + blocks;
  if (blocks == 0 || entry.last > input.map.run_of(entry.index).end()) {
    return corrupt(
        fmt::format("block {} (mode {}) is of a group that goes on past the last block of its type",
                    entry.index, find_block_mode(entry.mode)->name));
  }
  return {};
}

Status UpdateDecoder::Impl::read_chunk_end(const std::byte* at) {
  const std::size_t first_entry = std::exchange(chunk_entries, entries.size());
  if (!fits_held && input.verify == Verify::kOff) {
    return placed(
        Status(
            Code::kWrongBase,
            "what is held is not the base: changes that are found by its old values are not there"),
        entries[first_entry].index, entries.back().index);
  }
  const bool is_whole = std::exchange(chunk_is_whole, true);
  if (input.verify == Verify::kOff) return {};
  if (!is_whole) {
    if (check.drop_chunk() && !odd_blocks) return {};
    return placed(Status(Code::kWrongBase, "what is held is not the base of this update"),
                  entries.back().index, entries.back().index);  // there is one that has said so
  }
  Status status = check.end_chunk({load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8)});
  if (check.needs_held_hash()) stop_early();
  if (!status.ok() && first_entry < entries.size())
    return placed(status, entries[first_entry].index, entries.back().index);
  if (input.verify == Verify::kTouched && !check.needs_held_hash())
    odd_blocks.reset();  // a full check is over with the last chunk
  return status;
}

// A digest covers many blocks. The error names the first block whose own check fails, or the group
// that shares one.
Status UpdateDecoder::Impl::placed(const Status& status, std::uint64_t first,
                                   std::uint64_t last) const {
  const BlockRange at = odd_blocks.value_or(BlockRange{first, last});
  const std::string where = describe_blocks(input.map, at.first, at.last, input.array_name);
  return Status(status.code(), fmt::format("{} (in {})", status.message(), where));
}

Status UpdateDecoder::Impl::read_end(const std::byte* at, std::uint64_t bytes) {
  const bool has_base = (header.flags & kFlagBaseHash) != 0;
  const bool has_target = (header.flags & kFlagTargetHash) != 0;
  if (!table_is_used) return corrupt("a table of classes is used by no block");
  if (bytes != kEndBytes + 16 * (std::uint64_t{has_base} + std::uint64_t{has_target}))
    return corrupt("the end has another length than its flags say");
  changed = load_le<std::uint64_t>(at + 16);
  const auto said_elements = load_le<std::uint64_t>(at + 8);
  const bool is_whole = input.window == nullptr;  // else not all elements are known
  if (load_le<std::uint64_t>(at) != entries.size() + skipped_entries ||
      (is_whole && said_elements != coded_elements) || changed > said_elements) {
    return corrupt("the totals at the end are not those of the blocks before it");
  }
  if (writing == Writing::kOver && is_whole && whole_elements() != input.map.element_count()) {
    return corrupt(fmt::format("it writes {} of {} elements, and no base is held", whole_elements(),
                               input.map.element_count()));
  }
  StateHashes said;
  at += 24;
  if (has_base) {
    said.base = Hash128{load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8)};
    at += 16;
  }
  if (has_target) said.target = Hash128{load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8)};
  base_hash = said.base;
  target_hash = said.target;
  ended = true;
  if (!is_whole) return read_window_end();
  if (check.needs_held_hash()) {
    if (elsewhere != nullptr) return elsewhere->leave_to_host();
    const std::vector<const std::byte*> arrays(input.held.begin(), input.held.end());
    check.set_held_hash(state_hash(input.map, arrays, expected_schema));
  }
  if (input.verify != Verify::kOff) {
    const Status status = check.finish(said);
    if (!status.ok())
      return status.code() == Code::kWrongBase && odd_blocks ? placed(status, 0, 0) : status;
  }
  return {};
}

// The hash of the whole state is not known: digests of whole chunks are all there is.
Status UpdateDecoder::Impl::read_window_end() const {
  if (writing == Writing::kOver && window_blocks != input.window->block_count())
    return corrupt(fmt::format("it writes {} of {} blocks, and no base is held", window_blocks,
                               input.window->block_count()));
  return input.verify == Verify::kOff ? Status() : check.finish_window();
}

}  // namespace sparcl::codec
