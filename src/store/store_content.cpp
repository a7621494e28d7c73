#include "src/store/store_content.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "src/store/chain_path.hpp"
#include "src/store/held_lease.hpp"
#include "src/store/pruned_marks.hpp"
#include "src/store/stored_object.hpp"

namespace sparcl::store {
namespace {

// The first record, the last one that is there, and all that are there, in ascending order.
struct Range {
  std::uint64_t first = 1, last = 0;
  std::vector<std::uint64_t> listed;
};

Result<Range> range_of(const Chain& chain) {
  Range range;
  SPARCL_ASSIGN_OR_RETURN(range.first, chain.oldest());
  SPARCL_RETURN_IF_ERROR(chain.store().list(kCommits, [&](const ObjectInfo& each) {
    const std::uint64_t number = number_in(each.key);
    if (number == 0 || number == UINT64_MAX || each.key != commit_key(number)) return true;
    range.listed.push_back(number);
    range.last = number;
    return true;
  }));
  return range;
}

// The same, of records that pruning leaves alone while the lease is held. No record, no lease.
Result<Range> range_under_lease(const Chain& chain, std::int64_t lease_s,
                                std::unique_ptr<HeldLease>& lease) {
  SPARCL_ASSIGN_OR_RETURN(Range range, range_of(chain));
  if (range.last == 0) return range;
  SPARCL_ASSIGN_OR_RETURN(lease, HeldLease::hold(chain.store(), lease_s));
  if (lease->first() > range.last) return range_of(chain);  // of a list that is old by now
  range.first = lease->first();
  return range;
}

using Origins = std::map<std::uint64_t, std::set<std::uint64_t>>;  // of shortcuts, by number

Result<Origins> shortcuts_of(const Chain& chain) {
  Origins origins;
  SPARCL_RETURN_IF_ERROR(chain.store().list(kShortcuts, [&](const ObjectInfo& each) {
    const std::uint64_t number = number_in(each.key);
    const std::uint64_t from = number_in(each.key.substr(each.key.rfind('-') + 1));
    if (each.key == shortcut_key(number, from)) origins[number].insert(from);
    return true;
  }));
  return origins;
}

// Puts the bytes of a small object of `from`.
Result<bool> copy_small(const Chain& from, const Chain& to, const std::string& key,
                        bool may_replace) {
  SPARCL_ASSIGN_OR_RETURN(const auto content, from.store().read_all(key, kMaxRecordBytes));
  if (!content) return false;
  const std::array pieces{std::span<const std::byte>(*content)};
  if (may_replace)
    SPARCL_RETURN_IF_ERROR(to.store().replace(key, pieces));
  else
    SPARCL_RETURN_IF_ERROR(to.store().put_if_absent(key, pieces).status());
  return true;
}

// Checks, and repairs.
class Verifier {
 public:
  Verifier(Chain& chain, Chain* from, const std::function<void(const Damage&)>& visit)
      : chain_(chain), from_(from), visit_(visit) {}

  Status verify(std::int64_t lease_s) {
    std::unique_ptr<HeldLease> lease;
    SPARCL_ASSIGN_OR_RETURN(Range range, range_under_lease(chain_, lease_s, lease));
    SPARCL_RETURN_IF_ERROR(check_marks(range));
    SPARCL_ASSIGN_OR_RETURN(Origins origins, shortcuts_of(chain_));
    if (from_ != nullptr) {
      SPARCL_ASSIGN_OR_RETURN(Origins others, shortcuts_of(*from_));
      for (auto& [number, all] : others) origins[number].merge(all);
      SPARCL_ASSIGN_OR_RETURN(const Range other, range_of(*from_));
      range.last = std::max(range.last, other.last);
      range.listed.insert(range.listed.end(), other.listed.begin(), other.listed.end());
      std::ranges::sort(range.listed);
    }
    SPARCL_RETURN_IF_ERROR(check_noted(range));
    for (std::uint64_t number = range.first; number <= range.last; ++number) {
      number = after_long_gap(range, number);
      SPARCL_ASSIGN_OR_RETURN(const auto record,
                              read<VersionRecord>(commit_key(number), [&](const Chain& chain) {
                                return chain.record(number);
                              }));
      if (!record) continue;
      ++report_.versions;
      SPARCL_RETURN_IF_ERROR(check_record(*record, number == range.first));
      for (const std::uint64_t from : origins[number])
        SPARCL_RETURN_IF_ERROR(check_shortcut(number, from));
      before_ = record;
    }
    return before_ ? check_beginning(*before_) : Status();
  }
  const VerifyReport& report() const { return report_; }

