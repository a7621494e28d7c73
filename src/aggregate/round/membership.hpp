#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "src/aggregate/round/contribution.hpp"

namespace sparcl::aggregate {

// The workers and their slots. A slot is a worker's place in the tree of sums. It stays the
// worker's until the round ends in which the worker leaves.
class Membership {
 public:
  // The worker's slot: the one that it has, else the lowest free one.
  std::uint32_t join(WorkerId worker);
  // False if it was no member.
  bool leave(WorkerId worker);

  // The slots of workers that have left become free.
  void end_round();

  std::optional<std::uint32_t> slot_of(WorkerId worker) const;
  std::vector<WorkerId> members() const;

 private:
  std::map<WorkerId, std::uint32_t> slots_;
  std::set<std::uint32_t> taken_;    // by members, and by those that have left in this round
  std::set<std::uint32_t> leaving_;  // free at the round's end
};

}  // namespace sparcl::aggregate
