#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "src/aggregate/round/contribution.hpp"

namespace sparcl::aggregate {

// The state of a contribution. It is in one of these states for good, but for kListed, which
// becomes kCommitted or kRefused when its round ends.
enum class Fate : std::uint8_t { kListed, kCommitted, kRefused };

struct FateNote {
  Fate fate = Fate::kListed;
  std::uint64_t in_round = 0;  // the round that lists it, or refused it
};

// The fates of the contributions of the last rounds: each counts once, however often it arrives.
class FateBook {
 public:
  std::optional<FateNote> find(const ContributionId& id) const;
  void note(const ContributionId& id, const FateNote& note) { notes_[id.round][id.worker] = note; }
  void erase(const ContributionId& id);

  // Contributions to rounds before `round` are forgotten.
  void forget_before(std::uint64_t round);

 private:
  std::map<std::uint64_t, std::map<WorkerId, FateNote>> notes_;
};

}  // namespace sparcl::aggregate
