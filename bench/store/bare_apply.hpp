#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

// Seconds that the update to version `number` of a store of one bf16 tensor takes with its bytes in
// memory: checked by its base's and target's hashes, and written. held: the version before it,
// which becomes the version.
double bare_apply_s(const std::string& url, std::uint64_t number, std::vector<std::uint16_t>& held);

}  // namespace bench
