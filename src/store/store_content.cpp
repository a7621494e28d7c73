#include "src/store/store_content.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/store/object_checks.hpp"
#include "src/store/pruned_marks.hpp"
#include "src/store/stored_object.hpp"
#include "src/store/stored_range.hpp"

namespace sparcl::store {
namespace {

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

// What a list passes over.
class Lister {
 public:
  Lister(Chain& chain, const std::function<void(const Damage&)>& damaged)
      : chain_(chain), damaged_(damaged) {}

  void note(const std::string& key, std::string what) {
    std::string location = chain_.store().location_of(key);
    if (what.starts_with(location + ": ")) what.erase(0, location.size() + 2);
    if (++count_ == 1) first_ = location + ": " + what;
    if (damaged_) damaged_({std::move(location), std::move(what)});
  }
  // An error that is no damage ends the list.
  Status pass_over(const std::string& key, const Status& why) {
    if (!is_damage(why)) return why;
    note(key, why.message());
    return {};
  }
  Status add_sizes(const std::set<std::uint64_t>& origins, ListedVersion& listed) {
    const std::uint64_t number = listed.record.number;
    if (listed.record.anchor) listed.anchor_bytes = listed.record.anchor->bytes;
    for (const std::uint64_t from : origins) {
      const Result<std::optional<Shortcut>> shortcut = chain_.shortcut(number, from);
      if (!shortcut.ok())
        SPARCL_RETURN_IF_ERROR(pass_over(shortcut_key(number, from), shortcut.status()));
      else if (*shortcut)
        (from == 0 ? listed.anchor_bytes : listed.skip_bytes) += (*shortcut)->object.bytes;
    }
    return {};
  }
  Status status() const {
    if (count_ == 0) return {};
    return Status(
        Code::kCorrupt,
        fmt::format("{} records or shortcuts are damaged or missing, and the list has the "
                    "others. Look for damage by sparcl store verify, which repairs it "
                    "with --copy. The first one is {}",
                    count_, first_));
  }

 private:
  Chain& chain_;
  const std::function<void(const Damage&)>& damaged_;
  std::uint64_t count_ = 0;
  std::string first_;
};

}  // namespace

Status list_versions(Chain& chain, const std::function<void(const ListedVersion&)>& visit,
                     const std::function<void(const Damage&)>& damaged) {
  SPARCL_ASSIGN_OR_RETURN(const StoredRange range, range_of(chain));
  SPARCL_ASSIGN_OR_RETURN(Origins origins, shortcuts_of(chain));
  Lister lister(chain, damaged);
  for (std::uint64_t number = range.first; number <= range.last; ++number) {
    const std::uint64_t next = after_long_gap(range, number);
    if (next != number) lister.note(commit_key(number), "it and later ones are missing");
    number = next;
    Result<VersionRecord> record = chain.record(number);
    if (!record.ok()) {
      SPARCL_ASSIGN_OR_RETURN(const std::uint64_t oldest, chain.oldest());
      if (oldest <= number)
        SPARCL_RETURN_IF_ERROR(lister.pass_over(commit_key(number), record.status()));
      else
        number = oldest - 1;  // it was removed meanwhile
      continue;
    }
    ListedVersion listed;
    listed.record = std::move(*record);
    SPARCL_RETURN_IF_ERROR(lister.add_sizes(origins[number], listed));
    visit(listed);
  }
  return lister.status();
}

Result<std::uint64_t> copy_content(Chain& from, Chain& to, std::int64_t lease_s) {
  std::unique_ptr<HeldLease> lease;
  SPARCL_ASSIGN_OR_RETURN(const StoredRange range, range_under_lease(from, lease_s, lease));
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
