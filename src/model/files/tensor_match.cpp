#include "src/model/files/tensor_match.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace sparcl::model {

std::vector<std::size_t> match_tensors(const Schema& base, const Schema& target) {
  std::vector<std::size_t> by_name(base.size());
  std::iota(by_name.begin(), by_name.end(), std::size_t{0});
  std::sort(by_name.begin(), by_name.end(),
            [&](std::size_t a, std::size_t b) { return base[a].name < base[b].name; });

  std::vector<std::size_t> matches(target.size(), kNoBase);
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto found = std::lower_bound(
        by_name.begin(), by_name.end(), target[i].name,
        [&](std::size_t at, const std::string& name) { return base[at].name < name; });
    if (found == by_name.end() || base[*found].name != target[i].name) continue;
    if (file_type(base[*found]) != file_type(target[i])) continue;
    const Result<std::uint64_t> before = element_count(base[*found]);
    const Result<std::uint64_t> after = element_count(target[i]);
    if (before.ok() && after.ok() && *before == *after) matches[i] = *found;
  }
  return matches;
}

namespace {

std::vector<std::string_view> sorted_names(const Schema& schema) {
  std::vector<std::string_view> names;
  for (const TensorSchema& tensor : schema) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TensorChanges tensor_changes(const Schema& base, const Schema& target) {
  TensorChanges changes;
  const std::vector<std::string_view> before = sorted_names(base), after = sorted_names(target);
  const auto holds = [](const std::vector<std::string_view>& names, const std::string& name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  const std::vector<std::size_t> matches = match_tensors(base, target);
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (matches[i] != kNoBase) continue;
    (holds(before, target[i].name) ? changes.replaced : changes.added).push_back(target[i].name);
  }
  for (const TensorSchema& tensor : base) {
    if (!holds(after, tensor.name)) changes.removed.push_back(tensor.name);
  }
  return changes;
}

}  // namespace sparcl::model
