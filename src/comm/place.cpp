#include "src/comm/place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/base/files/file_reader.hpp"
#include "src/base/settings.hpp"

namespace sparcl::comm {
namespace {

std::string_view variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? std::string_view() : text;
}

// The first line of a file that each node has for itself.
Result<std::string> read_names(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_file(path));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::string(text.substr(0, text.find_first_of("\r\n")));
}

}  // namespace

Result<PlaceHashes> hash_place(std::string_view names) {
  PlaceHashes hashes{};
  if (names.empty()) return hashes;
  if (names.front() == '.' || names.back() == '.' || names.find("..") != std::string_view::npos) {
    return Status(Code::kInvalidArgument,
                  fmt::format("SPARCL_PLACE is '{}': expected names with a dot between them, such "
                              "as row1.rack7",
                              names));
  }
  const auto count = static_cast<std::size_t>(std::ranges::count(names, '.')) + 1;
  const std::size_t joined = count > kMaxPlaceLevels ? count - kMaxPlaceLevels : 0;
  std::size_t end = 0;
  for (std::size_t name = 0; name < count; ++name) {
    end = std::min(names.find('.', end + 1), names.size());
    if (name < joined) continue;
    hashes[name - joined] = xxh3_64(std::as_bytes(std::span(names.substr(0, end))), 1);
  }
  for (std::size_t level = count; level < kMaxPlaceLevels; ++level)
    hashes[level] = hashes[level - 1];
  return hashes;
}

std::string_view switches_in(std::string_view address, std::string_view pattern) {
  const std::size_t last = pattern.rfind('.'), node = address.rfind('.');
  if (last == std::string_view::npos || node == std::string_view::npos) return {};
  const bool are_switches = pattern.substr(last + 1) == "node" && pattern.starts_with("switch") &&
                            std::ranges::count(pattern, '.') == std::ranges::count(address, '.');
  return are_switches ? address.substr(0, node) : std::string_view();
}

Result<PlaceHashes> own_place() {
  const std::string given = setting("PLACE").text;
  if (given == "none") return PlaceHashes();
  if (given.starts_with('/')) {
    const Result<std::string> names = read_names(given);
    if (!names.ok()) return names.status().with_prefix("SPARCL_PLACE: ");
    return hash_place(*names);
  }
  if (given != "auto") return hash_place(given);
  const Result<PlaceHashes> slurms = hash_place(
      switches_in(variable("SLURM_TOPOLOGY_ADDR"), variable("SLURM_TOPOLOGY_ADDR_PATTERN")));
  return slurms.ok() ? *slurms : PlaceHashes();  // it is not the user's to mend
}

}  // namespace sparcl::comm
