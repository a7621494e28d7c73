#include "src/store/content_verifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "src/store/anchor_index.hpp"
#include "src/store/chain_path.hpp"
#include "src/store/copy_identity.hpp"
#include "src/store/pruned_marks.hpp"
#include "src/store/stored_object.hpp"

namespace sparcl::store {
namespace {

constexpr std::size_t kMaxRemarks = 100;

std::vector<NamedObject> objects_of(const VersionRecord& record, bool is_first) {
  std::vector<NamedObject> objects{{record.schema, ObjectKind::kShared}};
  if (record.description) objects.push_back({*record.description, ObjectKind::kShared});
  if (record.anchor) objects.push_back({*record.anchor, ObjectKind::kUpdate});
  if (record.anchor_index) objects.push_back({*record.anchor_index, ObjectKind::kOther});
  // What leads to the first one from before it was pruned is not needed.
  if (record.delta && !is_first) objects.push_back({*record.delta, ObjectKind::kUpdate});
  return objects;
}

std::vector<NamedObject> objects_of(const Shortcut& shortcut) {
  std::vector<NamedObject> objects{{shortcut.object, ObjectKind::kUpdate}};
  if (shortcut.index) objects.push_back({*shortcut.index, ObjectKind::kOther});
  return objects;
}

}  // namespace

std::string ContentVerifier::Judged::why() const {
  if (!fault.empty() || bad.empty()) return fault;
  return fmt::format("it names another object than {}: {}", bad.front().first.object.key,
                     bad.front().second.message());
}

ContentVerifier::ContentVerifier(Chain& chain, Chain* copy,
                                 const std::function<void(const Damage&)>& visit)
    : chain_(chain),
      copy_(copy),
      visit_(visit),
      own_checks_(chain.store()),
      copy_checks_(copy != nullptr ? std::make_unique<ObjectChecks>(copy->store()) : nullptr) {}

VerifyReport ContentVerifier::report() const {
  VerifyReport report = report_;
  report.objects += own_checks_.objects();
  report.bytes += own_checks_.bytes();
  return report;
}

Status ContentVerifier::verify(std::int64_t lease_s) {
  std::unique_ptr<HeldLease> lease;
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t noted, chain_.noted());
  SPARCL_ASSIGN_OR_RETURN(own_.range, range_under_lease(chain_, lease_s, lease));
  SPARCL_RETURN_IF_ERROR(read_lists());
  if (copy_ != nullptr) SPARCL_RETURN_IF_ERROR(check_is_copy(chain_, *copy_, other_.range.listed));
  SPARCL_RETURN_IF_ERROR(check_marks());
  StoredRange all = own_.range;
  all.listed.insert(all.listed.end(), other_.range.listed.begin(), other_.range.listed.end());
  std::ranges::sort(all.listed);
  first_ = all.first;
  last_ = std::max(own_.range.last, other_.range.last);
  SPARCL_RETURN_IF_ERROR(check_noted(noted));
  for (std::uint64_t number = first_; number <= last_; ++number) {
    const std::uint64_t next = after_long_gap(all, number);
    if (next != number)
      note(commit_key(number), fmt::format("it is missing, and so are all records before {}", next),
           false);
    number = next;
    SPARCL_RETURN_IF_ERROR(check_version(number));
  }
  remark_unnamed();
  return check_beginning();
}

// Objects come before the shortcuts that name them: a writer may be at work.
Status ContentVerifier::read_lists() {
  for (const char* const folder : {"anchors", "skips"}) {
    SPARCL_RETURN_IF_ERROR(chain_.store().list(folder, [&](const ObjectInfo& each) {
      if (!is_index_key(each.key)) own_.objects.insert(each.key);
      return true;
    }));
  }
  SPARCL_ASSIGN_OR_RETURN(own_.origins, shortcuts_of(chain_));
  if (copy_ != nullptr) {
    SPARCL_ASSIGN_OR_RETURN(other_.range, range_of(*copy_));
    SPARCL_ASSIGN_OR_RETURN(other_.origins, shortcuts_of(*copy_));
  }
  for (const Origins* const all : {&own_.origins, &other_.origins}) {
    for (const auto& [number, from] : *all) origins_.insert(from.begin(), from.end());
  }
  return {};
}

