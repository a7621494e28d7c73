#include "src/elastic/branch_book.hpp"

#include <algorithm>

namespace sparcl::elastic {

using aggregate::ContributionId;

void BranchBook::note(const aggregate::Listed& listed, BranchId branch) {
  rounds_[listed.id.round + listed.rounds_late][{listed.rounds_late, listed.slot}] = {listed.id,
                                                                                      branch};
}

std::optional<BranchBook::Where> BranchBook::find(const ContributionId& id) const {
  for (const auto& [round, entries] : rounds_) {
    for (const auto& [place, entry] : entries) {
      if (entry.id == id) return Where{round, entry.branch};
    }
  }
  return std::nullopt;
}

void BranchBook::forget(const ContributionId& id) {
  for (auto& [round, entries] : rounds_)
    std::erase_if(entries, [&](const auto& each) { return each.second.id == id; });
  std::erase_if(rounds_, [](const auto& each) { return each.second.empty(); });
}

std::size_t BranchBook::listed(std::uint64_t round) const {
  const auto found = rounds_.find(round);
  return found == rounds_.end() ? 0 : found->second.size();
}

std::vector<BranchBook::Place> BranchBook::places_of(std::uint64_t round, BranchId branch) const {
  std::vector<Place> places;
  const auto found = rounds_.find(round);
  if (found == rounds_.end()) return places;
  for (const auto& [place, entry] : found->second) {
    if (entry.branch == branch) places.push_back(place);
  }
  return places;
}

std::set<BranchId> BranchBook::branches_of(std::uint64_t round) const {
  std::set<BranchId> branches;
  const auto found = rounds_.find(round);
  if (found == rounds_.end()) return branches;
  for (const auto& [place, entry] : found->second) {
    if (entry.branch != kNoBranch) branches.insert(entry.branch);
  }
  return branches;
}

std::vector<Collect::Span> BranchBook::spans_of(std::uint64_t round, BranchId branch) const {
  std::vector<Collect::Span> all;
  const auto found = rounds_.find(round);
  if (found == rounds_.end()) return all;
  for (const auto& [place, entry] : found->second) {
    if (all.empty() || all.back().rounds_late != place.first)
      all.push_back({place.first, aggregate::kAllSlots});
  }
  return spans_of(round, branch, all);
}

std::vector<Collect::Span> BranchBook::spans_of(std::uint64_t round, BranchId branch,
                                                std::span<const Collect::Span> outer) const {
  std::vector<Collect::Span> spans;
  const auto found = rounds_.find(round);
  if (found == rounds_.end()) return spans;
  for (const auto& [late, slots] : outer) {
    const Place first{late, static_cast<std::uint32_t>(slots.first)};
    const Place end{late, static_cast<std::uint32_t>(slots.end)};
    std::uint64_t from = slots.first;  // after the last slot of somebody else
    bool is_inside = false;
    const auto last = found->second.lower_bound(end);
    for (auto at = found->second.lower_bound(first); at != last; ++at) {
      const std::uint64_t slot = at->first.second;
      if (at->second.branch == branch) {
        is_inside = true;
        continue;
      }
      if (std::exchange(is_inside, false)) spans.push_back({late, {from, slot}});
      from = slot + 1;
    }
    if (is_inside) spans.push_back({late, {from, slots.end}});
  }
  return spans;
}

void BranchBook::delivered(std::uint64_t round, BranchId branch) {
  const auto found = rounds_.find(round);
  if (found == rounds_.end()) return;
  for (auto& [place, entry] : found->second) {
    if (entry.branch == branch) entry.branch = kNoBranch;
  }
}

std::vector<ContributionId> BranchBook::lose(BranchId branch) {
  std::vector<ContributionId> lost;
  std::size_t most = 0;
  for (const auto& [round, entries] : rounds_) most += entries.size();
  lost.reserve(most);  // memory that runs out must not lose an entry half
  for (auto& [round, entries] : rounds_) {
    std::erase_if(entries, [&](const auto& each) {
      if (each.second.branch == branch) lost.push_back(each.second.id);
      return each.second.branch == branch;
    });
  }
  std::erase_if(rounds_, [](const auto& each) { return each.second.empty(); });
  return lost;
}

}  // namespace sparcl::elastic
