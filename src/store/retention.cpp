#include "src/store/retention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/base/log.hpp"
#include "src/store/anchor_index.hpp"
#include "src/store/pruned_marks.hpp"
#include "src/store/stored_object.hpp"

namespace sparcl::store {
namespace {

constexpr const char* kObjects[] = {"deltas", "skips", "anchors"};

struct Content {
  std::vector<ObjectInfo> objects, shortcuts, records;
  std::map<std::uint64_t, std::uint64_t> bytes;  // of objects, by the number of their record
  std::vector<std::uint64_t> anchors;            // ascending
};

Result<std::vector<ObjectInfo>> list_all(ObjectStore& store, const char* prefix) {
  std::vector<ObjectInfo> all;
  SPARCL_RETURN_IF_ERROR(store.list(prefix, [&](const ObjectInfo& each) {
    if (number_in(each.key) != 0) all.push_back(each);
    return true;
  }));
  return all;
}

Result<Content> read_content(ObjectStore& store) {
  Content content;
  for (const char* prefix : kObjects) {
    SPARCL_ASSIGN_OR_RETURN(std::vector<ObjectInfo> all, list_all(store, prefix));
    for (ObjectInfo& each : all) {
      content.bytes[number_in(each.key)] += each.bytes;
      content.objects.push_back(std::move(each));
    }
  }
  SPARCL_ASSIGN_OR_RETURN(content.shortcuts, list_all(store, kShortcuts));
  SPARCL_ASSIGN_OR_RETURN(content.records, list_all(store, kCommits));
  for (const ObjectInfo& each : content.shortcuts) {
    const std::uint64_t number = number_in(each.key);
    if (each.key == shortcut_key(number, 0)) content.anchors.push_back(number);
  }
  return content;
}

// The store's clock.
Result<std::int64_t> now_of(ObjectStore& store) {
  constexpr const char* kClock = "clock";
  SPARCL_RETURN_IF_ERROR(store.replace(kClock, {}));
  SPARCL_ASSIGN_OR_RETURN(const std::optional<ObjectInfo> info, store.look(kClock));
  if (info) return info->written_s;
  return Status(Code::kSystemError,
                store.location_of(kClock) + ": it was written, and is not there");
}

// The first record that is kept for itself.
std::uint64_t first_kept(const Content& content, std::uint64_t newest, const Keep& keep,
                         std::int64_t now_s) {
  if (keep.versions == 0 && !keep.age_s) return 1;  // only bytes decide
  std::uint64_t first = newest;
  if (keep.versions > 0) first = newest - std::min(newest, keep.versions) + 1;
  for (const ObjectInfo& each : content.records) {
    if (keep.age_s && now_s - each.written_s < *keep.age_s)
      first = std::min(first, number_in(each.key));
  }
  return first;
}

// Whether the object of an anchor is there: what comes before it is removed for it.
Result<bool> is_sound(const Chain& chain, std::uint64_t number) {
  const Result<std::optional<Shortcut>> anchor = chain.shortcut(number, 0);
  if (!anchor.ok() && anchor.status().code() == Code::kCorrupt) return false;
  SPARCL_RETURN_IF_ERROR(anchor.status());
  if (!*anchor) return false;
  if (number > 1 && (*anchor)->signatures.empty()) {  // no reader with trusted keys begins there
    SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> record, chain.look(number));
    if (record && !record->signatures.empty()) return false;
  }
  const Status checked = check_object(chain.store(), (*anchor)->object);
  if (!checked.ok() && checked.code() != Code::kCorrupt) return checked;
  return checked.ok();
}

// An anchor: the records below it are removed. 0: none are.
std::uint64_t cut_of(const Content& content, std::uint64_t newest, const Keep& keep,
                     std::int64_t now_s) {
  const std::uint64_t first = first_kept(content, newest, keep, now_s);
  std::uint64_t cut = 0;
  for (const std::uint64_t anchor : content.anchors)
    if (anchor <= first) cut = anchor;
  if (!keep.max_bytes) return cut;
  const auto bytes_from = [&](std::uint64_t number) {
    std::uint64_t bytes = 0;
    for (auto at = content.bytes.lower_bound(number); at != content.bytes.end(); ++at)
      bytes += at->second;
    return bytes;
  };
  for (const std::uint64_t anchor : content.anchors) {
    if (bytes_from(cut) <= *keep.max_bytes) break;
    if (anchor <= newest) cut = std::max(cut, anchor);
  }
  return cut;
}

class Remover {
 public:
  Remover(Chain& chain, PruneReport& report) : store_(chain.store()), report_(report) {}