// Without it all records count as needed.
Status ContentVerifier::check_marks() {
  const Status marks = read_pruned(chain_.store()).status();
  if (marks.ok() || !is_damage(marks)) return marks;
  if (!own_.range.listed.empty()) own_.range.first = own_.range.listed.front();
  note(kPruned, std::string(marks.message()) + ": the next removal of versions writes it again",
       false);
  return {};
}

Status ContentVerifier::check_version(std::uint64_t number) {
  record_.reset();
  version_.reset();
  own_checks_.forget();
  if (copy_checks_ != nullptr) copy_checks_->forget();
  SPARCL_RETURN_IF_ERROR(check_record(number));
  std::set<std::uint64_t> all = own_.origins[number];
  const auto others = other_.origins.find(number);
  if (others != other_.origins.end()) all.insert(others->second.begin(), others->second.end());
  for (const std::uint64_t from : all) SPARCL_RETURN_IF_ERROR(check_shortcut(number, from));
  before_number_ = number;
  before_version_ = version_;
  if (record_) last_record_ = record_;
  if (version_ && origins_.contains(number)) versions_[number] = *version_;
  return {};
}

Status ContentVerifier::check_record(std::uint64_t number) {
  ++report_.objects;
  const Result<VersionRecord> own = chain_.record(number);
  if (!own.ok() && !is_damage(own.status())) return own.status();
  std::optional<VersionRecord> other;
  if (copy_ != nullptr) {
    SPARCL_ASSIGN_OR_RETURN(other, if_sound(copy_->look(number)));
  }
  if (own.ok()) return check_own_record(*own, other);
  const std::string why(own.status().message());
  if (other) return take_missing_record(*other, why);
  note(commit_key(number), why, false);
  return {};
}

// In place of one that is missing, or is no record. Its objects may be missing as well.
Status ContentVerifier::take_missing_record(const VersionRecord& other, const std::string& why) {
  const std::string key = commit_key(other.number);
  SPARCL_ASSIGN_OR_RETURN(const Judged judged, judge(other, true));
  SPARCL_ASSIGN_OR_RETURN(const bool is_refused, next_refuses(other));
  if (!judged.fault.empty() || is_refused) {
    note(key,
         why + "; the copy's record does not fit: " +
             (is_refused ? "the next record leads on from another version" : judged.fault),
         false);
    return {};
  }
  SPARCL_RETURN_IF_ERROR(bring(judged));
  SPARCL_RETURN_IF_ERROR(replace_by_copy(key));
  note(key, why, true);
  for (const auto& [named, status] : judged.bad) note(named.object.key, status.message(), false);
  accept(other, judged);
  return {};
}

Status ContentVerifier::check_own_record(const VersionRecord& own,
                                         const std::optional<VersionRecord>& other) {
  const std::string key = commit_key(own.number);
  SPARCL_ASSIGN_OR_RETURN(Judged judged, judge(own, false));
  const bool differs = other && (!is_same(*other, own) || (*other != own && !judged.is_sound()));
  SPARCL_ASSIGN_OR_RETURN(const bool is_right, copy_has_objects(judged));
  if (differs && !is_right) {
    SPARCL_ASSIGN_OR_RETURN(const Judged others, judge(*other, true));
    SPARCL_ASSIGN_OR_RETURN(const bool is_refused, next_refuses(*other));
    const bool fits = others.is_sound() && !is_refused;
    if (fits && !judged.is_sound()) {
      SPARCL_RETURN_IF_ERROR(bring(others));
      SPARCL_RETURN_IF_ERROR(replace_by_copy(key));
      note(key, judged.why(), true);
      accept(*other, others);
      return {};
    }
    if (fits)
      note(key,
           fmt::format("its field '{}' is not that of the copy's record, and nothing shows which "
                       "of the two was changed",
                       differing_field(own, *other)),
           false);
  }
  SPARCL_RETURN_IF_ERROR(repair_objects(judged));
  if (judged.fault.empty()) judged.fault = fault_of(own, judged.ends, before(own));
  if (!judged.fault.empty()) note(key, judged.fault, false);
  accept(own, judged);
  return {};
}

