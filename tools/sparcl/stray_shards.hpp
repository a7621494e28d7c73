#pragma once

#include <string>
#include <vector>

namespace sparcl::tool {

// Warns of files that are named like shards, lie in a checkpoint's folder, and are not in its
// index. They are another program's leftovers, or the index is out of date. Prints nothing if there
// are none.
void warn_of_strays(const std::vector<std::string>& paths);

}  // namespace sparcl::tool
