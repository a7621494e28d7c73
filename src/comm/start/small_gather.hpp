#pragma once

#include <span>
#include <vector>

#include "src/comm/engine/engine.hpp"

namespace sparcl::comm {

// All ranks give equally many bytes, few of them, and get those of all ranks, in the order of ranks
// (Bruck et al., IEEE TPDS 1997): ceil(log2 P) messages. `own` outlives the task.
Task small_gather(Engine& engine, transport::Channel channel, std::span<const std::byte> own,
                  std::vector<std::byte>& all);

}  // namespace sparcl::comm
