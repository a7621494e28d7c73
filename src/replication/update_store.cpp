#include "src/replication/update_store.hpp"

#include <algorithm>
#include <utility>

namespace sparcl::replication {
namespace {

constexpr std::size_t kMinComposed = 3;  // updates; heuristic
constexpr std::uint64_t kMinPart =
    64;  // of all bytes: less is sent sooner than composed; heuristic
constexpr std::size_t kMaxComposed = 8;
constexpr std::uint64_t kComposedPart = 4;  // of all bytes, at most

}  // namespace

void UpdateStore::begin(UpdateRef label) {
  clear();
  note_published(label->target());
  newest_ = label->target();
  label_ = std::move(label);
}

void UpdateStore::note_published(const HeldVersion& version) {
  published_.push_back(version);
  if (published_.size() > kMaxPublished) published_.pop_front();
}

void UpdateStore::note_made(const Update& update) {
  made_.push_back({update.commit, update.signatures});
  if (made_.size() <= kMaxMade) return;
  made_.pop_front();
  ++first_made_;
}

// Steps that need memory come first: if one fails, there is no new version. A stream that was noted
// as made stays so: no replica has it.
void UpdateStore::add(UpdateRef delta, UpdateRef label, ChangeLogRef replaced) {
  const std::size_t before = chain_.size();
  try {
    chain_.push_back(delta);
    rollback_logs_.push_back(replaced);
    note_made(*delta);
    if (label->commit.target_hash == delta->commit.base_hash)
      note_made(*label);  // that leads there as well
    note_published(label->target());
  } catch (...) {
    if (rollback_logs_.size() > before) rollback_logs_.pop_back();
    if (chain_.size() > before) chain_.pop_back();
    throw;
  }
  bytes_ += delta->commit.stream_bytes;
  newest_ = label->target();
  label_ = std::move(label);
  if (replaced != nullptr) rollback_bytes_ += replaced->bytes();
  trim();
}

void UpdateStore::reissue(const std::function<UpdateRef(const UpdateRef&)>& anew) {
  for (UpdateRef& each : chain_) each = anew(each);
  for (Composed& each : composed_) each.update = anew(each.update);
  label_ = anew(label_);
  anchor_ = anew(anchor_);
  for (const UpdateRef& each : chain_) note_made(*each);
  for (const Composed& each : composed_) {
    if (each.update != nullptr) note_made(*each.update);
  }
  if (anchor_ != nullptr) note_made(*anchor_);
}

void UpdateStore::pass_on(UpdateRef update) {
  newest_ = update->target();
  if (update->commit.is_anchor) {
    while (!chain_.empty()) drop_first();
    drop_anchor();
    anchor_ = std::move(update);
    return;
  }
  if (anchor_ != nullptr && anchor_->commit.stream_bytes > limits_.bytes) drop_anchor();
  const std::uint64_t bytes = update->commit.stream_bytes;
  while (!chain_.empty() && (chain_.size() >= limits_.updates || bytes_ + bytes > limits_.bytes))
    drop_first();
  bytes_ += bytes;
  chain_.push_back(std::move(update));
  rollback_logs_.push_back(nullptr);
}

void UpdateStore::take_back(const UpdateRef& update) {
  if (anchor_ == update) drop_anchor();
  if (!chain_.empty() && chain_.back() == update) {
    bytes_ -= update->commit.stream_bytes;
    chain_.pop_back();
    rollback_logs_.pop_back();
  }
  newest_ = update->base();
}

void UpdateStore::clear() {
  while (!chain_.empty()) drop_first();
  for (const Composed& each : composed_) let_go(each.update);
  composed_.clear();
  drop_anchor();
  label_ = nullptr;
  newest_.reset();
}

void UpdateStore::keep_incoming_only() {
  while (!chain_.empty() && chain_.front()->missing_bytes == 0) drop_first();
  if (anchor_ != nullptr && anchor_->missing_bytes == 0) drop_anchor();
}

bool UpdateStore::drop_idle() {
  if (chain_.size() < 2 || chain_.front().use_count() > 1) return false;
  drop_first();
  trim_composed();
  return true;
}

bool UpdateStore::keeps(const UpdateRef& update) const {
  return update == anchor_ || std::ranges::find(chain_, update) != chain_.end() ||
         std::ranges::find(composed_, update, &Composed::update) != composed_.end();
}

// It is kept no more: sessions that still send it keep it for themselves.
void UpdateStore::let_go(const UpdateRef& update) const {
  if (update != nullptr && update.use_count() > 1) charge_to(budget_, *update);
}

void UpdateStore::drop_first() {
  bytes_ -= chain_.front()->commit.stream_bytes;
  let_go(chain_.front());
  if (rollback_logs_.front() != nullptr) rollback_bytes_ -= rollback_logs_.front()->bytes();
  chain_.pop_front();
  rollback_logs_.pop_front();
}

void UpdateStore::trim() {
  // The last one stays whatever it has: else what was just coded would be coded again, as an
  // anchor.
  while (chain_.size() > 1 && (chain_.size() > limits_.updates || bytes_ > limits_.bytes))
    drop_first();
  for (ChangeLogRef& each : rollback_logs_) {  // the oldest first
    if (rollback_bytes_ <= limits_.replaced_bytes) break;
    if (each != nullptr) rollback_bytes_ -= each->bytes();
    each = nullptr;
  }
  trim_composed();
  // An anchor is of use as long as the chain leads on from it.
  if (anchor_ == nullptr || anchor_->target() == *newest_) return;
  for (const UpdateRef& each : chain_) {
    if (each->base() == anchor_->target()) return;
  }
  drop_anchor();
}

std::uint64_t UpdateStore::bytes_since(std::size_t first) const {
  std::uint64_t bytes = 0;
  for (std::size_t i = first; i < chain_.size(); ++i) bytes += chain_[i]->commit.stream_bytes;
  return bytes;
}

// The position of a state in the chain, from the end, because a state may come back.
std::size_t UpdateStore::find_base(const Hash128& hash) const {
  std::size_t i = chain_.size();
  while (i > 0 && chain_[i - 1]->commit.base_hash != hash) --i;
  return i > 0 ? i - 1 : chain_.size();
}

const UpdateStore::Composed* UpdateStore::find_composed(const Hash128& base) const {
  const auto found = std::ranges::find(composed_, base, &Composed::base);
  return found == composed_.end() ? nullptr : &*found;
}

std::vector<ChangeLogRef> UpdateStore::rollback_logs(const HeldVersion& held) const {
  return logs_from(find_base(held.hash));
}

std::vector<ChangeLogRef> UpdateStore::logs_since(std::uint64_t version) const {
  return logs_from(find_step(version));
}

std::vector<ChangeLogRef> UpdateStore::logs_from(std::size_t first) const {
  std::vector<ChangeLogRef> logs(rollback_logs_.begin() + static_cast<std::ptrdiff_t>(first),
                                 rollback_logs_.end());
  if (std::ranges::count(logs, nullptr) > 0) logs.clear();
  return logs;
}

std::optional<HeldVersion> UpdateStore::find(const Hash128& hash) const {
  if (newest_ && newest_->hash == hash) return newest_;
  const std::size_t first = find_base(hash);
  return first < chain_.size() ? std::optional(chain_[first]->base()) : std::nullopt;
}

std::optional<HeldVersion> UpdateStore::find_version(std::uint64_t version) const {
  if (newest_ && newest_->version == version) return newest_;
  const std::size_t step = find_step(version);
  return step < chain_.size() ? std::optional(chain_[step]->base()) : std::nullopt;
}

std::size_t UpdateStore::find_step(std::uint64_t version) const {
  const auto found = std::ranges::find(chain_, version,
                                       [](const UpdateRef& each) { return each->base().version; });
  return static_cast<std::size_t>(found - chain_.begin());
}

std::optional<std::uint64_t> UpdateStore::version_after(std::uint64_t version) const {
  const std::size_t step = find_step(version);
  return step < chain_.size() ? std::optional(chain_[step]->commit.version) : std::nullopt;
}

void UpdateStore::keep_composed(const HeldVersion& held, UpdateRef composed) {
  std::erase_if(composed_, [&](const Composed& each) {
    if (each.base == held.hash) let_go(each.update);
    return each.base == held.hash;
  });
  if (composed != nullptr) note_made(*composed);
  composed_.push_back({held.hash, std::move(composed)});
  trim_composed();
}

// A composed update is of use as long as its base is in the chain, and the chain leads on from its
// target.
void UpdateStore::trim_composed() {
  std::erase_if(composed_, [&](const Composed& each) {
    const bool leads_on = each.update == nullptr || each.update->target() == *newest_ ||
                          find_base(each.update->commit.target_hash) != chain_.size();
    if (leads_on && find_base(each.base) != chain_.size()) return false;
    let_go(each.update);
    return true;
  });
  std::uint64_t bytes = 0;
  for (const Composed& each : composed_)
    bytes += each.update != nullptr ? each.update->commit.stream_bytes : 0;
  while (composed_.size() > kMaxComposed ||
         (!composed_.empty() && bytes > limits_.bytes / kComposedPart)) {
    bytes -=
        composed_.front().update != nullptr ? composed_.front().update->commit.stream_bytes : 0;
    let_go(composed_.front().update);
    composed_.pop_front();
  }
}

// The least that leads from here to the newest version.
UpdateStore::Step UpdateStore::step_in_chain(std::size_t first, std::uint64_t up_to) const {
  const Composed* composed = find_composed(chain_[first]->commit.base_hash);
  Step step{chain_[first]};
  if (up_to < newest_->version) return step;
  std::uint64_t least = bytes_since(first);
  if (composed != nullptr && composed->update != nullptr) {
    const HeldVersion target = composed->update->target();
    const std::uint64_t bytes = composed->update->commit.stream_bytes +
                                (target == *newest_ ? 0 : bytes_since(find_base(target.hash)));
    if (bytes < least) step = {composed->update, false, false, true};
    least = std::min(least, bytes);
  }
  if (anchor_is_less_than(first, least)) return {anchor_};
  const bool is_long =
      chain_.size() - first >= kMinComposed && bytes_since(first) >= limits_.bytes / kMinPart;
  step.may_be_composed = composed == nullptr && is_long && rollback_logs_[first] != nullptr;
  return step;
}

UpdateStore::Step UpdateStore::step_from(const HeldVersion& held, std::uint64_t up_to) const {
  if (!newest_ || held == *newest_) return {};
  if (held.hash == newest_->hash && label_ != nullptr) return {label_};
  // By the hash: the number is a label.
  if (const std::size_t first = find_base(held.hash); first < chain_.size())
    return step_in_chain(first, up_to);
  // A larger number is of an earlier publisher's; or, in a replica, of what is still to come here.
  const bool is_past = held.version >= newest_->version;
  if (label_ == nullptr && is_past && !has_newest_anchor()) return {};
  return step_by_anchor(is_past ? 0 : held.version);
}

bool UpdateStore::anchor_is_less_than(std::size_t first, std::uint64_t bytes) const {
  if (anchor_ == nullptr) return false;
  std::size_t next = chain_.size();  // the first after it
  if (!has_newest_anchor()) {
    while (next > first && chain_[next - 1]->base() != anchor_->target()) --next;
    if (next-- == first) return false;  // it leads to where the chain has been already
  }
  return next > first && anchor_->commit.stream_bytes + bytes_since(next) < bytes;
}

UpdateStore::Step UpdateStore::step_by_anchor(std::uint64_t after) const {
  if (!newest_) return {};
  if (anchor_ != nullptr && anchor_->commit.version > after) return {anchor_};
  return {nullptr, newest_->version > after};
}

bool UpdateStore::knows(const HeldVersion& held) const {
  const auto published =
      std::ranges::lower_bound(published_, held.version, {}, &HeldVersion::version);
  if (published != published_.end() && *published == held) return true;
  const auto leads_there = [&](const UpdateRef& each) {
    return each->target() == held || each->base() == held;
  };
  return newest_ == held || (anchor_ != nullptr && anchor_->target() == held) ||
         std::any_of(chain_.begin(), chain_.end(), leads_there);
}

}  // namespace sparcl::replication
