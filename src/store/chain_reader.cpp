#include "src/store/chain_reader.hpp"

#include <fmt/format.h>

#include <cstring>

#include "src/base/log.hpp"
#include "src/codec/update.hpp"
#include "src/model/snapshot.hpp"
#include "src/store/stored_object.hpp"

namespace sparcl::store {
namespace {

constexpr std::uint64_t kFrameBytes = 1 << 16;  // of headers; an update has at most all bytes else

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

Status apply_step(const Chain& chain, const ChainStep& step,
                  const std::optional<model::HeldVersion>& held, const ChainState& state,
                  std::span<std::byte* const> arrays, std::uint64_t* changed) {
  const std::uint64_t tensor_bytes = state.map->byte_count();
  const std::uint64_t max_bytes = tensor_bytes + tensor_bytes / 256 + kFrameBytes;
  SPARCL_ASSIGN_OR_RETURN(const Staging bytes, get_object(chain.store(), step.object, max_bytes));
  // The hash of what is held is known: the changes say the target's. Records are not signed, so an
  // update may name another base or target.
  codec::UpdateDecoder decoder(*state.map, arrays,
                               step.is_anchor() ? codec::Verify::kFull : codec::Verify::kTouched,
                               state.schema_hash, *state.kernels);
  if (state.workers != nullptr) decoder.set_workers(*state.workers);
  if (!step.is_anchor()) decoder.track(held->hash);
  for (bool more = true; more;)
    SPARCL_RETURN_IF_ERROR(decoder.advance(bytes, step.object.bytes, UINT64_MAX, more));
  SPARCL_RETURN_IF_ERROR(decoder.finish(step.object.bytes));
  SPARCL_RETURN_IF_ERROR(check_ends(decoder, step, held));
  if (decoder.already_applied())  // nothing was checked but what is held
    return step.is_anchor() ? Status()
                            : Status(Code::kCorrupt,
                                     "it says of the version before that it is "
                                     "the one that it leads to");
  if (changed != nullptr) *changed += decoder.changed();
  return decoder.apply(bytes);
}

Status apply_all(const Chain& chain, std::span<const ChainStep> steps,
                 std::optional<model::HeldVersion> held, const ChainState& state,
                 std::span<std::byte* const> arrays, std::uint64_t* changed) {
  for (const ChainStep& step : steps) {
    const Status applied = apply_step(chain, step, held, state, arrays, changed);
    if (!applied.ok()) {
      // Only the first step can meet other tensors than was said: later ones lead on from it.
      const bool is_swapped =
          applied.code() == Code::kWrongBase && (step.is_anchor() || &step != steps.data());
      const Status status =
          is_swapped ? Status(Code::kCorrupt, std::string(applied.message())) : applied;
      return status.with_prefix(
          fmt::format("version {}, {}: ", step.target.version, step.object.key));
    }
    held = step.target;
  }
  return {};
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
    return apply_all(chain, steps, std::nullopt, state, state.arrays, nullptr);
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
  if (steps.size() == 1)  // all of it is checked before anything is written
    return apply_all(chain, steps, held, state, state.arrays, changed);
  if (steps.empty()) return {};
  model::Snapshot copy;  // tensors keep what they hold until all is checked
  SPARCL_RETURN_IF_ERROR(copy.take(*state.map, state.arrays));
  SPARCL_RETURN_IF_ERROR(apply_all(chain, steps, held, state, copy.arrays(), changed));
  for (std::size_t i = 0; i < state.arrays.size(); ++i) {
    const std::size_t bytes = state.map->arrays()[i].bytes();
    if (bytes > 0) std::memcpy(state.arrays[i], copy.arrays()[i], bytes);
  }
  return {};
}

}  // namespace sparcl::store