 private:
  Status check_record(const VersionRecord& record, bool is_first) {
    if (schema_ != record.schema) SPARCL_RETURN_IF_ERROR(check(*(schema_ = record.schema)));
    if (record.description && description_ != record.description)
      SPARCL_RETURN_IF_ERROR(check(*(description_ = record.description)));
    if (before_ && before_->number + 1 == record.number && before_->target() != record.base())
      note(commit_key(record.number),
           fmt::format("it leads on from version {}, and the record before it is version {}",
                       record.base_version, before_->version),
           false);
    if (record.anchor) SPARCL_RETURN_IF_ERROR(check(*record.anchor));
    if (record.anchor_index) SPARCL_RETURN_IF_ERROR(check(*record.anchor_index));
    // What leads to the first one from before it was pruned is not needed.
    if (record.delta && !is_first) SPARCL_RETURN_IF_ERROR(check(*record.delta));
    return {};
  }

  // An anchor may be missing with the record that names it.
  Status check_beginning(const VersionRecord& last) {
    const Status begins = steps_to(chain_, last, {}).status();
    if (begins.ok() || !is_damage(begins)) return begins;
    note(commit_key(last.number), "no reader can begin with it: " + std::string(begins.message()),
         false);
    return {};
  }

  // Without it all records count as needed.
  Status check_marks(Range& range) {
    const Status marks = read_pruned(chain_.store()).status();
    if (marks.ok() || !is_damage(marks)) return marks;
    if (!range.listed.empty()) range.first = range.listed.front();
    note(kPruned, std::string(marks.message()) + ": the next removal of versions writes it again",
         false);
    return {};
  }

  // Hostile numbers may be far from each other: then not each one that is missing is named.
  std::uint64_t after_long_gap(const Range& range, std::uint64_t number) {
    constexpr std::uint64_t kMaxNamed = 1000;
    const auto next = std::ranges::lower_bound(range.listed, number);
    if (next == range.listed.end() || *next - number <= kMaxNamed) return number;
    note(commit_key(number), fmt::format("it is missing, and so are all records before {}", *next),
         false);
    return *next;
  }

  // Records at the end of the chain may be missing.
  Status check_noted(const Range& range) {
    SPARCL_ASSIGN_OR_RETURN(const std::uint64_t noted, chain_.noted());
    if (noted > range.last)
      note(kNewest,
           fmt::format("it names record {}, and the last one that is there is {}: the next version "
                       "that is published mends it",
                       noted, range.last),
           false);
    return {};
  }

  Status check_shortcut(std::uint64_t number, std::uint64_t from) {
    SPARCL_ASSIGN_OR_RETURN(
        const auto shortcut,
        read<Shortcut>(shortcut_key(number, from), [&](const Chain& chain) -> Result<Shortcut> {
          SPARCL_ASSIGN_OR_RETURN(std::optional<Shortcut> found, chain.shortcut(number, from));
          if (found) return std::move(*found);
          return Status(Code::kCorrupt, "it is missing");
        }));
    if (shortcut && shortcut->index) SPARCL_RETURN_IF_ERROR(check(*shortcut->index));
    return shortcut ? check(shortcut->object) : Status();
  }

