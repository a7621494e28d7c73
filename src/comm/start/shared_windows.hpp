#pragma once
// Ranks of one machine open each other's windows, once, before the first call.

#include <string>

#include "src/comm/comm_context.hpp"

namespace sparcl::comm {

// All ranks take part, also those that share with nobody. is_wanted: of this rank. Sets comm.window
// where some rank reads it. machine: where there are several to be simulated on this one, each has
// its name.
Task share_windows(CommContext& comm, transport::Channel channel, bool is_wanted,
                   std::string machine = {});

}  // namespace sparcl::comm
