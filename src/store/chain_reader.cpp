#include "src/store/chain_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "src/base/log.hpp"
#include "src/base/memory_size.hpp"
#include "src/base/worker_pool.hpp"
#include "src/codec/update.hpp"
#include "src/model/snapshot.hpp"
#include "src/store/anchor_index.hpp"
#include "src/store/leaf_fetch.hpp"
#include "src/store/object_cache.hpp"
#include "src/store/object_fetch.hpp"
#include "src/store/stored_object.hpp"
#include "src/store/update_coding.hpp"

namespace sparcl::store {
namespace {

// Of an object that is read ahead while it is decoded. Heuristic: memory that is used again.
constexpr std::uint64_t kWindow = std::uint64_t{32} << 20;

// Changes of at most a part of this of all bytes are kept between their check and their writing.
constexpr std::uint64_t kMaxKept = 4;

// Where versions are written.
struct Target {
  std::span<std::byte* const> arrays;
  bool may_tear = false;  // an error may leave anything there
};

Status check_ends(const codec::UpdateDecoder& decoder, const ChainStep& step,
                  const std::optional<model::HeldVersion>& held) {
  if (decoder.target_hash() != step.target.hash || decoder.target_version() != step.target.version)
    return Status(
        Code::kCorrupt,
        fmt::format("it leads to version {} with the state {}, its record says version "
                    "{} with {}",
                    decoder.target_version(), to_hex(decoder.target_hash().value_or(Hash128())),
                    step.target.version, to_hex(step.target.hash)));
  if (step.is_anchor() || decoder.base_hash() == held->hash) return {};
  return Status(Code::kCorrupt,
                fmt::format("it leads on from the state {}, and the version before has {}",
                            to_hex(decoder.base_hash().value_or(Hash128())), to_hex(held->hash)));
}

struct Step {
  const ChainStep& step;
  std::optional<model::HeldVersion>& held;  // before it
  const ChainState& state;
  Target target;