// Nothing is wrong with the record itself, and what it names is damaged here and sound in the copy.
Result<bool> ContentVerifier::copy_has_objects(const Judged& judged) {
  if (!judged.fault.empty() || judged.bad.empty() || copy_checks_ == nullptr) return false;
  for (const auto& [named, status] : judged.bad) {
    SPARCL_ASSIGN_OR_RETURN(const ObjectVerdict other, copy_checks_->check(named));
    if (!other.status.ok()) return false;
  }
  return true;
}

void ContentVerifier::accept(const VersionRecord& record, const Judged& judged) {
  ++report_.versions;
  record_ = record;
  const bool is_whole = judged.fault.empty();
  if (is_whole) version_ = record.target();
  if (judged.ends && judged.ends->target_hash)
    version_ = {judged.ends->target_version, *judged.ends->target_hash};
  if (!is_whole) {
    if (!has_anchor(record.newest_anchor)) missing_anchors_.insert(record.newest_anchor);  // told
    return;
  }
  before_anchor_ = record.newest_anchor;
  note_missing_anchor(record);
}

void ContentVerifier::note_missing_anchor(const VersionRecord& record) {
  const std::uint64_t number = record.newest_anchor;
  if (number <= 1 || number < first_ || own_.origins[number].contains(0)) return;
  if (!missing_anchors_.insert(number).second) return;
  note(shortcut_key(number, 0), fmt::format("it is missing, and record {} names it", record.number),
       false);
}

Status ContentVerifier::check_shortcut(std::uint64_t number, std::uint64_t from) {
  if (number <= 1) return {};  // the first record has its anchor itself
  const std::string key = shortcut_key(number, from);
  const bool is_listed = own_.origins[number].contains(from);
  report_.objects += is_listed ? 1 : 0;
  const Result<std::optional<Shortcut>> own = chain_.shortcut(number, from);
  if (!own.ok() && !is_damage(own.status())) return own.status();
  std::optional<Shortcut> other;
  if (copy_ != nullptr) {
    SPARCL_ASSIGN_OR_RETURN(other, if_sound(copy_->shortcut(number, from)));
  }
  if (own.ok() && *own) return check_own_shortcut(**own, other);
  const std::string why = own.ok() ? "it is missing" : own.status().message();
  Judged judged;
  if (other) {
    SPARCL_ASSIGN_OR_RETURN(judged, judge(*other, true));
  }
  if (other && judged.is_sound()) {
    SPARCL_RETURN_IF_ERROR(bring(judged));
    SPARCL_RETURN_IF_ERROR(replace_by_copy(key));
    own_.origins[number].insert(from);
    note(key, why, true);
  } else if (is_listed) {
    note(key, why, false);
  }
  return {};
}

Status ContentVerifier::check_own_shortcut(const Shortcut& own,
                                           const std::optional<Shortcut>& other) {
  const std::string key = shortcut_key(own.number, own.from);
  SPARCL_ASSIGN_OR_RETURN(Judged judged, judge(own, false));
  SPARCL_ASSIGN_OR_RETURN(const bool is_right, copy_has_objects(judged));
  if (!judged.is_sound() && !is_right && other && *other != own) {
    SPARCL_ASSIGN_OR_RETURN(const Judged others, judge(*other, true));
    if (others.is_sound()) {
      SPARCL_RETURN_IF_ERROR(bring(others));
      SPARCL_RETURN_IF_ERROR(replace_by_copy(key));
      note(key, judged.why(), true);
      return {};
    }
  }
  SPARCL_RETURN_IF_ERROR(repair_objects(judged));
  if (judged.fault.empty())
    judged.fault = fault_of(own, judged.ends, version_, version_of(own.from));
  if (!judged.fault.empty()) note(key, judged.fault, false);
  return {};
}

Result<ContentVerifier::Judged> ContentVerifier::judge(const VersionRecord& record,
                                                       bool with_copy) {
  Judged judged;
  SPARCL_RETURN_IF_ERROR(
      judge_objects(objects_of(record, record.number == first_), with_copy, judged));
  if (judged.fault.empty()) judged.fault = fault_of(record, judged.ends, before(record));
  return judged;
}

