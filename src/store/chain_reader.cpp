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
  const std::optional<model::HeldVersion>& held;  // before it
  const ChainState& state;
  Target target;

  bool is_over() const { return target.may_tear && step.is_anchor(); }
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

Result<std::unique_ptr<ObjectFetch>> begin_fetch(const Chain& chain, const Step& own) {
  SPARCL_RETURN_IF_ERROR(
      check_size(chain.store(), own.step.object, max_update_bytes(*own.state.map)));
  return ObjectFetch::begin(chain.store(), own.step.object, own.is_over() ? kWindow : UINT64_MAX);
}

Status apply_step(const Step& own, ObjectFetch& fetch, std::uint64_t* changed) {
  const ChainState& state = own.state;
  // The hash of what is held is known: the changes say the target's. Records are not signed, so an
  // update may name another base or target.
  codec::UpdateDecoder decoder(
      *state.map, own.target.arrays,
      own.step.is_anchor() ? codec::Verify::kFull : codec::Verify::kTouched, state.schema_hash,
      *state.kernels, own.writing());
  if (state.workers != nullptr) decoder.set_workers(*state.workers);
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
  if (changed != nullptr) *changed += decoder.changed();
  return decoder.apply(fetch.bytes());
}

// The next object is read while one is decoded.
Status apply_all(const Chain& chain, std::span<const ChainStep> steps,
                 std::optional<model::HeldVersion> held, const ChainState& state, Target target,
                 std::uint64_t* changed) {
  if (steps.empty()) return {};
  Result<std::unique_ptr<ObjectFetch>> next =
      begin_fetch(chain, {steps.front(), held, state, target});
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step own{steps[i], held, state, target};
    const Result<std::unique_ptr<ObjectFetch>> fetch = std::move(next);
    if (i + 1 < steps.size()) next = begin_fetch(chain, {steps[i + 1], held, state, target});
    const Status applied = fetch.ok() ? apply_step(own, **fetch, changed) : fetch.status();
    if (!applied.ok()) {
      // Only the first step can meet other tensors than was said: later ones lead on from it.
      const bool is_swapped = applied.code() == Code::kWrongBase && (own.step.is_anchor() || i > 0);
      const Status status =
          is_swapped ? Status(Code::kCorrupt, std::string(applied.message())) : applied;
      return status.with_prefix(
          fmt::format("version {}, {}: ", own.step.target.version, own.step.object.key));
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
  SPARCL_ASSIGN_OR_RETURN(const StoredObject own, schema_object(state.schema));
  if (target.schema != own) {
    return Status(Code::kMismatch,
                  fmt::format("version {} of the store has other tensors (names, types or shapes) "
                              "than this state",
                              target.version));
  }
  return {};
}

}  // namespace

Result<StoredObject> schema_object(std::span<const std::byte> schema) {
  return named_by_content("schemas", schema);
}

Status restore_in_place(const Chain& chain, const VersionRecord& target, const ChainState& state) {
  SPARCL_RETURN_IF_ERROR(check_schema(target, state));
  return by_any_path(chain, target, {}, [&](std::span<const ChainStep> steps) {
    return apply_all(chain, steps, std::nullopt, state, {state.arrays, true}, nullptr);
  });
}

Status by_any_path(const Chain& chain, const VersionRecord& target, PathChoice choice,
                   const std::function<Status(std::span<const ChainStep>)>& take) {
  constexpr int kMaxTries = 64;  // of a hostile server, which always has another anchor
  Status first;
  for (int tries = 1;; ++tries) {
    const Result<std::vector<ChainStep>> steps = steps_to(chain, target, choice);
    const Status taken = steps.ok() ? take(*steps) : steps.status();
    if (taken.ok() || taken.code() != Code::kCorrupt) return taken;
    if (first.ok()) first = taken;
    if (tries == kMaxTries ||
        !choice.exclude(steps.ok() ? std::span(*steps) : std::span<const ChainStep>()))
      return first;
    log_warn("other objects that lead to version {} are tried: {}", target.version,
             taken.message());
  }
}

Status restore(const Chain& chain, const VersionRecord& target, std::span<const ChainStep> steps,
               const std::optional<model::HeldVersion>& held, const ChainState& state,
               std::uint64_t* changed) {
  if (changed != nullptr) *changed = 0;
  SPARCL_RETURN_IF_ERROR(check_schema(target, state));
  if (steps.empty()) return {};
  const bool is_anew = steps.front().is_anchor();
  if (is_anew && state.may_tear)
    return apply_all(chain, steps, held, state, {state.arrays, true}, changed);
  if (steps.size() == 1 && (!is_anew || !has_room_for_copy(state)))  // checked before it is written
    return apply_all(chain, steps, held, state, {state.arrays}, changed);
  model::Snapshot copy;  // tensors keep what they hold until all is checked
  SPARCL_RETURN_IF_ERROR(is_anew ? copy.make(*state.map) : copy.take(*state.map, state.arrays));
  SPARCL_RETURN_IF_ERROR(apply_all(chain, steps, held, state, {copy.arrays(), true}, changed));
  copy_arrays(state, copy.arrays());
  return {};
}

}  // namespace sparcl::store