  bool is_over() const { return target.may_tear && step.is_anchor(); }
  codec::Verify verify() const {
    if (!step.is_anchor()) return codec::Verify::kTouched;
    return state.window != nullptr ? codec::Verify::kOff : codec::Verify::kFull;
  }
  codec::Writing writing() const {
    if (!target.may_tear) return codec::Writing::kStaged;
    return step.is_anchor() ? codec::Writing::kOver : codec::Writing::kEarly;
  }
};

// Decodes the object while it arrives.
Status decode(const Step& own, ObjectFetch& fetch, codec::UpdateDecoder& decoder) {
  std::uint64_t known = 0;
  for (std::uint64_t there = 0; known < own.step.object.bytes; known = there) {
    there = fetch.wait(known);
    if (there == known) break;  // an error, which finish() returns
    for (bool more = true; more;)
      SPARCL_RETURN_IF_ERROR(decoder.advance(fetch.bytes(), there, UINT64_MAX, more));
    if (own.is_over()) fetch.release(decoder.used_bytes());
  }
  SPARCL_RETURN_IF_ERROR(fetch.finish());
  return decoder.finish(own.step.object.bytes);
}

Result<std::unique_ptr<ObjectFetch>> begin_fetch(const Chain& chain, const Step& own,
                                                 ReadCounts& counts) {
  SPARCL_RETURN_IF_ERROR(
      check_size(chain.store(), own.step.object, max_update_bytes(*own.state.map)));
  if (!is_fetched(chain.store(), own.step.object)) counts.bytes += own.step.object.bytes;
  return ObjectFetch::begin(chain.store(), own.step.object, own.is_over() ? kWindow : UINT64_MAX);
}

Status apply_step(const Step& own, ObjectFetch& fetch, ReadCounts& counts) {
  const ChainState& state = own.state;
  // The hash of what is held is known: the changes say the target's. Records are not signed, so an
  // update may name another base or target.
  codec::UpdateDecoder decoder(*state.map, own.target.arrays, own.verify(), state.schema_hash,
                               *state.kernels, own.writing());
  if (state.workers != nullptr) decoder.set_workers(*state.workers);
  if (state.window != nullptr) decoder.set_window(*state.window);
  if (!own.step.is_anchor()) {
    decoder.track(own.held->hash);
    if (own.writing() == codec::Writing::kStaged)
      decoder.keep_changes(state.map->byte_count() / kMaxKept);
  }
  if (const Status decoded = decode(own, fetch, decoder); !decoded.ok()) {
    SPARCL_RETURN_IF_ERROR(fetch.finish());  // damage of the bytes is said as such
    return decoded;
  }
  SPARCL_RETURN_IF_ERROR(check_ends(decoder, own.step, own.held));
  if (decoder.already_applied())  // nothing was checked but what is held
    return own.step.is_anchor() ? Status()
                                : Status(Code::kCorrupt,
                                         "it says of the version before that it is "
                                         "the one that it leads to");
  counts.changed += decoder.changed();
  // A window's blocks have no hash that would tell whether all of them were written.
  if (state.window != nullptr) own.held.reset();
  return decoder.apply(fetch.bytes());
}

// The text may name the object itself.
Status in_step(const Status& status, const ChainStep& step) {
  const bool names_it = status.message().find(step.object.key) != std::string::npos;
  return status.with_prefix(
      fmt::format("version {}, {}", step.target.version, names_it ? "" : step.object.key + ": "));
}

// The next object is read while one is decoded. held: of the arrays before it, and after it.
Status apply_all(const Chain& chain, std::span<const ChainStep> steps,
                 std::optional<model::HeldVersion>& held, const ChainState& state, Target target,
                 ReadCounts& counts) {
  if (steps.empty()) return {};
  Result<std::unique_ptr<ObjectFetch>> next =
      begin_fetch(chain, {steps.front(), held, state, target}, counts);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step own{steps[i], held, state, target};
    const Result<std::unique_ptr<ObjectFetch>> fetch = std::move(next);
    if (i + 1 < steps.size())
      next = begin_fetch(chain, {steps[i + 1], held, state, target}, counts);
    const Status applied = fetch.ok() ? apply_step(own, **fetch, counts) : fetch.status();
    if (!applied.ok()) {
      // Only the first step can meet other tensors than was said: later ones lead on from it. What
      // a window holds is nobody else's.
      const bool is_swapped = applied.code() == Code::kWrongBase &&
                              (own.step.is_anchor() || i > 0 || state.window != nullptr);
      if (own.step.is_anchor() || applied.code() == Code::kInternalError) held.reset();
      return in_step(is_swapped ? Status(Code::kCorrupt, std::string(applied.message())) : applied,
                     own.step);
    }
    held = own.step.target;
  }
  return {};
}

bool has_room_for_copy(const ChainState& state) {
  const std::uint64_t room = state.spare_bytes ? *state.spare_bytes : available_memory() / 2;
  return state.map->byte_count() <= room;
}

// The workers share the bytes.
void copy_arrays(const ChainState& state, std::span<std::byte* const> from) {
  const unsigned workers = state.workers != nullptr ? state.workers->size() : 1;
  const std::uint64_t total = state.map->byte_count();
  const auto copy_share = [&](unsigned worker) {
    const std::uint64_t first = total / workers * worker;
    const std::uint64_t last = worker + 1 == workers ? total : total / workers * (worker + 1);
    std::uint64_t begin = 0;  // of an array, in all bytes
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::uint64_t end = begin + state.map->arrays()[i].bytes();
      const std::uint64_t low = std::max(begin, first), high = std::min(end, last);
      if (low < high)
        std::memcpy(state.arrays[i] + (low - begin), from[i] + (low - begin), high - low);
      begin = end;
    }
  };
  if (workers == 1) return copy_share(0);
  state.workers->run(workers, copy_share);
}

Status check_schema(const VersionRecord& target, const ChainState& state) {
  SPARCL_ASSIGN_OR_RETURN(const bool is_same, has_tensors_of(target, state));
  if (is_same) return {};
  return Status(Code::kMismatch,
                fmt::format("version {} of the store has other tensors (names, types or shapes) "
                            "than this state",
                            target.version));
}