Result<ContentVerifier::Judged> ContentVerifier::judge(const Shortcut& shortcut, bool with_copy) {
  Judged judged;
  SPARCL_RETURN_IF_ERROR(judge_objects(objects_of(shortcut), with_copy, judged));
  if (record_ && record_->model_id != shortcut.model_id)
    judged.fault = fmt::format("it is of the model '{}', and its record of '{}'", shortcut.model_id,
                               record_->model_id);
  if (judged.fault.empty())
    judged.fault = fault_of(shortcut, judged.ends, version_, version_of(shortcut.from));
  return judged;
}

Status ContentVerifier::judge_objects(std::span<const NamedObject> objects, bool with_copy,
                                      Judged& judged) {
  for (const NamedObject& named : objects) {
    const StoredObject* const known = own_checks_.sound_shared(named.object.key);
    if (named.kind == ObjectKind::kShared && known != nullptr && *known != named.object) {
      judged.fault = fmt::format("it says of {} that it has {} bytes, and it has {}",
                                 named.object.key, named.object.bytes, known->bytes);
      continue;
    }
    SPARCL_ASSIGN_OR_RETURN(ObjectVerdict verdict, own_checks_.check(named));
    if (!verdict.status.ok() && with_copy) {
      SPARCL_ASSIGN_OR_RETURN(const ObjectVerdict other, copy_checks_->check(named));
      if (other.status.ok()) {
        judged.to_bring.emplace_back(named, verdict.status);
        verdict = other;
      }
    }
    if (!verdict.status.ok()) judged.bad.emplace_back(named, verdict.status);
    if (verdict.ends) judged.ends = verdict.ends;
  }
  return {};
}

BeforeRecord ContentVerifier::before(const VersionRecord& record) const {
  BeforeRecord before{.first = first_, .newest_anchor = before_anchor_};
  if (before_number_ + 1 == record.number) before.version = before_version_;
  before.has_anchor = has_anchor(record.newest_anchor);
  if (last_record_ && last_record_->number < record.number) before.record = &*last_record_;
  return before;
}

std::optional<model::HeldVersion> ContentVerifier::version_of(std::uint64_t number) const {
  const auto found = versions_.find(number);
  return found != versions_.end() ? std::optional(found->second) : std::nullopt;
}

// It is there, or its object is.
bool ContentVerifier::has_anchor(std::uint64_t number) const {
  if (number == 1 || missing_anchors_.contains(number)) return true;
  const auto origins = own_.origins.find(number);
  if (origins != own_.origins.end() && origins->second.contains(0)) return true;
  const std::string name = fmt::format("anchors/{:020d}-{:020d}-", number, 0);
  const auto object = own_.objects.lower_bound(name);
  return object != own_.objects.end() && object->starts_with(name);
}

// The next record is of another history. The copy's own next one may tell that it is damaged.
Result<bool> ContentVerifier::next_refuses(const VersionRecord& record) const {
  SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> next,
                          if_sound(chain_.look(record.number + 1)));
  if (!next || next->base() == record.target()) return false;
  SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> others,
                          if_sound(copy_->look(record.number + 1)));
  return !others || others->base() != record.target();
}

Status ContentVerifier::bring(const Judged& judged) {
  for (const auto& [named, why] : judged.to_bring) SPARCL_RETURN_IF_ERROR(bring_object(named, why));
  return {};
}

Status ContentVerifier::bring_object(const NamedObject& named, const Status& why) {
  const StoredObject& object = named.object;
  SPARCL_ASSIGN_OR_RETURN(const ObjectVerdict verdict, copy_checks_->check(named));
  SPARCL_ASSIGN_OR_RETURN(const Staging bytes, get_object(copy_->store(), object, object.bytes));
  SPARCL_RETURN_IF_ERROR(replace_object(chain_.store(), object, bytes));
  own_checks_.note_replaced(named, verdict);
  note(object.key, why.message(), true);
  return {};
}

