#pragma once
// What messages and entries cost, measured once before the first call, so that tables of algorithms
// need no guess.

#include <string>

#include "src/comm/comm_context.hpp"

namespace sparcl::comm {

enum class LinkSource : std::uint8_t { kGuess, kMeasured, kStored };

// All ranks take part and get the same figures, those of the slowest; nothing where they are to be
// guessed. cost: what is stored, on entry. Mismatch where ranks differ in `source`. Each measures
// with the rank half the comm away, which is on another node where there are several and ranks fill
// them in turn: some 7 MiB a rank.
Task find_link_cost(const CommContext& comm, transport::Channel channel, LinkSource source,
                    std::optional<LinkCost>& cost);

// As write_link_cost() wrote them: a name and a number a line.
Result<LinkCost> read_link_cost(const std::string& path);
std::string write_link_cost(const LinkCost& cost);

}  // namespace sparcl::comm
