#include "src/comm/place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/base/files/file_reader.hpp"
#include "src/base/settings.hpp"

namespace sparcl::comm {
namespace {

constexpr std::size_t kMaxNames = 1024;  // characters

std::string_view variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? std::string_view() : text;
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == ':';
}

// The first line of a file that each node has for itself, without blanks around it. Files of /proc
// and /sys have other sizes than they say, so it is read to its end.
Result<std::string> read_names(const std::string& path) {
  SPARCL_RETURN_IF_ERROR(FileReader::open(path).status());  // named pipes and folders are refused
  std::ifstream file(path);
  std::string line(kMaxNames + 1, '\0');
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(file.gcount()));
  line.resize(std::min(line.find_first_of("\r\n"), line.size()));
  constexpr const char* kBlanks = " \t";
  const std::size_t first = line.find_first_not_of(kBlanks);
  if (first == std::string::npos) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: its first line is empty: expected the names of the racks or "
                              "switches above this node, such as row1.rack7",
                              path));
  }
  return line.substr(first, line.find_last_not_of(kBlanks) + 1 - first);
}

Result<PlaceHashes> with_origin(Result<PlaceHashes> hashes, const std::string& where) {
  if (hashes.ok()) return hashes;
  return hashes.status().with_prefix("SPARCL_PLACE: " + where);
}

}  // namespace

Result<PlaceHashes> hash_place(std::string_view names) {
  PlaceHashes hashes{};
  if (names.empty()) return hashes;
  const bool has_names = names.front() != '.' && names.back() != '.' &&
                         names.find("..") == std::string_view::npos && names.size() <= kMaxNames;
  if (!has_names ||
      !std::ranges::all_of(names, [](char c) { return c == '.' || is_name_character(c); })) {
    return Status(Code::kInvalidArgument,
                  fmt::format("'{}' is no place: expected names with a dot between them, such as "
                              "row1.rack7, at most {} characters: letters, digits, '_', '-' and "
                              "':'; or the path of a file with them, which begins with /",
                              names.substr(0, kMaxNames), kMaxNames));
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
