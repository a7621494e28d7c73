#include "tools/sparcl/tensor_match.hpp"

#include <algorithm>
#include <numeric>

namespace sparcl::tool {

std::vector<std::size_t> match_tensors(const model::Schema& base, const model::Schema& target) {
  std::vector<std::size_t> by_name(base.size());
  std::iota(by_name.begin(), by_name.end(), std::size_t{0});
  std::sort(by_name.begin(), by_name.end(), [&](std::size_t a, std::size_t b) { return base[a].name < base[b].name; });

  std::vector<std::size_t> matches(target.size(), kNoBase);
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto found = std::lower_bound(by_name.begin(), by_name.end(), target[i].name,
                                        [&](std::size_t at, const std::string& name) { return base[at].name < name; });
    if (found == by_name.end() || base[*found].name != target[i].name || base[*found].datatype != target[i].datatype) continue;
    const Result<std::uint64_t> before = model::element_count(base[*found]);
    const Result<std::uint64_t> after = model::element_count(target[i]);
    if (before.ok() && after.ok() && *before == *after) matches[i] = *found;
  }
  return matches;
}

}  // namespace sparcl::tool
