#include "src/aggregate/round/membership.hpp"

namespace sparcl::aggregate {

std::uint32_t Membership::join(WorkerId worker) {
  if (const auto known = slots_.find(worker); known != slots_.end()) return known->second;
  std::uint32_t slot = 0;
  for (const std::uint32_t taken : taken_) {
    if (taken != slot) break;
    ++slot;
  }
  taken_.insert(slot);
  slots_.emplace(worker, slot);
  return slot;
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
