#include "src/store/version_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sparcl::store {
namespace {

constexpr std::uint64_t kMaxLooks = 65;  // records back; heuristic: one more than the longest skip

}  // namespace

void RestoredVersion::note(std::span<const ChainStep> steps) {
  objects = static_cast<int>(steps.size());
  by_anchor = !steps.empty() && steps.front().is_anchor();
}

Result<VersionRecord> VersionReader::find(std::uint64_t version) {
  SPARCL_ASSIGN_OR_RETURN(std::optional<VersionRecord> newest, chain_.newest_for(version));
  if (!newest) return Status(Code::kInvalidArgument, "the store is empty: publish a version first");
  if (version == 0) return std::move(*newest);
  SPARCL_ASSIGN_OR_RETURN(std::optional<VersionRecord> found, chain_.find(version, *newest));
  if (found) return std::move(*found);
  return Status(Code::kInvalidArgument,
                fmt::format("the store has no version {}, or has it no more: its newest is {}",
                            version, newest->version));
}

// The lease comes before the last look at what is being removed.
Status VersionReader::hold(std::span<const ChainStep> steps, const VersionRecord& target) {
  const std::uint64_t number = steps.empty() ? target.number : steps.front().first_needed();
  SPARCL_ASSIGN_OR_RETURN(const bool is_new, lease_.hold(number));
  if (!is_new) return {};
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t oldest, chain_.oldest());
  if (oldest <= number) return {};
  return Status(Code::kCorrupt, fmt::format("record {} was removed meanwhile", number));
}

Status VersionReader::restore_whole(const std::optional<model::HeldVersion>& held,
                                    const ChainState& state, RestoredVersion& restored) {
  const VersionRecord& target = restored.record;
  part_ = nullptr;
  return by_any_path(
      chain_, target, {.held = held}, [&](std::span<const ChainStep> steps) -> Status {
        SPARCL_RETURN_IF_ERROR(hold(steps, target));
        restored.note(steps);
        ReadCounts counts;
        const Status status = sparcl::store::restore(chain_, target, steps, held, state, counts);
        restored.object_bytes = counts.bytes;
        restored.changed = counts.changed;
        return status;
      });
}

// The tensors are written at the end: the part's own memory goes forward with each step.
Status VersionReader::restore_part(const ChainState& state, RestoredVersion& restored) {
  const VersionRecord& target = restored.record;
  restored.is_part = true;
  if (part_ == nullptr || !part_->is_for(target, state)) {
    part_ = nullptr;  // its memory first
    SPARCL_ASSIGN_OR_RETURN(part_, StoredPart::open(chain_, target, state));
  }
  ReadCounts counts;  // of all tries: they were read
  const PathChoice choice{.held = part_->held(), .anchor_share = part_->share()};
  const Status brought =
      by_any_path(chain_, target, choice, [&](std::span<const ChainStep> steps) -> Status {
        SPARCL_RETURN_IF_ERROR(hold(steps, target));
        restored.note(steps);
        return part_->take(chain_, steps, state, counts);
      });
  if (!brought.ok()) return brought;
  restored.object_bytes = counts.bytes;
  restored.changed = counts.changed;
  part_->copy_to(state);
  return {};
}

Result<RestoredVersion> VersionReader::restore_once(std::uint64_t version,
                                                    const std::optional<model::HeldVersion>& held,
                                                    const ChainState& state,
                                                    std::uint64_t at_least) {
  SPARCL_ASSIGN_OR_RETURN(const VersionRecord target, find(version));
  if (target.version < at_least)
    return Status(Code::kStale,
                  fmt::format("{}: its newest version is {}, and version {} was there before",
                              chain_.store().location_of(kCommits), target.version, at_least));
  return restore_record(target, held, state);
}

Result<RestoredVersion> VersionReader::restore_record(const VersionRecord& target,
                                                      const std::optional<model::HeldVersion>& held,
                                                      const ChainState& state) {
  RestoredVersion restored;
  restored.record = target;
  bool is_whole = true;
  if (parts_ == Parts::kAllowed) {
    SPARCL_ASSIGN_OR_RETURN(is_whole, has_tensors_of(target, state));
  }
  SPARCL_RETURN_IF_ERROR(is_whole ? restore_whole(held, state, restored)
                                  : restore_part(state, restored));
  return restored;
}

// What was removed meanwhile is not needed by a later version.
Result<RestoredVersion> VersionReader::restore(std::uint64_t version,
                                               const std::optional<model::HeldVersion>& held,
                                               const ChainState& state, std::uint64_t at_least) {
  constexpr int kTries = 3;
  for (int tries = 1;; ++tries) {
    const std::optional<std::uint64_t> before = chain_.known();
    Result<RestoredVersion> restored = restore_once(version, held, state, at_least);
    if (restored.ok() || restored.status().code() != Code::kCorrupt || tries == kTries)
      return restored;
    chain_.forget();
    const Result<std::optional<VersionRecord>> newest = chain_.newest();
    if (!newest.ok() || chain_.known() <= before) return restored;
  }
}

Result<std::optional<model::HeldVersion>> VersionReader::find_state(const Hash128& hash) const {
  std::optional<model::HeldVersion> found;
  const std::optional<std::uint64_t> newest = chain_.known();
  if (!newest) return found;
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t oldest, chain_.oldest());
  const std::uint64_t last = *newest - std::min(*newest, kMaxLooks);
  for (std::uint64_t number = *newest; number > last && number >= oldest; --number) {
    SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> record, chain_.look(number));
    if (!record || record->target_hash != hash) continue;
    found = record->target();
    break;
  }
  return found;
}

}  // namespace sparcl::store