  Status remove(const ObjectInfo& object) {
    SPARCL_RETURN_IF_ERROR(store_.remove(object.key));
    ++report_.objects;
    report_.bytes += object.bytes;
    return {};
  }
  // Records last: they say what else there is.
  Status remove_below(const Content& content, std::uint64_t below) {
    for (const auto* const all : {&content.objects, &content.shortcuts, &content.records}) {
      for (const ObjectInfo& each : *all) {
        if (number_in(each.key) >= below) continue;
        SPARCL_RETURN_IF_ERROR(remove(each));
        if (all == &content.records) ++report_.versions;
      }
    }
    return {};
  }

 private:
  ObjectStore& store_;
  PruneReport& report_;
};

// The keys that a record and its shortcuts name.
Result<std::set<std::string>> keys_of(const Chain& chain, const Content& content,
                                      std::uint64_t number) {
  std::set<std::string> keys;
  SPARCL_ASSIGN_OR_RETURN(const VersionRecord record, chain.record(number));
  keys.insert(record.delta ? record.delta->key : record.anchor->key);
  if (record.anchor_index) keys.insert(record.anchor_index->key);
  for (const ObjectInfo& each : content.shortcuts) {
    if (number_in(each.key) != number) continue;
    const std::uint64_t from = number_in(each.key.substr(each.key.rfind('-') + 1));
    SPARCL_ASSIGN_OR_RETURN(const std::optional<Shortcut> shortcut, chain.shortcut(number, from));
    if (shortcut) keys.insert(shortcut->object.key);
    if (shortcut && shortcut->index) keys.insert(shortcut->index->key);
  }
  return keys;
}

// What no record names, of writers that were killed or have failed. A record and its shortcuts name
// one object each, beside the indexes of anchors.
Status remove_unnamed(const Chain& chain, const Content& content, std::uint64_t below,
                      std::uint64_t newest, std::int64_t before_s, Remover& remover) {
  std::map<std::uint64_t, std::vector<const ObjectInfo*>> by_number;
  std::map<std::uint64_t, std::size_t> named;  // and indexes of anchors that are there
  std::set<std::string> indexes;
  for (const ObjectInfo& each : content.objects) {
    by_number[number_in(each.key)].push_back(&each);
    if (!is_index_key(each.key)) indexes.insert(each.key + kIndexSuffix);
  }
  for (const ObjectInfo& each : content.objects)
    named[number_in(each.key)] += indexes.contains(each.key) ? 1 : 0;
  for (const ObjectInfo& each : content.shortcuts) ++named[number_in(each.key)];
  for (const auto& [number, objects] : by_number) {
    const std::size_t expected = named[number] + 1;
    if (number < below || number > newest || objects.size() <= expected) continue;
    SPARCL_ASSIGN_OR_RETURN(const std::set<std::string> keys, keys_of(chain, content, number));
    for (const ObjectInfo* const each : objects) {
      if (!keys.contains(each->key) && each->written_s < before_s)
        SPARCL_RETURN_IF_ERROR(remover.remove(*each));
    }
  }
  return {};
}

// Empty if the object is damaged, or names records that are not there: it removes nothing then.
Result<PrunedMarks> sound_marks(ObjectStore& store, std::uint64_t newest, PruneReport& report) {
  Result<PrunedMarks> pruned = read_pruned(store);
  if (pruned.ok() && pruned->below() <= newest) return pruned;
  if (!pruned.ok() && pruned.status().code() != Code::kCorrupt) return pruned.status();
  report.has_damaged_marks = true;
  log_warn("nothing is removed by earlier marks: {}",
           pruned.ok() ? fmt::format("{}: it names record {}, and the newest one is {}",
                                     store.location_of(kPruned), pruned->below(), newest)
                       : std::string(pruned.status().message()));
  return PrunedMarks();
}

// Adds the cut, and returns the number below which all may be removed now. A damaged object is
// written again once it is known what it has to say.
Result<std::uint64_t> mark(ObjectStore& store, PrunedMarks pruned, std::uint64_t cut,
                           const Keep& keep, std::int64_t now_s, bool mends) {
  std::uint64_t ripe = 0;
  std::erase_if(pruned.marks, [&](const PrunedMarks::Mark& each) {
    const bool is_ripe = each.since_s + keep.lease_s <= now_s;
    if (is_ripe) ripe = std::max(ripe, each.below);
    return is_ripe && each.below != pruned.below();  // the last one stays, for readers
  });
  const bool is_higher = cut > pruned.below();
  if (is_higher) pruned.marks.push_back({cut, now_s});
  if (is_higher || mends) SPARCL_RETURN_IF_ERROR(write_pruned(store, pruned));
  if (is_higher && keep.lease_s <= 0) ripe = cut;
  return ripe;
}

bool has_objects_below(const Content& content, std::uint64_t below) {
  for (const auto* const all : {&content.objects, &content.shortcuts, &content.records}) {
    if (std::ranges::any_of(*all,
                            [&](const ObjectInfo& each) { return number_in(each.key) < below; }))
      return true;
  }
  return false;
}

// The anchor of the policy, or an earlier one if that one is damaged.
Result<std::uint64_t> sound_cut(const Chain& chain, const Content& content, std::uint64_t cut,
                                std::uint64_t pruned_below) {
  while (cut > pruned_below) {
    SPARCL_ASSIGN_OR_RETURN(const bool sound, is_sound(chain, cut));
    if (sound) break;
    const auto after = std::ranges::lower_bound(content.anchors, cut);
    cut = after == content.anchors.begin() ? 0 : *std::prev(after);
  }
  return cut;
}

}  // namespace

