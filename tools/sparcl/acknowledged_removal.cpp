#include "tools/sparcl/acknowledged_removal.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string_view>

#include "src/base/failpoint.hpp"
#include "src/base/files/atomic_file.hpp"
#include "src/base/files/file_reader.hpp"
#include "src/base/folder_list.hpp"
#include "src/base/remove_tree.hpp"
#include "tools/sparcl/acknowledgement.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/version_folder.hpp"

namespace sparcl::tool {
namespace {

constexpr std::string_view kHiddenSuffix = ".sparcl-removed", kIndexSuffix = ".index.json";

std::string path_in(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

// No link is a folder here.
bool is_real_folder(const std::string& path) {
  struct stat about;
  return ::lstat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

std::string hidden_name(std::uint64_t version) {
  return fmt::format(".{}{}", weight_folder_name(version), kHiddenSuffix);
}

bool is_hidden_version(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kHiddenSuffix)) return false;
  name.remove_prefix(1);
  name.remove_suffix(kHiddenSuffix.size());
  return weight_folder_version(name).has_value();
}

std::vector<std::string> names_or_none(const std::string& folder) {
  Result<std::vector<std::string>> names = names_in_folder(folder);
  return names.ok() ? std::move(*names) : std::vector<std::string>();
}

std::uint64_t bytes_of_files(const std::string& folder) {
  std::uint64_t bytes = 0;
  for (const std::string& name : names_or_none(folder)) {
    struct stat about;
    if (::lstat(path_in(folder, name).c_str(), &about) == 0 && S_ISREG(about.st_mode))
      bytes += static_cast<std::uint64_t>(about.st_size);
  }
  return bytes;
}

// The commit point goes first: if the machine fails and the folder has its old name again, it is no
// version.
void remove_hidden(const std::string& path) {
  for (const std::string& name : names_or_none(path)) {
    if (name.ends_with(kIndexSuffix)) (void)remove_tree(path_in(path, name).c_str());
  }
  if (!remove_tree(path.c_str()) && is_real_folder(path))
    print_warning(
        fmt::format("{}: it cannot be removed completely, and the next start tries again: check "
                    "the permissions of the folder",
                    path));
}

}  // namespace

void remove_hidden_versions(const std::string& folder) {
  for (const std::string& name : names_or_none(folder)) {
    const std::string path = path_in(folder, name);
    if (is_hidden_version(name) && is_real_folder(path)) remove_hidden(path);
  }
}

Status AcknowledgedRemoval::open() {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in_folder(folder_));
  for (const std::string& name : names) {
    const std::string path = path_in(folder_, name);
    const std::optional<std::uint64_t> version = weight_folder_version(name);
    if (!version || !is_real_folder(path)) continue;
    add(*version, is_complete_still(*version));
  }
  std::error_code error;
  std::filesystem::create_directory(acknowledgement_folder(folder_), error);
  if (!error) return {};
  return Status(Code::kSystemError, fmt::format("{}: the folder of acknowledgements cannot be "
                                                "made: {}",
                                                acknowledgement_folder(folder_), error.message()));
}

void AcknowledgedRemoval::warn(const std::string& key, const Status& why, double now) {
  if (const std::uint64_t times = troubles_.count(key, now); times > 0)
    print_warning(why.message() + times_text(times));
}

// A number that no version had is of an earlier run in this folder. It does not count when a
// version gets it either.
Result<std::uint64_t> AcknowledgedRemoval::acknowledged_by(const std::string& reader) {
  const std::string path = acknowledgement_path(folder_, reader);
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t version, read_acknowledgement(path));
  const std::uint64_t newest = versions_.empty() ? 0 : versions_.rbegin()->first;
  const auto found = too_large_.find(reader);
  const bool was_too_large = found != too_large_.end() && found->second == version;
  if (version <= newest && !was_too_large) {
    too_large_.erase(reader);
    return version;
  }
  too_large_[reader] = version;
  return Status(
      Code::kCorrupt,
      fmt::format("{}: it names version {}, which was above the newest version when it was "
                  "first read, so it does not count: let the reader acknowledge a later "
                  "version",
                  path, version));
}

