#include "src/replication/replica_slots.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sparcl::replication {
namespace {

constexpr std::string_view kHostWord = "host ", kNameWord = ", name ";

std::string slots_key(const ReplicaLabel& label) {
  return fmt::format("{}\n{}", label.host, label.name);
}

}  // namespace

ReplicaLabel label_of(std::string_view process) {
  ReplicaLabel label{"replica", std::string(process), 0};
  if (!process.starts_with(kHostWord)) return label;
  label.host = process.substr(kHostWord.size(), process.find(',') - kHostWord.size());
  const std::size_t name = process.find(kNameWord);
  if (name != std::string_view::npos && name + kNameWord.size() < process.size())
    label.name = process.substr(name + kNameWord.size());
  return label;
}

ReplicaLabel ReplicaSlots::take(const std::string& process, std::uint64_t id) {
  ReplicaLabel label = label_of(process);
  std::vector<Slot>& slots = slots_[slots_key(label)];
  auto found = std::ranges::find(slots, process, &Slot::process);
  if (found == slots.end()) found = std::ranges::find(slots, std::uint64_t{0}, &Slot::id);
  if (found == slots.end()) found = slots.emplace(slots.end());
  *found = {process, id};
  label.slot = static_cast<std::size_t>(found - slots.begin());
  return label;
}

void ReplicaSlots::give_back(const ReplicaLabel& label, std::uint64_t id) {
  const auto of_host = slots_.find(slots_key(label));
  if (of_host == slots_.end()) return;
  std::vector<Slot>& slots = of_host->second;
  if (label.slot < slots.size() && slots[label.slot].id == id) slots[label.slot].id = 0;
  while (!slots.empty() && slots.back().id == 0) slots.pop_back();
  if (slots.empty()) slots_.erase(of_host);
}

}  // namespace sparcl::replication
