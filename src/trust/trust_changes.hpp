#pragma once
// Changes to a file of trusted keys (TrustedKeys), which programs may read at any time.

#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::trust {

// Removes the keys with these fingerprints, adds those of these .pub files, and replaces the file
// as a whole. Comments stay. A file that is not there yet begins empty. An error, and nothing is
// changed: a fingerprint is of no key there, or no key would be left.
Status change_trusted_keys(const std::string& path, const std::vector<std::string>& add,
                           const std::vector<std::string>& remove);

}  // namespace sparcl::trust
