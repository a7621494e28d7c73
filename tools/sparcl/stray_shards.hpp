#pragma once

#include <string>
#include <vector>

#include "src/model/checkpoint.hpp"

namespace sparcl::tool {

// Files that are named like shards, lie in the checkpoint's folder, and are not in its index: a
// shard that another program has left there, or an index that is not up to date.
std::vector<std::string> stray_paths(const model::Checkpoint& checkpoint);

// A warning that names them; nothing where there are none.
void warn_of_strays(const std::vector<std::string>& paths);

}  // namespace sparcl::tool
