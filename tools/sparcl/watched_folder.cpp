#include "tools/sparcl/watched_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>

#include "src/model/checkpoint.hpp"

namespace sparcl::tool {

namespace fs = std::filesystem;

std::optional<FileMark> mark_of(const std::string& path) {
  struct stat about;
  if (::stat(path.c_str(), &about) != 0) return std::nullopt;
  return FileMark{about.st_dev, about.st_ino, static_cast<std::uint64_t>(about.st_size),
                  about.st_mtim.tv_sec * std::int64_t{1'000'000'000} + about.st_mtim.tv_nsec};
}

// What is there now, with what is known of it.
Status WatchedFolder::list(std::map<std::string, Entry>& entries, double now) const {
  std::error_code error;
  for (fs::directory_iterator at(path_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (name.starts_with('.') || !name.ends_with(model::kShardSuffix)) continue;
    const std::string path = at->path().string();
    const std::optional<FileMark> mark = mark_of(path);
    if (!mark) continue;  // gone again
    const auto known = entries_.find(path);
    const bool is_same = known != entries_.end() && known->second.mark == *mark;
    entries.emplace(path, is_same ? known->second : Entry{*mark, now, at->is_regular_file(ignored), false});
  }
  if (!error) return {};
  return Status(Code::kSystemError, fmt::format("{}: the folder cannot be listed: {}", path_, error.message()));
}

Result<WatchedFolder::Look> WatchedFolder::look(double now) {
  std::map<std::string, Entry> entries;
  SPARCL_RETURN_IF_ERROR(list(entries, now));
  entries_ = std::move(entries);
  Look found;
  for (auto& [path, entry] : entries_) {
    if (entry.is_done) continue;
    const double stood_s = now - entry.since;
    if (!entry.is_file) {
      entry.is_done = true;
      found.given_up.push_back(Status(Code::kInvalidArgument, fmt::format("{}: it is no regular file", path)));
      continue;
    }
    const Status opens = stood_s < times_.still_s ? Status(Code::kInProgress, "") : model::Checkpoint::open(path).status();
    if (!opens.ok() && stood_s < times_.patience_s) {
      found.has_more = true;
      break;
    }
    entry.is_done = true;
    if (opens.ok()) found.ready.push_back(path);
    if (!opens.ok()) found.given_up.push_back(opens);
  }
  return found;
}

}  // namespace sparcl::tool
