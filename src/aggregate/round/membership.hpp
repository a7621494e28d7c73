#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "src/aggregate/round/contribution.hpp"

namespace sparcl::aggregate {

// What a worker asks for when it joins.
struct Seat {
  std::uint32_t number = 0;  // from 1 on: it has the slot of this number; 0: any other slot
  // Workers of one group are summed together: they get slots beside each other, in blocks of
  // kGroupSlots.
  std::uint64_t group = 0;
};

constexpr std::uint32_t kMaxNumber = 1 << 20;      // of a seat
constexpr std::uint32_t kNumberedSlots = 1 << 20;  // from here on; those without a number are below
constexpr std::uint32_t kGroupSlots = 64;          // heuristic: a power of the fan-in of sums

// The workers and their slots. A slot is a worker's place in the tree of sums. It stays the
// worker's until the round ends in which the worker leaves, unless another one asks for it by its
// number.
class Membership {
 public:
  // The worker's slot: the one that it has, else the one that it asks for, else the lowest free one
  // of its group's. Nothing: another member has the one that it asks for, or none is free.
  std::optional<std::uint32_t> join(WorkerId worker, const Seat& seat);
  // False if it was no member.
  bool leave(WorkerId worker);

  // The slots of workers that have left become free.
  void end_round();

  std::optional<std::uint32_t> slot_of(WorkerId worker) const;
  std::vector<WorkerId> members() const;

 private:
  std::uint32_t free_slot(std::uint64_t group) const;

  std::map<WorkerId, std::uint32_t> slots_;
  // By members, and by those that have left in this round; with their groups.
  std::map<std::uint32_t, std::uint64_t> taken_;
  std::set<std::uint32_t> leaving_;  // free at the round's end
};

}  // namespace sparcl::aggregate