  // A record or a shortcut; nullopt: it is damaged, and there is no other.
  template <class Record, class Read>
  Result<std::optional<Record>> read(const std::string& key, Read&& read_from) {
    ++report_.objects;
    Result<Record> record = read_from(chain_);
    if (record.ok()) return std::optional(std::move(*record));
    if (!is_damage(record.status())) return record.status();
    bool is_repaired = false;
    if (from_ != nullptr && read_from(*from_).ok()) {
      SPARCL_ASSIGN_OR_RETURN(is_repaired, copy_small(*from_, chain_, key, true));
    }
    note(key, std::string(record.status().message()), is_repaired);
    std::optional<Record> repaired;
    if (!is_repaired) return repaired;
    SPARCL_ASSIGN_OR_RETURN(repaired, read_from(chain_));
    return repaired;
  }

  Status check(const StoredObject& object) {
    ++report_.objects;
    const Status status = check_object(chain_.store(), object);
    if (status.ok()) report_.bytes += object.bytes;
    if (status.ok() || !is_damage(status)) return status;
    bool is_repaired = false;
    if (from_ != nullptr && check_object(from_->store(), object).ok()) {
      SPARCL_ASSIGN_OR_RETURN(const Staging bytes,
                              get_object(from_->store(), object, object.bytes));
      SPARCL_RETURN_IF_ERROR(replace_object(chain_.store(), object, bytes));
      is_repaired = true;
    }
    note(object.key, std::string(status.message()), is_repaired);
    return {};
  }

  static bool is_damage(const Status& status) {
    return status.code() == Code::kCorrupt || status.code() == Code::kUnsupported;
  }

  void note(const std::string& key, std::string what, bool is_repaired) {
    ++report_.damaged;
    report_.repaired += is_repaired ? 1 : 0;
    visit_({chain_.store().location_of(key), std::move(what), is_repaired});
  }

