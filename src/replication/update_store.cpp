#include "src/replication/update_store.hpp"

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
    const bool anchor_is_less = anchor_ != nullptr && anchor_->commit.stream_bytes < bytes_since(i);
    if (!anchor_is_less) return {chain_[i], false};
    break;
  }
  if (label_ == nullptr && held.version >= newest_->version) return {};
  return step_by_anchor();
}

UpdateStore::Step UpdateStore::step_by_anchor() const { return {anchor_, anchor_ == nullptr}; }

}  // namespace sparcl::replication
