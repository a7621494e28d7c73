#pragma once
// What lies at the address of a store that has no version.

#include "src/base/status.hpp"
#include "src/store/version_chain.hpp"

namespace sparcl::tool {

// True: the store has versions. False: nothing lies there, or what a writer without a version has
// left. Corrupt: its records are gone. InvalidArgument: other files lie there, or stores below it.
Result<bool> has_versions(store::Chain& chain, const std::string& url);

// InvalidArgument: the store is empty, so nothing was `done`. Else as above.
Status check_has_versions(store::Chain& chain, const std::string& url, const char* done);

}  // namespace sparcl::tool
