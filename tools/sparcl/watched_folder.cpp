#include "tools/sparcl/watched_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "src/base/folder_list.hpp"
#include "src/model/checkpoint.hpp"

namespace sparcl::tool {

namespace fs = std::filesystem;

namespace {

constexpr double kToldSeconds = 1;  // after this time a file that delays others is reported

}  // namespace

std::optional<FileMark> mark_of(const std::string& path) {
  struct stat about;
  if (::stat(path.c_str(), &about) != 0) return std::nullopt;
  return FileMark{about.st_dev, about.st_ino, static_cast<std::uint64_t>(about.st_size),
                  about.st_ctim.tv_sec * std::int64_t{1'000'000'000} + about.st_ctim.tv_nsec};
}

WatchedFolder::Entry WatchedFolder::met(const FileMark& mark, bool is_file, const Entry* known,
                                        double now) const {
  if (known != nullptr && known->mark == mark) return *known;
  Entry entry{mark, now, now, is_file, {}, false, false, false, {}};
  const bool is_same_file =
      known != nullptr && known->mark.device == mark.device && known->mark.inode == mark.inode;
  if (!is_same_file) return entry;  // another file of this name
  entry.is_given_up = known->is_given_up;
  if (!known->is_done) entry.first_seen = known->first_seen;
  entry.is_told = known->is_told;
  return entry;
}

// An unchanged folder is not read again: its index may be large.
std::optional<VersionFolder> WatchedFolder::folder_at(const std::string& path, const Entry* known) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {};
  const bool is_same = known != nullptr && known->folder &&
                       mark_of(known->folder->marker) == std::optional(known->mark);
  return is_same ? known->folder : find_version_folder(path);
}

// The marker is its writer's last file, so a folder may lack it for a while.
void WatchedFolder::note_unmarked(const std::string& path, double now) {
  const std::string_view marker = awaited_marker(path);
  if (marker.empty()) return;
  const auto [seen, is_new] = unmarked_.emplace(path, now);
  if (is_new || now - seen->second < times_.patience_s) return;
  seen->second = std::numeric_limits<double>::infinity();
  notes_.push_back(
      fmt::format("{}: it has a model, but waits for the file {}, which writers of folders of this "
                  "name make last: make it, or give the folder another name",
                  path, marker));
}

// Lists the present files and folders, with what is known of them.
Status WatchedFolder::list(std::map<std::string, Entry, NumberOrder>& entries, double now) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in_folder(path_));
  for (const std::string& name : names) {
    if (name.starts_with('.')) continue;
    const std::string path = (fs::path(path_) / name).string();
    std::error_code ignored;
    const auto known = entries_.find(path);
    std::optional<VersionFolder> folder =
        folder_at(path, known == entries_.end() ? nullptr : &known->second);
    if (!folder) note_unmarked(path, now);
    if (!folder && !name.ends_with(model::kShardSuffix)) continue;
    std::optional<FileMark> mark = mark_of(folder ? folder->marker : path);
    const bool is_dead_link = !mark && fs::is_symlink(path, ignored);
    if (is_dead_link) mark = FileMark{};  // no file has this mark
    if (!mark) continue;                  // removed meanwhile
    Entry entry = met(*mark, folder || fs::is_regular_file(path, ignored),
                      known == entries_.end() ? nullptr : &known->second, now);
    entry.folder = std::move(folder);
    entries.emplace(path, std::move(entry));
  }
  return {};
}

// Why the file does not count yet; ok: it does.
Status WatchedFolder::trouble_with(const std::string& path, const Entry& entry, double now) const {
  if (now - entry.since < times_.still_s) {
    return Status(Code::kInProgress,
                  fmt::format("{}: it goes on changing, {:.0f} s after it was first seen", path,
                              now - entry.first_seen));
  }
  if (entry.folder && entry.folder->is_change) return {};  // its reader needs the base
  return model::Checkpoint::open_unread(entry.folder ? entry.folder->content : path).status();
}

Result<WatchedFolder::Look> WatchedFolder::look(double now) {
  std::map<std::string, Entry, NumberOrder> entries;
  SPARCL_RETURN_IF_ERROR(list(entries, now));
  entries_ = std::move(entries);
  Look found;
  found.unmarked = std::exchange(notes_, {});
  for (auto& [path, entry] : entries_) {
    if (entry.is_done) continue;
    if (!entry.is_file) {
      entry.is_done = true;
      found.given_up.push_back(
          Status(Code::kInvalidArgument,
                 fmt::format("{}: it is {}", path,
                             entry.mark == FileMark{} ? "a link to nothing" : "no regular file")));
      continue;
    }
    const bool is_patient =
        now - (entry.is_given_up ? entry.since : entry.first_seen) < times_.patience_s;
    Status trouble = trouble_with(path, entry, now);
    if (trouble.ok() && !is_patient) trouble = entry.unread;
    if (!trouble.ok() && is_patient) {
      if (entry.is_given_up) continue;
      found.has_more = true;
      if (now - entry.first_seen > kToldSeconds && !std::exchange(entry.is_told, true))
        found.held_up = std::move(trouble);
      break;
    }
    entry.is_done = true;
    entry.is_given_up = !trouble.ok();
    if (trouble.ok()) found.ready.push_back(path);
    if (!trouble.ok()) found.given_up.push_back(std::move(trouble));
  }
  return found;
}

void WatchedFolder::put_back(std::span<const std::string> paths, const Status& why) {
  for (const std::string& path : paths) {
    const auto found = entries_.find(path);
    if (found != entries_.end()) found->second.is_done = false;
  }
  const auto first = paths.empty() ? entries_.end() : entries_.find(paths.front());
  if (first != entries_.end()) first->second.unread = why;
}

}  // namespace sparcl::tool