// The digests of leaves say that the bytes are the anchor's, and the index where chunks begin.
Status read_index(const Chain& chain, const ChainStep& step, const ChainState& state,
                  AnchorIndex& index, ReadCounts& counts) {
  SPARCL_RETURN_IF_ERROR(check_size(chain.store(), *step.index, max_index_bytes(step.object)));
  SPARCL_ASSIGN_OR_RETURN(const Staging staged,
                          get_object(chain.store(), *step.index, step.index->bytes));
  std::vector<std::byte> bytes(static_cast<std::size_t>(step.index->bytes));
  staged.copy(0, bytes.size(), bytes.data());
  counts.bytes += bytes.size();
  Result<AnchorIndex> parsed = parse_anchor_index(bytes, step.object, *state.map);
  if (!parsed.ok())
    return parsed.status().with_prefix(chain.store().location_of(step.index->key) + ": ");
  index = std::move(*parsed);
  return {};
}

// Neighbouring chunks that have blocks of the window: [first, second) of the index.
using ChunkRun = std::pair<std::size_t, std::size_t>;
std::vector<ChunkRun> wanted_chunks(const AnchorIndex& index, const codec::BlockWindow& window) {
  std::vector<ChunkRun> runs;
  for (std::size_t i = 0; i + 1 < index.chunks.size(); ++i) {
    if (!window.has_any(index.chunks[i].block, index.chunks[i + 1].block)) continue;
    if (!runs.empty() && runs.back().second == i)
      runs.back().second = i + 1;
    else
      runs.emplace_back(i, i + 1);
  }
  return runs;
}

// Bytes [known, end) of the anchor.
Status decode_bytes(std::uint64_t known, std::uint64_t end, LeafFetch& fetch,
                    codec::UpdateDecoder& decoder) {
  for (std::uint64_t there = 0; known < end; known = there) {
    there = fetch.wait(known);
    if (there == known) return fetch.status();
    for (bool more = true; more;)
      SPARCL_RETURN_IF_ERROR(
          decoder.advance(fetch.bytes(), std::min(there, end), UINT64_MAX, more));
    fetch.release(decoder.used_bytes());
  }
  return {};
}

Status decode_chunks(const AnchorIndex& index, std::span<const ChunkRun> runs, LeafFetch& fetch,
                     codec::UpdateDecoder& decoder) {
  const auto& rows = index.chunks;
  SPARCL_RETURN_IF_ERROR(decode_bytes(0, rows.front().byte, fetch, decoder));  // the header
  for (const auto& [first, last] : runs) {
    SPARCL_RETURN_IF_ERROR(decoder.go_on_at(rows[first]));
    SPARCL_RETURN_IF_ERROR(decode_bytes(rows[first].byte, rows[last].byte, fetch, decoder));
    SPARCL_RETURN_IF_ERROR(decoder.end_before(rows[last]));
  }
  return decoder.finish_chunks();
}

Status apply_indexed_anchor(const Chain& chain, const ChainStep& step, const ChainState& state,
                            ReadCounts& counts) {
  SPARCL_RETURN_IF_ERROR(check_size(chain.store(), step.object, max_update_bytes(*state.map)));
  const bool is_here = is_fetched(chain.store(), step.object);
  AnchorIndex index;
  SPARCL_RETURN_IF_ERROR(read_index(chain, step, state, index, counts));
  const std::vector<ChunkRun> runs = wanted_chunks(index, *state.window);
  std::vector<LeafFetch::ByteRange> ranges{{0, index.chunks.front().byte}};
  for (const auto& [first, last] : runs)
    ranges.emplace_back(index.chunks[first].byte, index.chunks[last].byte);
  SPARCL_ASSIGN_OR_RETURN(const auto fetch,
                          LeafFetch::begin(chain.store(), step.object, index.leaves, ranges));
  codec::UpdateDecoder decoder(*state.map, state.arrays, codec::Verify::kOff, state.schema_hash,
                               *state.kernels, codec::Writing::kOver);
  if (state.workers != nullptr) decoder.set_workers(*state.workers);
  decoder.set_window(*state.window);
  const Status decoded = decode_chunks(index, runs, *fetch, decoder);
  SPARCL_RETURN_IF_ERROR(fetch->status());  // damage of the bytes is said as such
  SPARCL_RETURN_IF_ERROR(decoded);
  if (decoder.target_version() != step.target.version)
    return Status(Code::kCorrupt, fmt::format("it leads to version {}, its record says version {}",
                                              decoder.target_version(), step.target.version));
  if (!is_here) counts.bytes += fetch->wanted_bytes();
  return decoder.apply(fetch->bytes());
}

}  // namespace

