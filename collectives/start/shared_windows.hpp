#pragma once
// Ranks of one machine open each other's windows, once, before the first call.

#include "collectives/comm_context.hpp"

namespace sparcl::collectives {

// All ranks take part, also those that share with nobody. is_wanted: of this rank. Sets comm.window where some rank reads it.
Task share_windows(CommContext& comm, Channel channel, bool is_wanted);

}  // namespace sparcl::collectives
