#include "src/base/files/file_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "src/base/files/file_reader.hpp"

namespace sparcl {
namespace {

constexpr auto kLockPause = std::chrono::milliseconds(10);  // between two tries; heuristic

}  // namespace

Result<FileLock> FileLock::of_file(const std::string& path, std::chrono::seconds patience) {
  return take(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, patience);
}

Result<FileLock> FileLock::of_folder(const std::string& path, std::chrono::seconds patience) {
  return take(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, patience);
}

Result<FileLock> FileLock::take(const std::string& path, int flags, std::chrono::seconds patience) {
  FileLock lock(::open(path.c_str(), flags, 0600));
  if (lock.fd_ < 0) return system_error(path, "cannot be opened");
  const auto until = std::chrono::steady_clock::now() + patience;
  while (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return system_error(path, "cannot be locked");
    if (std::chrono::steady_clock::now() > until)
      return Status(Code::kTimeout,
                    fmt::format("{}: another process has held this lock for {} s: find it by "
                                "lslocks, and end it",
                                path, patience.count()));
    std::this_thread::sleep_for(kLockPause);
  }
  return lock;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace sparcl
