#include "src/replication/update_store.hpp"

#include <utility>

namespace sparcl::replication {

void UpdateStore::begin(UpdateRef label) {
  chain_.clear();
  bytes_ = 0;
  anchor_ = nullptr;
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
  if (held.hash == newest_->hash) return {label_, false};
  // By the hash: the number is a label. From the end, as a state may have come back.
  for (std::size_t i = chain_.size(); i-- > 0;) {
    if (chain_[i]->commit.base_hash != held.hash) continue;
    const bool anchor_is_less = anchor_ != nullptr && anchor_->commit.stream_bytes < bytes_since(i);
    if (!anchor_is_less) return {chain_[i], false};
    break;
  }
  return step_by_anchor();
}

UpdateStore::Step UpdateStore::step_by_anchor() const { return {anchor_, anchor_ == nullptr}; }

}  // namespace sparcl::replication
