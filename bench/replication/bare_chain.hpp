#pragma once
// The machine's limit: as many bytes through a chain of hosts over plain sockets, each passing them
// on as they come. Nothing is kept, checked or hashed.

#include <cstdint>
#include <string>
#include <vector>

namespace sparcl::bench {

// Sends `bytes` to the first host of the chain each round. Returns each round's seconds until the
// last host has confirmed them.
std::vector<double> send_down_bare_chain(const std::string& first, std::uint64_t bytes, int rounds);

// Accepts connections at `listen`, and passes their bytes on to `next`, unless it is empty. Returns
// when a connection ends.
void pass_on_in_bare_chain(const std::string& listen, const std::string& next, std::uint64_t bytes);

}  // namespace sparcl::bench
