#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sparcl::replication {

// Why a publisher ends a connection that the peer wants to keep.
enum class RefusalReason : std::uint8_t {
  kHandshake,  // no key, a wrong key, or a handshake that was not ended
  kRole,       // a message that the role of its secret may not send
  kMalformed,  // bytes that are no message, or a message out of place
  kMismatch,   // another protocol, model or list of tensors
  kBudget,     // no room in the budget of peers
  kSlots,      // no slot for a replica
  kCrowded,    // too many connections without a first message
  kSlow,       // no first message in time, or nothing taken of what it is sent
  kBackedOff,  // it has misbehaved
  kRetry,      // it is told to try again later: its epoch counts later, or an update was given up
  kOther,
};
constexpr std::array<const char*, 11> kRefusalNames{"handshake",  "role",  "malformed", "mismatch",
                                                    "budget",     "slots", "crowded",   "slow",
                                                    "backed_off", "retry", "other"};

// Counts of peers since this publisher began, for its status and its metrics.
struct PeerCounts {
  using ByReason = std::array<std::uint64_t, kRefusalNames.size()>;

  std::uint64_t lost = 0;     // replicas whose connections ended without a goodbye
  std::uint64_t refused = 0;  // connections that were told why they end
  std::uint64_t evicted = 0;  // connections that ended to make room for others
  std::uint64_t blamed = 0;   // times that a replica left its parent because the parent failed
  ByReason by_reason{};

  void count(RefusalReason reason) { ++by_reason[static_cast<std::size_t>(reason)]; }
};

}  // namespace sparcl::replication
