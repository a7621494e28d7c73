#pragma once
// What the machine allows: as many bytes through a chain of hosts over plain sockets, each passing
// them on while they come. Nothing is kept, checked or hashed.

#include <cstdint>
#include <string>
#include <vector>

namespace sparcl::bench {

// Sends `bytes` to the first of the chain each round; seconds until the last has said that it has
// them, of each.
std::vector<double> send_down_bare_chain(const std::string& first, std::uint64_t bytes, int rounds);

// Takes connections at `listen` until the one that comes ends; passes on to `next`, unless that is
// empty.
void pass_on_in_bare_chain(const std::string& listen, const std::string& next, std::uint64_t bytes);

}  // namespace sparcl::bench
