#pragma once
// Ranks of one machine open each other's windows, once, before the first call.

#include <string>

#include "src/comm/comm_context.hpp"

namespace sparcl::comm {

// All ranks take part, also those that share with no other. is_wanted: of this rank. Sets
// comm.window if some rank reads it. machine: the name of a simulated machine, if several are
// simulated on this one.
Task share_windows(CommContext& comm, transport::Channel channel, bool is_wanted,
                   std::string machine = {});

}  // namespace sparcl::comm