Result<bool> has_tensors_of(const VersionRecord& version, const ChainState& state) {
  SPARCL_ASSIGN_OR_RETURN(const StoredObject own, schema_object(state.schema));
  return version.schema == own;
}

Result<StoredObject> schema_object(std::span<const std::byte> schema) {
  return named_by_content("schemas", schema);
}

Status restore_in_place(const Chain& chain, const VersionRecord& target, const ChainState& state) {
  SPARCL_RETURN_IF_ERROR(check_schema(target, state));
  return by_any_path(chain, target, {}, [&](std::span<const ChainStep> steps) {
    std::optional<model::HeldVersion> none;
    ReadCounts counts;
    return apply_all(chain, steps, none, state, {state.arrays, true}, counts);
  });
}

Status by_any_path(const Chain& chain, const VersionRecord& target, PathChoice choice,
                   const std::function<Status(std::span<const ChainStep>)>& take) {
  constexpr int kMaxTries = 64;  // of a hostile server, which always has another anchor
  Status first;
  for (int tries = 1;; ++tries) {
    const Result<std::vector<ChainStep>> steps = steps_to(chain, target, choice);
    const Status taken = steps.ok() ? take(*steps) : steps.status();
    if (taken.ok() && !first.ok())
      log_warn("version {} was read by other objects: {}", target.version, first.message());
    if (taken.ok() || taken.code() != Code::kCorrupt) return taken;
    if (first.ok()) first = taken;
    if (tries == kMaxTries ||
        !choice.exclude(steps.ok() ? std::span(*steps) : std::span<const ChainStep>()))
      return with_repair_hint(first);
  }
}

Status restore(const Chain& chain, const VersionRecord& target, std::span<const ChainStep> steps,
               const std::optional<model::HeldVersion>& held, const ChainState& state,
               ReadCounts& counts) {
  SPARCL_RETURN_IF_ERROR(check_schema(target, state));
  if (steps.empty()) return {};
  const bool is_anew = steps.front().is_anchor();
  std::optional<model::HeldVersion> at = held;
  if (is_anew && state.may_tear)
    return apply_all(chain, steps, at, state, {state.arrays, true}, counts);
  if (steps.size() == 1 && (!is_anew || !has_room_for_copy(state)))  // checked before it is written
    return apply_all(chain, steps, at, state, {state.arrays}, counts);
  model::Snapshot copy;  // tensors keep what they hold until all is checked
  SPARCL_RETURN_IF_ERROR(is_anew ? copy.make(*state.map) : copy.take(*state.map, state.arrays));
  SPARCL_RETURN_IF_ERROR(apply_all(chain, steps, at, state, {copy.arrays(), true}, counts));
  copy_arrays(state, copy.arrays());
  return {};
}

// An index is a help: without a sound one the whole anchor is read.
Status restore_window(const Chain& chain, std::span<const ChainStep> steps,
                      std::optional<model::HeldVersion>& held, const ChainState& state,
                      ReadCounts& counts) {
  if (!steps.empty() && steps.front().is_anchor() && steps.front().index) {
    const ChainStep& anchor = steps.front();
    held.reset();
    const Status applied = apply_indexed_anchor(chain, anchor, state, counts);
    if (!applied.ok() && applied.code() != Code::kCorrupt) return in_step(applied, anchor);
    if (applied.ok()) {
      held = anchor.target;
      steps = steps.subspan(1);
    } else {
      log_warn(
          "the whole anchor of version {} is read, because a part of it cannot be: {}. Look for "
          "damage by sparcl store verify",
          anchor.target.version, applied.message());
    }
  }
  return apply_all(chain, steps, held, state, {state.arrays, true}, counts);
}

}  // namespace sparcl::store