  Chain& chain_;
  Chain* from_;
  const std::function<void(const Damage&)>& visit_;
  VerifyReport report_;
  std::optional<StoredObject> schema_, description_;
  std::optional<VersionRecord> before_;
};

Status copy_object(const Chain& from, const Chain& to, const StoredObject& object) {
  SPARCL_ASSIGN_OR_RETURN(const std::optional<ObjectInfo> there, to.store().look(object.key));
  if (there && there->bytes == object.bytes) return {};
  if (there) SPARCL_RETURN_IF_ERROR(to.store().remove(object.key));
  SPARCL_ASSIGN_OR_RETURN(const auto writer, to.store().begin(object.key, object.bytes));
  std::vector<std::byte> piece(
      static_cast<std::size_t>(std::min<std::uint64_t>(object.bytes, kPieceBytes)));
  const PieceSink sink{
      [&](std::uint64_t, std::size_t count) { return std::span(piece).first(count); },
      [&](std::span<const std::byte> bytes) { return writer->write(bytes); }};
  SPARCL_RETURN_IF_ERROR(read_from_store(from.store(), object, sink));
  SPARCL_ASSIGN_OR_RETURN(const bool is_new, writer->finish());
  if (is_new) return {};
  SPARCL_ASSIGN_OR_RETURN(const std::optional<ObjectInfo> others, to.store().look(object.key));
  const bool is_same = others && others->bytes == object.bytes;  // another copy has put it
  return is_same ? Status() : name_is_taken(to.store(), object.key);
}

Status copy_shortcut(const Chain& from, const Chain& to, std::uint64_t number,
                     std::uint64_t origin) {
  SPARCL_ASSIGN_OR_RETURN(const auto shortcut, from.shortcut(number, origin));
  if (!shortcut) return {};
  SPARCL_RETURN_IF_ERROR(copy_object(from, to, shortcut->object));
  if (shortcut->index) SPARCL_RETURN_IF_ERROR(copy_object(from, to, *shortcut->index));
  return to.add(*shortcut);
}

// The record last: the version is there then.
Status copy_version(const Chain& from, const Chain& to, const VersionRecord& record,
                    const std::set<std::uint64_t>& origins, bool is_first) {
  SPARCL_RETURN_IF_ERROR(copy_object(from, to, record.schema));
  if (record.description) SPARCL_RETURN_IF_ERROR(copy_object(from, to, *record.description));
  if (record.anchor) SPARCL_RETURN_IF_ERROR(copy_object(from, to, *record.anchor));
  if (record.anchor_index) SPARCL_RETURN_IF_ERROR(copy_object(from, to, *record.anchor_index));
  if (record.delta && !is_first) SPARCL_RETURN_IF_ERROR(copy_object(from, to, *record.delta));
  for (const std::uint64_t origin : origins)
    SPARCL_RETURN_IF_ERROR(copy_shortcut(from, to, record.number, origin));
  return to.commit(record).status();
}

// Those that were made after their version had been copied.
Status copy_late_shortcuts(const Chain& from, const Chain& to, std::uint64_t first,
                           std::uint64_t last, const Origins& origins) {
  SPARCL_ASSIGN_OR_RETURN(Origins others, shortcuts_of(to));
  for (const auto& [number, all] : origins) {
    if (number < first || number > last) continue;
    for (const std::uint64_t origin : all) {
      if (!others[number].contains(origin))
        SPARCL_RETURN_IF_ERROR(copy_shortcut(from, to, number, origin));
    }
  }
  return {};
}

}  // namespace

Status list_versions(Chain& chain, const std::function<void(const ListedVersion&)>& visit) {
  SPARCL_ASSIGN_OR_RETURN(const Range range, range_of(chain));
  SPARCL_ASSIGN_OR_RETURN(Origins origins, shortcuts_of(chain));
  for (std::uint64_t number = range.first; number <= range.last; ++number) {
    ListedVersion listed;
    Result<VersionRecord> record = chain.record(number);
    if (!record.ok()) {
      SPARCL_ASSIGN_OR_RETURN(const std::uint64_t oldest, chain.oldest());
      if (oldest <= number) return record.status();
      number = oldest - 1;  // it was removed meanwhile
      continue;
    }
    listed.record = std::move(*record);
    if (listed.record.anchor) listed.anchor_bytes = listed.record.anchor->bytes;
    for (const std::uint64_t from : origins[number]) {
      SPARCL_ASSIGN_OR_RETURN(const auto shortcut, chain.shortcut(number, from));
      if (shortcut) (from == 0 ? listed.anchor_bytes : listed.skip_bytes) += shortcut->object.bytes;
    }
    visit(listed);
  }
  return {};
}

Result<VerifyReport> verify_content(Chain& chain, Chain* from,
                                    const std::function<void(const Damage&)>& visit,
                                    std::int64_t lease_s) {
  Verifier verifier(chain, from, visit);
  SPARCL_RETURN_IF_ERROR(verifier.verify(lease_s));
  return verifier.report();
}

Result<std::uint64_t> copy_content(Chain& from, Chain& to, std::int64_t lease_s) {
  std::unique_ptr<HeldLease> lease;
  SPARCL_ASSIGN_OR_RETURN(const Range range, range_under_lease(from, lease_s, lease));
  SPARCL_ASSIGN_OR_RETURN(Origins origins, shortcuts_of(from));
  SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> there, to.newest());
  std::uint64_t first = range.first, copied = 0;
  if (there) {
    SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> own, from.look(there->number));
    if (!own)
      return Status(
          Code::kStale,
          fmt::format("{}: it ends at version {}, whose record is not in the source: it is "
                      "a copy of another store, or the source was pruned up to there. "
                      "Copy to another store",
                      to.store().location_of(""), there->version));
    if (*own != *there) return stopped(*there).with_prefix(to.store().location_of("") + ": ");
    first = there->number + 1;
    SPARCL_RETURN_IF_ERROR(copy_late_shortcuts(from, to, range.first, there->number, origins));
  } else if (range.first > 1) {
    SPARCL_RETURN_IF_ERROR(write_pruned(to.store(), {{{range.first, 0}}}));
  }
  for (std::uint64_t number = first; number <= range.last; ++number, ++copied) {
    SPARCL_ASSIGN_OR_RETURN(const VersionRecord record, from.record(number));
    SPARCL_RETURN_IF_ERROR(
        copy_version(from, to, record, origins[number], !there && number == range.first));
  }
  return copied;
}

}  // namespace sparcl::store
