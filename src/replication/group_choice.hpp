#pragma once
// The version that a group of replicas shows together. Each member tells what it can show, and each
// decides alike by what all have told. No clock and no connection is here.
//
// The group shows the highest version that every member can show. Without one, the members that are
// behind want all updates up to the newest version that any member has. A member that shows nothing
// new gets no more than a few updates ahead, so that version stands still soon.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/replication/subscriber.hpp"

namespace sparcl::replication {

// One member's word: the shown version, and the last of those that it can show.
struct GroupMember {
  static constexpr std::size_t kMaxTold = 7;
  static constexpr std::size_t kBytes = (2 + 2 * (kMaxTold + 1)) * sizeof(std::uint64_t);

  Subscriber::Prepared can;
  bool is_out_of_time = false;
};

std::array<std::byte, GroupMember::kBytes> serialise(const GroupMember& member);
// Corrupt: these are no members.
Result<std::vector<GroupMember>> parse_group(std::span<const std::byte> all);

struct GroupChoice {
  enum class Next : std::uint8_t { kWait, kCommit, kGiveUp };
  Next next = Next::kWait;
  PreparedVersion version;  // kCommit: it is shown; else it is wanted. Version 0: no member has one
};
GroupChoice choose(std::span<const GroupMember> members);

}  // namespace sparcl::replication
