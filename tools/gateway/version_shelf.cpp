#include "tools/gateway/version_shelf.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "src/net/socket.hpp"

namespace sparcl::gateway {
namespace {

constexpr double kEndLookSeconds = 0.1;  // between two looks at whether the process is to end

}  // namespace

Result<VersionShelf::Shown> VersionShelf::show(const model::HeldVersion& version,
                                               const std::function<bool()>& is_over) {
  const std::optional<model::HeldVersion> before = newest();
  if (!before) {
    SPARCL_RETURN_IF_ERROR(fill_mirror(version));
    return Shown();
  }
  SPARCL_ASSIGN_OR_RETURN(
      const VersionStepRef step,
      make_step(memory_, mirror_.arrays(), {*before, version}, limits_.chunk_bytes));
  keep(step, version);
  tell();
  if (!wait_for_readers(is_over)) return Shown();
  bring_mirror_forward(step);
  tell();
  if (step == nullptr) return Shown();
  return Shown{step->changed, step->plain.bytes, step->coded.bytes, true};
}

Status VersionShelf::fill_mirror(const model::HeldVersion& version) {
  SPARCL_RETURN_IF_ERROR(mirror_.take(*memory_.view().map, memory_.view().arrays));
  {
    const std::lock_guard lock(mutex_);
    newest_ = mirrored_ = version;
    ++era_;
  }
  tell();
  return {};
}

// Steps that no longer lead to the newest version are of no use.
void VersionShelf::keep(const VersionStepRef& step, const model::HeldVersion& version) {
  const std::lock_guard lock(mutex_);
  newest_ = version;
  is_writing_ = true;
  while (step == nullptr && !steps_.empty()) drop_oldest();
  if (step == nullptr) return;
  steps_.push_back(step);
  step_bytes_ += step->bytes();
  while (steps_.size() > limits_.steps || (steps_.size() > 1 && step_bytes_ > limits_.bytes))
    drop_oldest();
}

void VersionShelf::drop_oldest() {
  steps_.front()->revoked_at = net::monotonic_seconds() + limits_.patience_s;
  step_bytes_ -= steps_.front()->bytes();
  steps_.pop_front();
}

// False: the process is to end.
bool VersionShelf::wait_for_readers(const std::function<bool()>& is_over) {
  const double deadline = net::monotonic_seconds() + limits_.patience_s;
  std::unique_lock lock(mutex_);
  while (readers_ > 0) {
    if (is_over()) return false;
    const double left = deadline - net::monotonic_seconds();
    if (left <= 0 && revoked_era_ < era_) {
      revoked_era_ = era_;
      lock.unlock();
      tell();
      lock.lock();
      continue;
    }
    const double pause = left > 0 ? std::min(left, kEndLookSeconds) : kEndLookSeconds;
    left_.wait_for(lock, std::chrono::duration<double>(pause));
  }
  return true;
}

// No lease begins meanwhile (is_writing_).
void VersionShelf::bring_mirror_forward(const VersionStepRef& step) {
  if (step != nullptr) {
    write_step(*step, memory_.schema(), mirror_.arrays());
  } else {
    for (std::size_t i = 0; i < memory_.tensors().size(); ++i) {
      const std::size_t bytes = memory_.view().map->arrays()[i].bytes();
      if (bytes > 0) std::memcpy(mirror_.arrays()[i], memory_.tensors()[i], bytes);
    }
  }
  const std::lock_guard lock(mutex_);
  mirrored_ = newest_;
  is_writing_ = false;
  ++era_;
}

void VersionShelf::tell() const {
  if (news_) news_();
}

std::optional<model::HeldVersion> VersionShelf::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

// The last one, so that steps which lead back to a state are left out.
std::size_t VersionShelf::first_step_from(const Hash128& held) const {
  std::size_t first = steps_.size();
  while (first > 0 && steps_[first - 1]->base.hash != held) --first;
  return first == 0 ? steps_.size() : first - 1;
}

// nullptr: an anchor is needed, or is shorter.
ShipmentRef VersionShelf::step_for(const Wish& wish) const {
  const std::size_t first = first_step_from(wish.held->hash);
  if (first == steps_.size()) return nullptr;
  std::uint64_t bytes = 0;
  for (std::size_t i = first; i < steps_.size(); ++i) bytes += steps_[i]->of(wish.form).bytes;
  if (bytes > memory_.byte_count() && !is_writing_) return nullptr;
  return std::make_unique<StepShipment>(steps_[first], wish.form, wish.filter);
}

ShipmentRef VersionShelf::anchor_for(const Wish& wish) {
  if (is_writing_) return nullptr;
  const auto is_revoked = [this, era = era_] {
    const std::lock_guard lock(mutex_);
    return revoked_era_ >= era;
  };
  AnchorPlan plan(*memory_.view().map, wish.filter, limits_.chunk_bytes);
  auto made = std::make_unique<AnchorShipment>(
      *mirrored_, std::move(plan), memory_.schema(),
      AnchorShipment::Lease{mirror_.arrays(), is_revoked, [this] { end_lease(); }});
  ++readers_;
  return made;
}

void VersionShelf::end_lease() {
  const std::lock_guard lock(mutex_);
  --readers_;
  left_.notify_all();
}

ShipmentRef VersionShelf::next_for(const Wish& wish) {
  const std::lock_guard lock(mutex_);
  if (!newest_) return nullptr;
  if (wish.held && !wish.wants_anchor) {
    if (*wish.held == *newest_) return nullptr;
    if (wish.held->hash == newest_->hash)
      return std::make_unique<LabelShipment>(*newest_, *wish.held, wish.form);
    if (ShipmentRef step = step_for(wish)) return step;
  }
  return anchor_for(wish);
}

}  // namespace sparcl::gateway
