#include "src/aggregate/round/membership.hpp"

namespace sparcl::aggregate {

std::optional<std::uint32_t> Membership::join(WorkerId worker, const Seat& seat) {
  if (const auto known = slots_.find(worker); known != slots_.end()) return known->second;
  std::uint32_t slot = 0;
  if (seat.number > 0) {
    slot = kNumberedSlots + seat.number - 1;
    const bool is_left = leaving_.erase(slot) > 0;
    if (taken_.contains(slot) && !is_left) return std::nullopt;
  } else {
    slot = free_slot(seat.group);
    if (slot >= kNumberedSlots) return std::nullopt;
  }
  taken_[slot] = seat.group;
  slots_.emplace(worker, slot);
  return slot;
}

// The lowest free slot of the blocks in which all slots that are taken are the group's.
std::uint32_t Membership::free_slot(std::uint64_t group) const {
  for (std::uint32_t first = 0;; first += kGroupSlots) {
    std::uint32_t free = first;
    bool is_own = true;
    const auto end = taken_.lower_bound(first + kGroupSlots);
    for (auto taken = taken_.lower_bound(first); taken != end; ++taken) {
      is_own = is_own && taken->second == group;
      free += taken->first == free ? 1 : 0;
    }
    if (is_own && free < first + kGroupSlots) return free;
  }
}

bool Membership::leave(WorkerId worker) {
  const auto known = slots_.find(worker);
  if (known == slots_.end()) return false;
  leaving_.insert(known->second);
  slots_.erase(known);
  return true;
}

void Membership::end_round() {
  for (const std::uint32_t slot : leaving_) taken_.erase(slot);
  leaving_.clear();
}

std::optional<std::uint32_t> Membership::slot_of(WorkerId worker) const {
  const auto known = slots_.find(worker);
  if (known == slots_.end()) return std::nullopt;
  return known->second;
}

std::vector<WorkerId> Membership::members() const {
  std::vector<WorkerId> all;
  for (const auto& [worker, slot] : slots_) all.push_back(worker);
  return all;
}

}  // namespace sparcl::aggregate
