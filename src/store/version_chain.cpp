#include "src/store/version_chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "src/base/log.hpp"
#include "src/store/pruned_marks.hpp"

namespace sparcl::store {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return read.ec == std::errc() ? number : 0;
}

// Damage that is passed over, and the longest run of it.
constexpr std::uint64_t kMaxPassedOver = 256;
bool is_unreadable(const Status& status) {
  return status.code() == Code::kCorrupt || status.code() == Code::kUnauthorized ||
         status.code() == Code::kUnsupported;
}

}  // namespace

std::string commit_key(std::uint64_t number) { return fmt::format("{}/{:020d}", kCommits, number); }

std::string shortcut_key(std::uint64_t number, std::uint64_t from) {
  return fmt::format("{}/{:020d}-{:020d}", kShortcuts, number, from);
}

std::uint64_t number_in(std::string_view key) { return number_of(key.substr(key.rfind('/') + 1)); }

Status with_repair_hint(const Status& status) {
  constexpr const char* kCommand = "sparcl store verify";
  if (status.code() != Code::kCorrupt || status.message().find(kCommand) != std::string::npos)
    return status;
  return Status(status.code(),
                fmt::format("{}. Look for damage by {} URL, which repairs it with --copy COPY",
                            status.message(), kCommand),
                status.scope());
}

Result<std::optional<VersionRecord>> Chain::look(std::uint64_t number) const {
  std::optional<VersionRecord> found;
  const std::string key = commit_key(number);
  SPARCL_ASSIGN_OR_RETURN(const auto content, store_.read_all(key, kMaxRecordBytes));
  if (!content) return found;
  Result<VersionRecord> record = parse_record(*content);
  if (!record.ok()) return record.status().with_prefix(store_.location_of(key) + ": ");
  if (record->number != number)
    return Status(Code::kCorrupt, fmt::format("{}: it is record {}, which belongs elsewhere",
                                              store_.location_of(key), record->number));
  SPARCL_RETURN_IF_ERROR(trust_->check(*record).with_prefix(store_.location_of(key) + ": "));
  found = std::move(*record);
  return found;
}

Result<VersionRecord> Chain::record(std::uint64_t number) const {
  SPARCL_ASSIGN_OR_RETURN(std::optional<VersionRecord> found, look(number));
  if (found) return std::move(*found);
  return Status(Code::kCorrupt, fmt::format("{}: it is missing, and later versions need it",
                                            store_.location_of(commit_key(number))));
}

Result<std::optional<Shortcut>> Chain::shortcut(std::uint64_t number, std::uint64_t from) const {
  std::optional<Shortcut> found;
  if (number == 1 && from == 0) {
    SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> first, look(number));
    if (first) found = {number, from, first->target(), {}, *first->anchor, {}, first->anchor_index};
    return found;
  }
  const std::string key = shortcut_key(number, from);
  SPARCL_ASSIGN_OR_RETURN(const auto content, store_.read_all(key, kMaxRecordBytes));
  if (!content) return found;
  Result<Shortcut> shortcut = parse_shortcut(*content);
  if (!shortcut.ok()) return shortcut.status().with_prefix(store_.location_of(key) + ": ");
  if (shortcut->number != number || shortcut->from != from)
    return Status(Code::kCorrupt,
                  fmt::format("{}: it leads from record {} to {}, and belongs elsewhere",
                              store_.location_of(key), shortcut->from, shortcut->number));
  if (const Status trusted = trust_->check(*shortcut); !trusted.ok()) {
    log_warn("{}: it is not used: {}", store_.location_of(key), trusted.message());
    return found;
  }
  found = std::move(*shortcut);
  return found;
}

Result<std::uint64_t> Chain::oldest() const { return oldest_record(store_); }

Result<std::uint64_t> Chain::last_listed() const {
  std::uint64_t last = 0;
  SPARCL_RETURN_IF_ERROR(store_.list(kCommits, [&](const ObjectInfo& each) {
    if (each.key == commit_key(number_in(each.key))) last = number_in(each.key);
    return true;
  }));
  return last;
}

Result<std::optional<VersionRecord>> Chain::last_in_list() const {
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t last, last_listed());
  if (last == 0) return std::optional<VersionRecord>();
  return look(last);
}

Result<std::uint64_t> Chain::noted() const {
  SPARCL_ASSIGN_OR_RETURN(const auto content, store_.read_all(kNewest, kMaxRecordBytes));
  if (!content) return std::uint64_t{0};
  return number_of({reinterpret_cast<const char*>(content->data()), content->size()});
}

