#include "src/elastic/branch_book.hpp"

#include <algorithm>

namespace sparcl::elastic {

using aggregate::ContributionId;

void BranchBook::note(const aggregate::Listed& listed, BranchId branch) {
  rounds_[listed.id.round + listed.rounds_late][{listed.rounds_late, listed.slot}] = {listed,
                                                                                      branch};
}

bool BranchBook::is_taken(const aggregate::Listed& listed) const {
  const auto found = rounds_.find(listed.id.round + listed.rounds_late);
  if (found == rounds_.end()) return false;
  const auto entry = found->second.find({listed.rounds_late, listed.slot});
  return entry != found->second.end() && entry->second.listed.id != listed.id;
}

std::optional<BranchBook::Where> BranchBook::find(const ContributionId& id) const {
  for (const auto& [round, entries] : rounds_) {
    for (const auto& [place, entry] : entries) {
      if (entry.listed.id == id) return Where{round, entry.branch, entry.listed};
    }
  }
  return std::nullopt;
}

void BranchBook::forget(const ContributionId& id) {
  for (auto& [round, entries] : rounds_)
    std::erase_if(entries, [&](const auto& each) { return each.second.listed.id == id; });
  std::erase_if(rounds_, [](const auto& each) { return each.second.empty(); });
}

void BranchBook::forget(const aggregate::Listed& listed) {
  const auto found = rounds_.find(listed.id.round + listed.rounds_late);
  if (found == rounds_.end()) return;
  const auto entry = found->second.find({listed.rounds_late, listed.slot});
  if (entry == found->second.end() || entry->second.listed.id != listed.id) return;
  found->second.erase(entry);
  if (found->second.empty()) rounds_.erase(found);
}

std::vector<aggregate::Listed> BranchBook::listed(std::uint64_t round) const {
  std::vector<aggregate::Listed> all;
  const auto found = rounds_.find(round);
  if (found == rounds_.end()) return all;
  for (const auto& [place, entry] : found->second) all.push_back(entry.listed);
  return all;
}

bool BranchBook::has_some(std::uint64_t round, BranchId branch, std::uint64_t rounds_late,
                          const aggregate::Subtree& subtree) const {
  const auto found = rounds_.find(round);
  if (found == rounds_.end()) return false;
  const auto& entries = found->second;
  for (auto at = entries.lower_bound({rounds_late, subtree.first}); at != entries.end(); ++at) {
    if (at->first.first != rounds_late || at->first.second >= subtree.end()) return false;
    if (at->second.branch == branch) return true;
  }
  return false;
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
    std::uint64_t from = slots.first;  // after the last slot of another aggregator
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

std::vector<aggregate::Listed> BranchBook::all_of(BranchId branch) const {
  std::vector<aggregate::Listed> all;
  for (const auto& [round, entries] : rounds_) {
    for (const auto& [place, entry] : entries) {
      if (entry.branch == branch) all.push_back(entry.listed);
    }
  }
  return all;
}

}  // namespace sparcl::elastic
