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

// The first line of a file that each node has for itself, without blanks around it.
Result<std::string> read_names(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_file(path));
  std::string_view line(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  line = line.substr(0, line.find_first_of("\r\n"));
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = line.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: its first line is empty: expected the names of the racks or "
                              "switches above this node, such as row1.rack7",
                              path));
  }
  return std::string(line.substr(first, line.find_last_not_of(kBlanks) + 1 - first));
}

Result<PlaceHashes> with_origin(Result<PlaceHashes> hashes, const std::string& where) {
  if (hashes.ok()) return hashes;
  return hashes.status().with_prefix("SPARCL_PLACE: " + where);
}

}  // namespace

Result<PlaceHashes> hash_place(std::string_view names) {
  PlaceHashes hashes{};
  if (names.empty()) return hashes;
  if (names.front() == '.' || names.back() == '.' || names.find("..") != std::string_view::npos) {
    return Status(Code::kInvalidArgument,
                  fmt::format("'{}' is no place: expected names with a dot between them, such as "
                              "row1.rack7",
                              names));
  }
  std::size_t end = 0;
  for (std::uint64_t& hash : hashes) {
    if (end < names.size()) end = std::min(names.find('.', end + 1), names.size());
    hash = xxh3_64(std::as_bytes(std::span(names.substr(0, end))), 1);
  }
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
    return with_origin(hash_place(*names), given + ": ");
  }
  if (given != "auto") return with_origin(hash_place(given), "");
  const Result<PlaceHashes> slurms = hash_place(
      switches_in(variable("SLURM_TOPOLOGY_ADDR"), variable("SLURM_TOPOLOGY_ADDR_PATTERN")));
  return slurms.ok() ? *slurms : PlaceHashes();  // it is not the user's to mend
}

}  // namespace sparcl::comm