Status ContentVerifier::repair_objects(Judged& judged) {
  for (const auto& [named, why] : judged.bad) {
    ObjectVerdict other{why};
    if (copy_ != nullptr) {
      SPARCL_ASSIGN_OR_RETURN(other, copy_checks_->check(named));
    }
    if (other.status.ok()) {
      SPARCL_RETURN_IF_ERROR(bring_object(named, why));
      if (other.ends) judged.ends = other.ends;
    } else if (named.kind != ObjectKind::kShared || told_.insert(named.object.key).second) {
      note(named.object.key, why.message(), false);
    }
  }
  return {};
}

Status ContentVerifier::replace_by_copy(const std::string& key) {
  SPARCL_ASSIGN_OR_RETURN(const auto content, copy_->store().read_all(key, kMaxRecordBytes));
  if (!content)
    return corrupt(copy_->store().location_of(key) + ": it was there, and is not: repeat the call");
  const std::array pieces{std::span<const std::byte>(*content)};
  return chain_.store().replace(key, pieces);
}

// An anchor may be missing with the record that names it.
Status ContentVerifier::check_beginning() {
  if (!last_record_) return {};
  const Status begins = steps_to(chain_, *last_record_, {}).status();
  if (begins.ok() || !is_damage(begins)) return begins;
  note(commit_key(last_record_->number), "no reader can begin with it: " + begins.message(), false);
  return {};
}

// Readers do without it. Records at the end of the chain may be missing: it is written after them.
Status ContentVerifier::check_noted(std::uint64_t noted) {
  if (last_ == 0 && noted == 0) return {};
  if (noted != 0 && noted <= last_) return {};
  bool was_there = false;
  if (noted > last_) {
    SPARCL_RETURN_IF_ERROR(chain_.store().list("deltas", [&](const ObjectInfo& each) {
      was_there = number_in(each.key) == noted;
      return !was_there;
    }));
  }
  if (was_there) {
    note(commit_key(last_ + 1),
         fmt::format("it is missing: {} names record {}, whose delta is there", kNewest, noted),
         false);
    return {};
  }
  const bool is_mended = copy_ != nullptr && last_ != 0;
  if (is_mended) {
    const std::string text = fmt::format("{}\n", last_);
    const std::array pieces{std::as_bytes(std::span(text))};
    SPARCL_RETURN_IF_ERROR(chain_.store().replace(kNewest, pieces));
  }
  remark(kNewest,
         noted == 0 ? std::string("it is missing, or has no number: readers list the records")
                    : fmt::format("it names record {}, and the last one is {}", noted, last_),
         is_mended);
  return {};
}

// Killed writers leave such objects, too: they are no damage.
void ContentVerifier::remark_unnamed() {
  for (const std::string& key : own_.objects) {
    const std::uint64_t number = number_in(key), from = origin_in(key);
    if (number <= 1 || number < first_ || number >= own_.range.last) continue;
    const bool is_told = from == 0 && missing_anchors_.contains(number);
    if (is_told || own_.origins[number].contains(from)) continue;
    remark(key, fmt::format("{} does not name it: that was lost, or a writer was killed. No reader "
                            "uses it",
                            shortcut_key(number, from)));
  }
}

Damage ContentVerifier::damage(const std::string& key, std::string what, bool is_repaired) const {
  std::string location = chain_.store().location_of(key);
  if (what.starts_with(location + ": ")) what.erase(0, location.size() + 2);
  return {std::move(location), std::move(what), is_repaired};
}

void ContentVerifier::note(const std::string& key, std::string what, bool is_repaired) {
  ++report_.damaged;
  report_.repaired += is_repaired ? 1 : 0;
  visit_(damage(key, std::move(what), is_repaired));
}

void ContentVerifier::remark(const std::string& key, std::string what, bool is_repaired) {
  if (report_.remarks.size() < kMaxRemarks)
    report_.remarks.push_back(damage(key, std::move(what), is_repaired));
}

Result<VerifyReport> verify_content(Chain& chain, Chain* copy,
                                    const std::function<void(const Damage&)>& visit,
                                    std::int64_t lease_s) {
  ContentVerifier verifier(chain, copy, visit);
  SPARCL_RETURN_IF_ERROR(verifier.verify(lease_s));
  return verifier.report();
}

}  // namespace sparcl::store
