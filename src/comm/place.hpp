#pragma once
// The place of a process in the cluster's network: the switches or racks above its node.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.hpp"

namespace sparcl::comm {

// Of each level, the widest first: a hash of the names down to it. A place with fewer names is in
// its last one on all further levels. 0: no names.
constexpr std::size_t kMaxPlaceLevels = 4;
using PlaceHashes = std::array<std::uint64_t, kMaxPlaceLevels>;

// names: the widest first, with dots between them, such as "row1.rack7". Names after
// the first kMaxPlaceLevels do not count.
Result<PlaceHashes> hash_place(std::string_view names);

// Slurm's words for the switches above this node, without the node itself (sbatch(1),
// SLURM_TOPOLOGY_ADDR); empty without a topology of switches. pattern: what each name is.
std::string_view switches_in(std::string_view address, std::string_view pattern);

// That of SPARCL_PLACE, or of Slurm.
Result<PlaceHashes> own_place();

}  // namespace sparcl::comm
