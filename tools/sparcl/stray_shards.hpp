#pragma once

#include <string>
#include <vector>

namespace sparcl::tool {

// A warning that names files that are named like shards, lie in a checkpoint's folder, and are not
// in its index: a shard that another program has left there, or an index that is not up to date.
// Nothing where there are none.
void warn_of_strays(const std::vector<std::string>& paths);

}  // namespace sparcl::tool
