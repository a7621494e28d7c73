#include "src/store/chain_path.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/store/object_cache.hpp"

namespace sparcl::store {
namespace {

using model::HeldVersion;

// Heuristic: a local disk reads so many times faster than a store.
constexpr std::uint64_t kFasterDisk = 16;

// In bytes that are fetched.
std::uint64_t cost_of(const ObjectStore& store, const StoredObject& object) {
  if (!is_fetched(store, object)) return object.bytes;
  return store.link() == StoreLink::kMetered ? 0 : object.bytes / kFasterDisk;
}

struct Path {
  std::vector<ChainStep> steps;
  std::uint64_t cost = 0;

  void add_cost(std::uint64_t more) { cost += std::min(more, UINT64_MAX - cost); }
  void add(const Chain& chain, ChainStep step) {
    add_cost(cost_of(chain.store(), step.object));
    steps.push_back(std::move(step));
  }
};

Status too_far(const Chain& chain, const VersionRecord& target) {
  return Status(Code::kCorrupt,
                fmt::format("{}: more than {} records lead to it from an anchor: run sparcl store "
                            "compact, or look for another server",
                            chain.store().location_of(commit_key(target.number)), kMaxPathSteps));
}

// nullopt: there is none to this version. One that is damaged does no harm.
Result<std::optional<Shortcut>> sound_skip(const Chain& chain, std::uint64_t number,
                                           const HeldVersion& target, std::uint64_t from) {
  Result<std::optional<Shortcut>> skip = chain.shortcut(number, from);
  if (!skip.ok() && skip.status().code() != Code::kCorrupt) return skip.status();
  if (!skip.ok() || !*skip || (*skip)->target != target) return std::optional<Shortcut>();
  return skip;
}

// The longest skip to a version that begins at record `from` or after it.
Result<std::optional<Shortcut>> skip_to(const Chain& chain, std::uint64_t number,
                                        const HeldVersion& target, std::uint64_t from) {
  std::optional<Shortcut> found;
  for (const std::uint64_t length : kSkips) {
    if (number % kSkipEvery != 0 || number < from + length || number <= length) continue;
    SPARCL_ASSIGN_OR_RETURN(found, sound_skip(chain, number, target, number - length));
    if (found) break;
  }
  return found;
}

// The same in an independent chain.
Result<std::optional<Shortcut>> skip_from_anchor(const Chain& chain, const VersionRecord& record,
                                                 std::uint64_t from) {
  if (!record.skips_from_anchor || record.newest_anchor < from) return std::optional<Shortcut>();
  return sound_skip(chain, record.number, record.target(), record.newest_anchor);
}

// From record `from`, which is `base`, to the target.
Result<Path> path_from(const Chain& chain, std::uint64_t from, const HeldVersion& base,
                       const VersionRecord& target, bool has_skips) {
  Path path;
  const bool is_independent = target.skips_from_anchor;
  HeldVersion at = target.target();
  for (std::uint64_t number = target.number; number > from;) {
    if (path.steps.size() == kMaxPathSteps) return too_far(chain, target);
    std::optional<Shortcut> skip;
    VersionRecord record = target;
    if (number != target.number && is_independent) {
      SPARCL_ASSIGN_OR_RETURN(record, chain.record(number));
    }
    if (has_skips && is_independent) {
      SPARCL_ASSIGN_OR_RETURN(skip, skip_from_anchor(chain, record, from));
    } else if (has_skips) {
      SPARCL_ASSIGN_OR_RETURN(skip, skip_to(chain, number, at, from));
    }
    if (skip) {
      path.add(chain, {number, skip->from, at, std::move(skip->object)});
      at = skip->base;
      number = skip->from;
      continue;
    }
    if (number != target.number && !is_independent) {
      SPARCL_ASSIGN_OR_RETURN(record, chain.record(number));
    }
    if (record.target() != at || !record.delta)
      return Status(Code::kCorrupt, fmt::format("{}: later objects lead on from {}, and it is {}",
                                                chain.store().location_of(commit_key(number)),
                                                words_of(at), words_of(record.target())));
    path.add(chain, {number, number - 1, at, std::move(*record.delta)});
    at = record.base();
    --number;
  }
  if (at != base)
    return Status(Code::kCorrupt, fmt::format("{}: the objects to it lead on from {}, not from {}",
                                              chain.store().location_of(commit_key(target.number)),
                                              words_of(at), words_of(base)));
  std::ranges::reverse(path.steps);
  return path;
}

// nullopt: it is missing, or its record is damaged.
Result<std::optional<Shortcut>> sound_anchor(const Chain& chain, std::uint64_t number) {
  Result<std::optional<Shortcut>> anchor = chain.shortcut(number, 0);
  if (!anchor.ok() && anchor.status().code() == Code::kCorrupt) return std::optional<Shortcut>();
  return anchor;
}

// The target's own, the one that its record names, or an earlier one; at last the one at which the
// chain begins since it was pruned.
Result<Shortcut> anchor_of(const Chain& chain, const VersionRecord& target, std::uint64_t below) {
  std::optional<Shortcut> anchor;
  std::optional<VersionRecord> record = target;
  std::size_t looks = 0;
  for (std::uint64_t number = target.number; !anchor;) {
    if (++looks > kMaxPathSteps) return too_far(chain, target);
    if (number < below) {
      SPARCL_ASSIGN_OR_RETURN(anchor, sound_anchor(chain, number));
    }
    if (anchor) break;
    if (number != target.number) {  // its anchor does without it
      SPARCL_ASSIGN_OR_RETURN(record, chain.look(number));
    }
    if (!record || record->newest_anchor >= number) break;
    number = record->newest_anchor;
  }
  if (!anchor) {
    SPARCL_ASSIGN_OR_RETURN(const std::uint64_t oldest, chain.oldest());
    if (oldest <= target.number && oldest < below) {
      SPARCL_ASSIGN_OR_RETURN(anchor, sound_anchor(chain, oldest));
    }
  }
  if (anchor) return std::move(*anchor);
  return Status(Code::kCorrupt,
                fmt::format("{}: it is missing, and version {} needs it",
                            chain.store().location_of(shortcut_key(target.newest_anchor, 0)),
                            target.version));
}

// share: below 1. The size is the record's word: it may be any number.
std::uint64_t part_of(std::uint64_t bytes, double share) {
  constexpr std::uint64_t kExact = std::uint64_t{1} << 53;
  return static_cast<std::uint64_t>(share * static_cast<double>(std::min(bytes, kExact)));
}

Result<Path> path_from_anchor(const Chain& chain, const VersionRecord& target,
                              const PathChoice& choice, Shortcut anchor) {
  SPARCL_ASSIGN_OR_RETURN(Path path,
                          path_from(chain, anchor.number, anchor.target, target, choice.has_skips));
  const std::uint64_t whole = cost_of(chain.store(), anchor.object);
  const bool is_part = anchor.index && choice.anchor_share < 1;
  path.add_cost(is_part ? part_of(whole, choice.anchor_share) : whole);
  path.steps.insert(path.steps.begin(), {anchor.number, 0, anchor.target, std::move(anchor.object),
                                         std::move(anchor.index)});
  return path;
}

// An anchor before this one that has been fetched. Not many are looked at: their updates grow.
Result<std::optional<Shortcut>> fetched_anchor(const Chain& chain, std::uint64_t below) {
  constexpr int kLooks = 4;
  std::optional<Shortcut> none;
  for (int looks = 0; chain.store().cache() != nullptr && looks < kLooks && below > 1; ++looks) {
    SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> record, chain.look(below));
    if (!record || record->newest_anchor >= below) return none;
    below = record->newest_anchor;
    SPARCL_ASSIGN_OR_RETURN(std::optional<Shortcut> anchor, sound_anchor(chain, below));
    if (anchor && is_fetched(chain.store(), anchor->object)) return anchor;
  }
  return none;
}

// The nearest anchor that leads there: one whose record is damaged says that it is another version.
Result<Path> path_from_nearest(const Chain& chain, const VersionRecord& target,
                               const PathChoice& choice, Shortcut& nearest) {
  constexpr int kTries = 4;
  Status first;
  std::uint64_t below = choice.anchors_below;
  for (int tries = 0; tries < kTries; ++tries, below = nearest.number) {
    Result<Shortcut> anchor = anchor_of(chain, target, below);
    if (!anchor.ok() && (first.ok() || anchor.status().code() != Code::kCorrupt))
      return anchor.status();
    if (!anchor.ok()) break;
    nearest = std::move(*anchor);
    Result<Path> path = path_from_anchor(chain, target, choice, nearest);
    if (path.ok() || path.status().code() != Code::kCorrupt) return path;
    if (first.ok()) first = path.status();
  }
  return first;
}

Result<Path> path_from_any_anchor(const Chain& chain, const VersionRecord& target,
                                  const PathChoice& choice) {
  Shortcut nearest;
  SPARCL_ASSIGN_OR_RETURN(Path path, path_from_nearest(chain, target, choice, nearest));
  const bool is_here = is_fetched(chain.store(), nearest.object);
  const std::uint64_t number = nearest.number;
  if (is_here || !choice.has_earlier_anchors) return path;
  // A help: records before the nearest anchor need not be sound, or signed by a trusted key.
  Result<std::optional<Shortcut>> earlier = fetched_anchor(chain, number);
  if (!earlier.ok() || !*earlier) return path;
  Result<Path> other = path_from_anchor(chain, target, choice, std::move(**earlier));
  return other.ok() && other->cost < path.cost ? std::move(other) : Result<Path>(std::move(path));
}

// nullopt: what is held is no version before the target.
Result<std::optional<Path>> path_from_held(const Chain& chain, const VersionRecord& target,
                                           const HeldVersion& held, bool has_skips) {
  std::optional<Path> path;
  if (held.version >= target.version) return path;
  std::uint64_t from = target.number - 1;
  if (held != target.base()) {
    SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> record,
                            chain.find(held.version, target));
    if (!record || record->target() != held) return path;
    from = record->number;
  }
  SPARCL_ASSIGN_OR_RETURN(path, path_from(chain, from, held, target, has_skips));
  return path;
}

}  // namespace

