#include "src/base/files/temporary_path.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/base/folder_list.hpp"
#include "src/base/forever.hpp"
#include "src/base/process_info.hpp"
#include "src/base/remove_tree.hpp"

namespace sparcl {
namespace {

namespace fs = std::filesystem;

struct Registry {
  std::mutex creating;  // held while a path is created
  std::mutex mutex;
  std::set<std::string> paths;
};

// A name may have 255 bytes, on some file systems 143: a long one is named by its hash.
std::string prefix_of(const fs::path& path) {
  constexpr std::size_t kLongName = 100;
  const std::string name = path.filename().string();
  if (name.size() <= kLongName) return fmt::format(".{}.sparcl-", name);
  return fmt::format(".{:016x}.sparcl-", xxh3_64(std::as_bytes(std::span(name))));
}

Registry& registry() {
  static Forever<Registry> one;
  return *one;
}

// The caller holds the mutex.
void remove_all_paths() noexcept {
  for (const std::string& path : registry().paths) (void)remove_tree(path.c_str());
}

void forget(const std::string& path) {
  const std::lock_guard lock(registry().mutex);
  registry().paths.erase(path);
}

}  // namespace

TemporaryPath::TemporaryPath(std::string path) : path_(std::move(path)) {
  const std::lock_guard lock(registry().mutex);
  registry().paths.insert(path_);
}

TemporaryPath TemporaryPath::beside(const std::string& path, std::string_view mark) {
  static std::atomic<unsigned> serial{0};
  const fs::path whole(path);
  return TemporaryPath(whole.parent_path() /
                       fmt::format("{}{}{}-{}", prefix_of(whole), mark, ::getpid(), serial++));
}

std::optional<TemporaryPath::File> TemporaryPath::create_file(const std::string& path,
                                                              mode_t mode) {
  (void)remove_leftovers(path);
  const std::lock_guard creating(registry().creating);
  for (;;) {
    TemporaryPath temporary = beside(path);
    const int fd = ::open(temporary.path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0) {
      (void)::flock(fd, LOCK_EX | LOCK_NB);  // a file system without locks: leftovers stay there
      return File{std::move(temporary), fd};
    }
    const int error = errno;
    temporary.release();  // not this process's: left by a killed process of the same id, or another
                          // program's
    errno = error;
    if (error != EEXIST) return std::nullopt;
  }
}

std::optional<TemporaryPath> TemporaryPath::create_folder(const std::string& path,
                                                          std::error_code& error) {
  (void)remove_leftovers(path);
  const std::lock_guard creating(registry().creating);
  for (;;) {
    TemporaryPath temporary = beside(path);
    if (fs::create_directory(temporary.path_, error)) {
      temporary.lock_ = ::open(temporary.path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      if (temporary.lock_ >= 0) (void)::flock(temporary.lock_, LOCK_EX | LOCK_NB);
      return temporary;
    }
    temporary.release();  // the existing file is not this process's
    if (error) return std::nullopt;
  }
}

TemporaryPath::TemporaryPath(TemporaryPath&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      lock_(std::exchange(other.lock_, -1)),
      held_(std::exchange(other.held_, -1)) {}

TemporaryPath& TemporaryPath::operator=(TemporaryPath&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  std::swap(held_, other.held_);
  return *this;
}

TemporaryPath::~TemporaryPath() {
  if (!path_.empty()) {
    (void)remove_tree(path_.c_str(), held_ >= 0 ? held_ : lock_);
    forget(path_);
  }
  if (lock_ >= 0) ::close(lock_);
  if (held_ >= 0) ::close(held_);
}

void TemporaryPath::release() { forget(std::exchange(path_, {})); }

void TemporaryPath::hide() const { forget(path_); }

void TemporaryPath::take(std::string path) {
  release();
  path_ = std::move(path);
}

bool TemporaryPath::hold(const std::string& folder) {
  held_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (held_ >= 0) (void)::flock(held_, LOCK_EX | LOCK_NB);
  return held_ >= 0;
}

bool TemporaryPath::has_held(const std::string& folder) const {
  return is_that_folder(held_, folder.c_str());
}

bool TemporaryPath::is_created() const { return is_that_folder(lock_, path_.c_str()); }

std::unique_lock<std::mutex> remove_temporary_paths() {
  std::unique_lock creating(registry().creating);
  const std::lock_guard lock(registry().mutex);
  remove_all_paths();
  return creating;
}

void remove_temporary_paths_at_once() noexcept {
  const std::unique_lock creating(registry().creating, std::try_to_lock);
  const std::unique_lock lock(registry().mutex, std::try_to_lock);
  if (lock.owns_lock()) remove_all_paths();
}

namespace {

// A name in another format counts as one of a live process.
bool may_be_alive(const fs::path& path, std::string_view digits) {
  pid_t pid = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  if (read.ec != std::errc() || pid <= 0) return true;
  struct stat about;
  const ProcessInfo process = process_info(pid);
  return !process.is_dead() &&
         (::lstat(path.c_str(), &about) != 0 || process.may_have_changed(about));
}

// The lock may be of a process of another machine that shares the file system.
bool is_locked(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW |
                                          O_NONBLOCK);  // O_NONBLOCK: a named pipe must not hang us
  if (fd < 0) return true;
  const bool taken = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  ::close(fd);
  return !taken;
}

// The old folder, after an exchange that was cut short by a kill.
bool has_folders(const fs::path& path) {
  const Result<std::vector<std::string>> names = names_in_folder(path.string());
  std::error_code error;
  return names.ok() && std::ranges::any_of(*names, [&](const std::string& name) {
           return fs::is_directory(fs::symlink_status(path / name, error));
         });
}

}  // namespace

int remove_leftovers(const std::string& path) {
  const fs::path whole(path);
  const std::string prefix = prefix_of(whole);
  const fs::path folder = whole.parent_path().empty() ? fs::path(".") : whole.parent_path();
  int count = 0;
  const Result<std::vector<std::string>> names = names_in_folder(folder.string());
  if (!names.ok()) return 0;
  for (const std::string& name : *names) {
    const fs::path found = folder / name;
    if (!name.starts_with(prefix) ||
        may_be_alive(found, std::string_view(name).substr(prefix.size())))
      continue;
    if (is_locked(found) || has_folders(found)) continue;
    count += remove_tree(found.c_str()) ? 1 : 0;
  }
  return count;
}

}  // namespace sparcl
