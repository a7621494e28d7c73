#pragma once
// A round of sparclSubscriberNextGroup: every rank learns what all ranks say of their versions, or
// the error of the first rank that refuses. The bytes have a meaning only to src/api.
//
// Cost: the agreement, and 2 ceil(log2 P) alpha at most for P small messages (small_gather).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/collective.hpp"

namespace sparcl::collectives::group {

extern const CollectiveDescriptor kSubscriberNextGroup;

struct VersionRound {
  Status refusal;                  // of this rank
  std::span<const std::byte> own;  // as many bytes on each rank
  std::vector<std::byte> all;      // written: those of all ranks, in their order
};

Task version_round(const CommContext& comm, std::uint32_t number, VersionRound& round,
                   CallReport& report);

}  // namespace sparcl::collectives::group