// The number that was noted may be late. Without its record the records are listed.
Result<std::optional<VersionRecord>> Chain::some_late_record() const {
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t number, noted());
  SPARCL_ASSIGN_OR_RETURN(std::optional<VersionRecord> found,
                          look(std::max<std::uint64_t>(number, 1)));
  if (found) return found;
  return last_in_list();
}

// Not many are looked at: a store that is damaged so much has to be repaired first.
Result<std::optional<VersionRecord>> Chain::last_sound_upto(std::uint64_t number) const {
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t first, oldest());
  for (std::uint64_t looks = 0; number >= first && looks < kMaxPassedOver; ++looks, --number) {
    Result<std::optional<VersionRecord>> found = look(number);
    if (found.ok() && *found) return found;
    if (!found.ok() && !is_unreadable(found.status())) return found.status();
  }
  return std::optional<VersionRecord>();
}

// A reader that asks for the newest version never gets an earlier one in place of a damaged one.
Result<std::optional<VersionRecord>> Chain::newest() {
  Result<std::optional<VersionRecord>> found = remember_newest();
  if (found.ok() || !is_unreadable(found.status())) return found;
  const Status hinted = with_repair_hint(found.status());
  // Once for each damage: a reader that follows asks again and again, and this lists the store.
  if (hinted_message_ != hinted.message()) {
    const Result<std::uint64_t> last = last_listed();
    if (!last.ok()) return found;
    const Result<std::optional<VersionRecord>> before = last_sound_upto(*last);
    hint_.clear();
    if (before.ok() && *before)
      hint_ = fmt::format("; version {} is the newest one before it (--version {})",
                          (*before)->version, (*before)->version);
    hinted_message_ = hinted.message();
  }
  return Status(hinted.code(), hinted.message() + hint_, hinted.scope());
}

Result<std::optional<VersionRecord>> Chain::newest_for(std::uint64_t version) {
  Result<std::optional<VersionRecord>> found = newest();
  if (version == 0 || found.ok() || !is_unreadable(found.status())) return found;
  if (newest_ && newest_->version >= version) return newest_;
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t last, last_listed());
  SPARCL_ASSIGN_OR_RETURN(std::optional<VersionRecord> before, last_sound_upto(last));
  if (before && before->version >= version) return before;
  return found;
}

// A reader that follows asks twice: for the next record, and for the number that was noted, as the
// next record may have been pruned meanwhile.
Result<std::optional<VersionRecord>> Chain::remember_newest() {
  if (!newest_) {
    SPARCL_ASSIGN_OR_RETURN(newest_, some_late_record());
    if (newest_) SPARCL_RETURN_IF_ERROR(go_on());
    return newest_;
  }
  SPARCL_ASSIGN_OR_RETURN(std::optional<VersionRecord> next, look(newest_->number + 1));
  const bool has_next = next.has_value();
  if (has_next) newest_ = std::move(next);
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t number, noted());
  if (number == newest_->number || (number < newest_->number && !has_next)) return newest_;
  if (number > newest_->number) {
    SPARCL_ASSIGN_OR_RETURN(std::optional<VersionRecord> late, look(number));
    if (!late) {
      SPARCL_ASSIGN_OR_RETURN(late, last_in_list());
    }
    if (late && late->number > newest_->number) newest_ = std::move(late);
  }
  SPARCL_RETURN_IF_ERROR(go_on());
  return newest_;
}

Result<std::optional<VersionRecord>> Chain::next_of(std::uint64_t version) {
  std::optional<VersionRecord> next;
  if (!newest_) return next;
  SPARCL_ASSIGN_OR_RETURN(next, look(newest_->number + 1));
  if (next) newest_ = next;
  if (next && next->version < version) return newest();
  return next;
}

// To the last record from one that is there: by single look-ups, and by a list if it is far away. A
// hostile server has always another one.
Status Chain::go_on() {
  constexpr int kMaxLooks = 1024, kMaxLists = 4;
  const std::optional<VersionRecord> before = newest_;
  for (int lists = 0; lists <= kMaxLists; ++lists) {
    for (int looks = 0; looks < kMaxLooks; ++looks) {
      SPARCL_ASSIGN_OR_RETURN(std::optional<VersionRecord> next, look(newest_->number + 1));
      if (!next) return {};
      newest_ = std::move(next);
    }
    SPARCL_ASSIGN_OR_RETURN(std::optional<VersionRecord> late, last_in_list());
    if (late && late->number > newest_->number) newest_ = std::move(late);
  }
  const std::string location = store_.location_of(commit_key(newest_->number));
  newest_ = before;
  return Status(Code::kCorrupt,
                fmt::format("{}: records follow each other without an end, and beyond what the "
                            "list has: is it the right server?",
                            location));
}

