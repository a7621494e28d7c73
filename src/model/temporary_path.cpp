#include "src/model/temporary_path.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

namespace sparcl::model {
namespace {

namespace fs = std::filesystem;

struct Registry {
  std::mutex creating;  // held while one comes to be
  std::mutex mutex;
  std::set<std::string> paths;
};

std::string prefix_of(const fs::path& path) { return fmt::format(".{}.sparcl-", path.filename().string()); }

Registry& registry() {
  static auto* one = new Registry;  // never destroyed: a thread may still use it while the process ends
  return *one;
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

TemporaryPath TemporaryPath::beside(const std::string& path) {
  static std::atomic<unsigned> serial{0};
  const fs::path whole(path);
  return TemporaryPath(whole.parent_path() / fmt::format("{}{}-{}", prefix_of(whole), ::getpid(), serial++));
}

std::optional<TemporaryPath::File> TemporaryPath::create_file(const std::string& path, mode_t mode) {
  const std::lock_guard creating(registry().creating);
  for (;;) {
    TemporaryPath temporary = beside(path);
    const int fd = ::open(temporary.path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0) {
      (void)::flock(fd, LOCK_EX | LOCK_NB);  // a file system without locks: leftovers stay there
      return File{std::move(temporary), fd};
    }
    const int error = errno;
    temporary.release();  // left by a killed process of the same id, or somebody else's
    errno = error;
    if (error != EEXIST) return std::nullopt;
  }
}

std::optional<TemporaryPath> TemporaryPath::create_folder(const std::string& path, std::error_code& error) {
  const std::lock_guard creating(registry().creating);
  for (;;) {
    TemporaryPath temporary = beside(path);
    if (fs::create_directory(temporary.path_, error)) {
      temporary.lock_ = ::open(temporary.path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      if (temporary.lock_ >= 0) (void)::flock(temporary.lock_, LOCK_EX | LOCK_NB);
      return temporary;
    }
    temporary.release();  // what is there is not ours
    if (error) return std::nullopt;
  }
}

TemporaryPath::TemporaryPath(TemporaryPath&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

TemporaryPath& TemporaryPath::operator=(TemporaryPath&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

TemporaryPath::~TemporaryPath() {
  if (lock_ >= 0) ::close(lock_);
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  forget(path_);
}

void TemporaryPath::release() { forget(std::exchange(path_, {})); }

void TemporaryPath::hide() const { forget(path_); }

void TemporaryPath::take(std::string path) {
  release();
  path_ = std::move(path);
}

std::unique_lock<std::mutex> remove_temporary_paths() {
  std::unique_lock creating(registry().creating);
  const std::lock_guard lock(registry().mutex);
  for (const std::string& path : registry().paths) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  return creating;
}

namespace {

bool is_alive(std::string_view digits) {
  pid_t pid = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  return read.ec != std::errc() || pid <= 0 || ::kill(pid, 0) == 0 || errno != ESRCH;
}

// Also by a process of another machine, where they share the file system.
bool is_locked(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return true;
  const bool taken = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  ::close(fd);
  return !taken;
}

}  // namespace

int remove_leftovers(const std::string& path) {
  const fs::path whole(path);
  const std::string prefix = prefix_of(whole);
  const fs::path folder = whole.parent_path().empty() ? fs::path(".") : whole.parent_path();
  int count = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(prefix) || is_alive(std::string_view(name).substr(prefix.size())) || is_locked(at->path())) continue;
    std::error_code ignored;
    count += fs::remove_all(at->path(), ignored) != static_cast<std::uintmax_t>(-1) ? 1 : 0;
  }
  return count;
}

}  // namespace sparcl::model