bool PathChoice::exclude(std::span<const ChainStep> steps) {
  if (held) {
    held.reset();
  } else if (has_skips) {
    has_skips = has_earlier_anchors = false;
  } else {
    if (steps.empty() || !steps.front().is_anchor() || steps.front().number <= 1) return false;
    anchors_below = steps.front().number;
  }
  return true;
}

Result<std::vector<ChainStep>> steps_to(const Chain& chain, const VersionRecord& target,
                                        const PathChoice& choice) {
  if (choice.held == target.target()) return std::vector<ChainStep>();
  std::optional<Path> from_held;
  if (choice.held) {
    Result<std::optional<Path>> path =
        path_from_held(chain, target, *choice.held, choice.has_skips);
    if (!path.ok() && path.status().code() != Code::kCorrupt) return path.status();
    if (path.ok()) from_held = std::move(*path);
  }
  if (from_held && from_held->steps.size() == 1) return std::move(from_held->steps);
  Result<Path> from_anchor = path_from_any_anchor(chain, target, choice);
  if (from_held && (!from_anchor.ok() || from_held->cost <= from_anchor->cost))
    return std::move(from_held->steps);
  SPARCL_RETURN_IF_ERROR(from_anchor.status());
  return std::move(from_anchor->steps);
}

}  // namespace sparcl::store
