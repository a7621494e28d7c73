#include "src/aggregate/round/fate_book.hpp"

namespace sparcl::aggregate {

std::optional<FateNote> FateBook::find(const ContributionId& id) const {
  const auto round = notes_.find(id.round);
  if (round == notes_.end()) return std::nullopt;
  const auto note = round->second.find(id.worker);
  if (note == round->second.end()) return std::nullopt;
  return note->second;
}

void FateBook::erase(const ContributionId& id) {
  if (const auto round = notes_.find(id.round); round != notes_.end())
    round->second.erase(id.worker);
}

void FateBook::forget_before(std::uint64_t round) {
  notes_.erase(notes_.begin(), notes_.lower_bound(round));
}

}  // namespace sparcl::aggregate
