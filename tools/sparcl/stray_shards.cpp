#include "tools/sparcl/stray_shards.hpp"

#include <fmt/format.h>

#include "src/base/shown_text.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {

void warn_of_strays(const std::vector<std::string>& paths) {
  constexpr std::size_t kMaxNamed = 3;
  if (paths.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < paths.size() && i < kMaxNamed; ++i)
    names += (i == 0 ? "" : ", ") + shown(paths[i]);
  if (paths.size() > kMaxNamed) names += fmt::format(" and {} more", paths.size() - kMaxNamed);
  print_warning(
      fmt::format("{}: not in the folder's index, and so no part of the checkpoint: remove what is "
                  "stale, or make the index anew",
                  names));
}

}  // namespace sparcl::tool
