#include "src/base/near_name.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace sparcl {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row[b.size()];
}

bool is_near_name(std::string_view given, std::string_view name) {
  if (given.size() > 2 && name.starts_with(given)) return true;
  const std::size_t distance = edit_distance(given, name);
  return distance <= 2 && distance < given.size();
}

}  // namespace sparcl