// The first record of [number, end) that can be read; number becomes its number. budget: so many
// others may be passed over. why: the first of them.
Result<std::optional<VersionRecord>> Chain::sound_from(std::uint64_t& number, std::uint64_t end,
                                                       std::uint64_t& budget, Status& why) const {
  why = {};
  for (; number < end && budget > 0; ++number, --budget) {
    Result<VersionRecord> found = record(number);
    if (found.ok()) return std::optional(std::move(*found));
    if (!is_unreadable(found.status())) return found.status();
    if (why.ok()) why = found.status();
  }
  if (number < end && why.ok())
    return Status(Code::kCorrupt, fmt::format("{}: too many records are missing or damaged",
                                              store_.location_of(commit_key(number))));
  return std::optional<VersionRecord>();
}

// Versions ascend with the numbers, most often by one.
Result<std::optional<VersionRecord>> Chain::find(std::uint64_t version,
                                                 const VersionRecord& upto) const {
  if (version == upto.version) return std::optional(upto);
  if (version > upto.version) return std::optional<VersionRecord>();
  SPARCL_ASSIGN_OR_RETURN(std::uint64_t first, oldest());
  std::uint64_t end = upto.number, budget = kMaxPassedOver;
  std::uint64_t guess = upto.number - std::min(upto.version - version, upto.number);
  Status unread;  // of records from `end` on, up to the first later version
  while (first < end) {
    const std::uint64_t at = guess >= first && guess < end ? guess : first + (end - first) / 2;
    guess = 0;
    std::uint64_t sound = at;
    Status why;
    SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> record,
                            sound_from(sound, end, budget, why));
    if (record && record->version == version) return record;
    if (record && record->version < version) {
      first = sound + 1;
      continue;
    }
    end = at;
    if (record || unread.ok()) unread = why;
  }
  if (!unread.ok()) return with_repair_hint(unread);
  return std::optional<VersionRecord>();
}

Status Chain::add(Shortcut shortcut) const {
  trust_->sign(shortcut);
  const std::string text = serialise(shortcut);
  const std::array pieces{bytes_of(text)};
  return store_.put_if_absent(shortcut_key(shortcut.number, shortcut.from), pieces).status();
}

Status stopped(const VersionRecord& other) {
  return Status(Code::kStale,
                fmt::format("another writer has published version {} there: this one publishes "
                            "nothing any more, open the store again",
                            other.version));
}

// Where the record of another writer has been pruned, this one's takes its key.
Status Chain::check_not_pruned(const VersionRecord& record) const {
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t first, oldest());
  if (first <= record.number) return {};
  const std::string key = commit_key(record.number);
  SPARCL_RETURN_IF_ERROR(store_.remove(key));
  return Status(Code::kStale,
                fmt::format("{}: another writer has published later versions, up to record {} they "
                            "are pruned: this one publishes nothing any more, open the store again",
                            store_.location_of(key), first));
}

Result<VersionRecord> Chain::commit(VersionRecord record) const {
  trust_->sign(record);
  const std::string text = serialise(record), key = commit_key(record.number);
  const std::array pieces{bytes_of(text)};
  SPARCL_ASSIGN_OR_RETURN(const bool is_new, store_.put_if_absent(key, pieces));
  VersionRecord there = record;
  if (is_new) {
    SPARCL_RETURN_IF_ERROR(check_not_pruned(record));
  } else {
    SPARCL_ASSIGN_OR_RETURN(there, this->record(record.number));
    if (there.writer != record.writer || there.version != record.version ||
        there.target_hash != record.target_hash)
      return stopped(there).with_prefix(store_.location_of(key) + ": ");
  }
  const std::string number = fmt::format("{}\n", record.number);
  const std::array hint{bytes_of(number)};
  if (const Status noted = store_.replace(kNewest, hint); !noted.ok())
    log_warn("the store's object for new readers is late: {}", noted.message());
  return there;
}

Status Chain::check_is_there(const VersionRecord& record) const {
  const std::string location = store_.location_of(commit_key(record.number)) + ": ";
  SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> there, look(record.number));
  if (!there)
    return Status(Code::kRemoteError,
                  location + "it was written, and is not there: repeat the call");
  if (*there == record) return {};
  return Status(Code::kStale,
                fmt::format("{}another writer has published version {} over version {} of this "
                            "one: readers may have either. This server does not exclude writers: "
                            "stop one of them, and publish to another prefix",
                            location, there->version, record.version));
}

}  // namespace sparcl::store
