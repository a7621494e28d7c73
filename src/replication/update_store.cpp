#include "src/replication/update_store.hpp"

#include <algorithm>
#include <utility>

namespace sparcl::replication {

void UpdateStore::begin(UpdateRef label) {
  clear();
  newest_ = label->target();
  label_ = std::move(label);
}

void UpdateStore::add(UpdateRef delta, UpdateRef label) {
  bytes_ += delta->commit.stream_bytes;
  newest_ = label->target();
  label_ = std::move(label);
  chain_.push_back(std::move(delta));
  trim();
}

void UpdateStore::pass_on(UpdateRef update) {
  newest_ = update->target();
  if (update->commit.is_anchor) {
    chain_.clear();
    bytes_ = 0;
    anchor_ = std::move(update);
    return;
  }
  if (anchor_ != nullptr && anchor_->commit.stream_bytes > limits_.bytes) anchor_ = nullptr;
  const std::uint64_t bytes = update->commit.stream_bytes;
  while (!chain_.empty() && (chain_.size() >= limits_.updates || bytes_ + bytes > limits_.bytes)) {
    bytes_ -= chain_.front()->commit.stream_bytes;
    chain_.pop_front();
  }
  bytes_ += bytes;
  chain_.push_back(std::move(update));
}

void UpdateStore::take_back(const UpdateRef& update) {
  if (anchor_ == update) anchor_ = nullptr;
  if (!chain_.empty() && chain_.back() == update) {
    bytes_ -= update->commit.stream_bytes;
    chain_.pop_back();
  }
  newest_ = update->base();
}

void UpdateStore::clear() {
  chain_.clear();
  bytes_ = 0;
  anchor_ = label_ = nullptr;
  newest_.reset();
}

void UpdateStore::keep_incoming_only() {
  while (!chain_.empty() && chain_.front()->missing_bytes == 0) {
    bytes_ -= chain_.front()->commit.stream_bytes;
    chain_.pop_front();
  }
  if (anchor_ != nullptr && anchor_->missing_bytes == 0) anchor_ = nullptr;
}

void UpdateStore::trim() {
  while (!chain_.empty() && (chain_.size() > limits_.updates || bytes_ > limits_.bytes)) {
    bytes_ -= chain_.front()->commit.stream_bytes;
    chain_.pop_front();
  }
  // An anchor is of use as long as the chain leads on from it.
  if (anchor_ == nullptr || anchor_->target() == *newest_) return;
  for (const UpdateRef& each : chain_) {
    if (each->base() == anchor_->target()) return;
  }
  anchor_ = nullptr;
}

std::uint64_t UpdateStore::bytes_since(std::size_t first) const {
  std::uint64_t bytes = 0;
  for (std::size_t i = first; i < chain_.size(); ++i) bytes += chain_[i]->commit.stream_bytes;
  return bytes;
}

UpdateStore::Step UpdateStore::step_from(const HeldVersion& held) const {
  if (!newest_ || held == *newest_) return {};
  if (held.hash == newest_->hash && label_ != nullptr) return {label_, false};
  // By the hash: the number is a label. From the end, as a state may have come back.
  for (std::size_t i = chain_.size(); i-- > 0;) {
    if (chain_[i]->commit.base_hash != held.hash) continue;
    return anchor_is_less_than(i) ? Step{anchor_, false} : Step{chain_[i], false};
  }
  // A larger number is of an earlier publisher's; or, in a replica, of what is still to come here.
  const bool is_past = held.version >= newest_->version;
  if (label_ == nullptr && is_past && !has_newest_anchor()) return {};
  return step_by_anchor(is_past ? 0 : held.version);
}

bool UpdateStore::anchor_is_less_than(std::size_t first) const {
  if (anchor_ == nullptr) return false;
  std::size_t next = chain_.size();  // the first after it
  if (!has_newest_anchor()) {
    while (next > first && chain_[next - 1]->base() != anchor_->target()) --next;
    if (next-- == first) return false;  // it leads to where the chain has been already
  }
  return next > first && anchor_->commit.stream_bytes + bytes_since(next) < bytes_since(first);
}

UpdateStore::Step UpdateStore::step_by_anchor(std::uint64_t after) const {
  if (!newest_) return {};
  if (anchor_ != nullptr && anchor_->commit.version > after) return {anchor_, false};
  return {nullptr, newest_->version > after};
}

std::vector<HeldVersion> UpdateStore::versions_after(std::uint64_t version) const {
  std::vector<HeldVersion> found;
  const auto add = [&](const HeldVersion& each) {
    if (each.version > version && std::find(found.begin(), found.end(), each) == found.end()) found.push_back(each);
  };
  if (newest_) add(*newest_);
  if (anchor_ != nullptr) add(anchor_->target());
  for (std::size_t i = chain_.size(); i-- > 0 && chain_[i]->commit.version > version;) add(chain_[i]->target());
  return found;
}

bool UpdateStore::knows(const HeldVersion& held) const {
  const auto leads_there = [&](const UpdateRef& each) { return each->target() == held || each->base() == held; };
  return newest_ == held || (anchor_ != nullptr && anchor_->target() == held) ||
         std::any_of(chain_.begin(), chain_.end(), leads_there);
}

}  // namespace sparcl::replication