// The lowest of all acknowledgements.
std::optional<std::uint64_t> AcknowledgedRemoval::acknowledged_by_all(bool tells, double now) {
  std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
  bool is_known = true;
  for (const std::string& reader : readers_) {
    const Result<std::uint64_t> version = acknowledged_by(reader);
    is_known = is_known && version.ok();
    if (version.ok()) {
      lowest = std::min(lowest, *version);
    } else if (tells) {
      const Status why = version.status().with_prefix(
          fmt::format("no version is removed until reader {} acknowledges one: ", reader));
      warn(fmt::format("{} {}", reader, static_cast<int>(why.code())), why, now);
    }
  }
  if (!is_known) return {};
  return lowest;
}

std::optional<std::uint64_t> AcknowledgedRemoval::newest_complete(std::uint64_t up_to) const {
  std::optional<std::uint64_t> found;
  for (const auto& [version, is_complete] : versions_) {
    if (is_complete && version <= up_to) found = version;
  }
  return found;
}

bool AcknowledgedRemoval::is_complete_still(std::uint64_t version) const {
  const std::string path = path_in(folder_, weight_folder_name(version));
  if (!is_real_folder(path)) return false;
  const std::optional<VersionFolder> found = find_version_folder(path);
  return found && !found->is_change;
}

// False: there is no such folder any more, or a link or a file has its name.
Result<bool> AcknowledgedRemoval::hide(std::uint64_t version) {
  const std::string path = path_in(folder_, weight_folder_name(version)),
                    hidden = path_in(folder_, hidden_name(version));
  if (!is_real_folder(path)) return false;
  (void)remove_tree(hidden.c_str());
  if (::rename(path.c_str(), hidden.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  return system_error(path, "it cannot be removed");
}

// The newest first, so that each version that is left has its base, also if the process is killed.
std::vector<std::uint64_t> AcknowledgedRemoval::hide_before(std::uint64_t first_kept, double now) {
  std::vector<std::uint64_t> hidden;
  while (!versions_.empty() && versions_.begin()->first < first_kept) {
    const auto last = std::prev(versions_.lower_bound(first_kept));
    const Result<bool> is_hidden = hide(last->first);
    if (!is_hidden.ok()) {
      warn("remove", is_hidden.status(), now);
      break;
    }
    if (*is_hidden) hidden.push_back(last->first);
    versions_.erase(last);
  }
  return hidden;
}

RemovedVersions AcknowledgedRemoval::remove(double now) {
  const std::optional<std::uint64_t> candidate =
      newest_complete(std::numeric_limits<std::uint64_t>::max());
  const bool has_old = candidate && versions_.begin()->first < *candidate;
  const std::optional<std::uint64_t> acknowledged = acknowledged_by_all(has_old, now);
  const std::optional<std::uint64_t> first_kept =
      acknowledged ? newest_complete(*acknowledged) : std::nullopt;
  RemovedVersions removed;
  if (!first_kept || versions_.begin()->first == *first_kept) return removed;
  if (!is_complete_still(*first_kept)) {
    versions_.erase(*first_kept);  // another program has removed it
    return removed;
  }
  const std::vector<std::uint64_t> hidden = hide_before(*first_kept, now);
  if (hidden.empty()) return removed;
  const Status synced = sync_folder_of(path_in(folder_, hidden_name(hidden.front())));
  if (!synced.ok()) warn("synchronise", synced, now);
  for (const std::uint64_t version : hidden) {
    SPARCL_FAILPOINT("layout.remove");
    const std::string path = path_in(folder_, hidden_name(version));
    removed.bytes += bytes_of_files(path);
    ++removed.versions;
    remove_hidden(path);
  }
  return removed;
}

}  // namespace sparcl::tool
