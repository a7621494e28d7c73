#pragma once
// "model.safetensors.index.json": which file of a folder holds which tensor.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::model {

struct ShardIndex {
  std::vector<std::pair<std::string, std::string>>
      weight_map;                  // tensor name, file name; sorted by tensor name
  std::vector<std::string> files;  // sorted, each once
  // The strings in the object "metadata", in its order; other values in it are skipped.
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Checks untrusted JSON: an object whose "weight_map" gives each tensor a plain file name. Entries
// other than these two are skipped.
Result<ShardIndex> parse_shard_index(std::string_view json);

}  // namespace sparcl::model
