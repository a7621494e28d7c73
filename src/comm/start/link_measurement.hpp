#pragma once
// The cost of messages and entries, measured once before the first call, so that tables of
// algorithms need no estimate.

#include <string>

#include "src/comm/comm_context.hpp"

namespace sparcl::comm {

enum class LinkSource : std::uint8_t { kGuess, kMeasured, kStored };

// All ranks take part and get the same figures, those of the slowest rank; nothing if the cost is
// to be estimated. cost: the stored figures, on entry. Mismatch if ranks differ in `source`. Each
// rank measures with the rank half the communicator away, and sends some 7 MiB. With several nodes
// that ranks fill in turn, that rank is on another node.
Task find_link_cost(const CommContext& comm, transport::Channel channel, LinkSource source,
                    std::optional<LinkCost>& cost);

// Reads the format of write_link_cost(): a name and a number a line.
Result<LinkCost> read_link_cost(const std::string& path);
std::string write_link_cost(const LinkCost& cost);

}  // namespace sparcl::comm