Result<PruneReport> prune(Chain& chain, const Keep& keep) {
  PruneReport report;
  if (keep.versions == 0 && !keep.age_s && !keep.max_bytes)
    return Status(Code::kInvalidArgument, "say what is to be kept: versions, an age or bytes");
  SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> newest, chain.newest());
  if (!newest) return report;
  ObjectStore& store = chain.store();
  SPARCL_ASSIGN_OR_RETURN(const std::int64_t now, now_of(store));
  SPARCL_ASSIGN_OR_RETURN(const Content content, read_content(store));
  SPARCL_ASSIGN_OR_RETURN(const PrunedMarks pruned, sound_marks(store, newest->number, report));
  SPARCL_ASSIGN_OR_RETURN(
      const std::uint64_t cut,
      sound_cut(chain, content, cut_of(content, newest->number, keep, now), pruned.below()));
  const bool is_whole = !content.records.empty() && number_in(content.records.front().key) == 1;
  SPARCL_ASSIGN_OR_RETURN(std::uint64_t below, mark(store, pruned, cut, keep, now,
                                                    report.has_damaged_marks && is_whole));
  // A mark may be forged, or its anchor damaged since.
  const bool is_checked = below == cut && cut > pruned.below();
  if (!is_checked && has_objects_below(content, below)) {
    SPARCL_ASSIGN_OR_RETURN(const bool sound, is_sound(chain, below));
    report.has_damaged_marks = report.has_damaged_marks || !sound;
    if (!sound) below = 0;
  }
  SPARCL_ASSIGN_OR_RETURN(const std::optional<FirstLease> leased,
                          first_leased(store, now, keep.lease_s));
  if (leased) below = std::min(below, leased->number);
  if (leased && leased->number < cut) report.lease = leased;
  Remover remover(chain, report);
  SPARCL_RETURN_IF_ERROR(remover.remove_below(content, below));
  const std::int64_t before = now - std::max(keep.lease_s, kLeaseSeconds);  // writers are slow
  SPARCL_RETURN_IF_ERROR(remove_unnamed(chain, content, below, newest->number, before, remover));
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t unfinished, store.remove_unfinished(before));
  report.objects += unfinished;
  for (const ObjectInfo& each : content.records) {
    const std::uint64_t number = number_in(each.key);
    report.waiting += number >= below && number < cut ? 1 : 0;
  }
  if (report.waiting == 0) report.lease.reset();
  return report;
}

}  // namespace sparcl::store
