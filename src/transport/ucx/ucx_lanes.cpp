#include "src/transport/ucx/ucx_lanes.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace sparcl::transport {
namespace {

std::string printed(ucp_ep_h endpoint) {
  char* bytes = nullptr;
  std::size_t count = 0;
  std::FILE* file = ::open_memstream(&bytes, &count);
  if (file == nullptr) return {};
  ucp_ep_print_info(endpoint, file);
  std::fclose(file);
  std::string text(bytes, count);
  std::free(bytes);
  return text;
}

// The lane of a line: "posix/memory" in "#   lane[0]:  2:posix/memory.0 md[2]  -> ...".
std::string_view lane_in(std::string_view line) {
  const std::size_t lane = line.find("lane["), colon = line.find("]:", lane);
  if (lane == std::string_view::npos || colon == std::string_view::npos) return {};
  const std::size_t name = line.find(':', colon + 2);
  if (name == std::string_view::npos) return {};
  line.remove_prefix(name + 1);
  return line.substr(0, line.find_first_of(". "));
}

}  // namespace

std::string lanes_of(ucp_ep_h endpoint) {
  const std::string text = printed(endpoint);
  std::string lanes;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view lane = lane_in(rest.substr(0, end));
    if (!lane.empty()) lanes.append(lanes.empty() ? "" : ", ").append(lane);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return lanes;
}

}  // namespace sparcl::transport
