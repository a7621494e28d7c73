#include "tests/store/faults/faulty_calls.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <map>
#include <mutex>
#include <utility>

extern "C" {
int __real_open(const char* path, int flags, ...);
ssize_t __real_pread(int fd, void* into, size_t bytes, off_t at);
ssize_t __real_write(int fd, const void* from, size_t bytes);
int __real_fsync(int fd);
int __real_link(const char* from, const char* to);
int __real_rename(const char* from, const char* to);
int __real_mkdir(const char* path, mode_t mode);
int __real_stat(const char* path, struct stat* about);
int __real_fstat(int fd, struct stat* about);
int __real_unlink(const char* path);
}

namespace sparcl::test {
namespace {

struct Plan {
  std::mutex using_it;
  std::string folder;
  std::vector<Fault> faults;
  int met = 0;
  std::map<std::string, struct stat> remembered;
};
Plan& plan() {
  static Plan* const one = new Plan;  // for threads that outlive main()
  return *one;
}

// The fault that this call meets; error 0: none.
Fault fault_of(FileCall call, const std::string& path) {
  Plan& all = plan();
  const std::lock_guard lock(all.using_it);
  if (all.folder.empty() || !path.starts_with(all.folder)) return {};
  if (call == FileCall::kOpen) all.remembered.erase(path);
  if (call == FileCall::kOpenFolder)
    std::erase_if(all.faults, [](const Fault& each) { return each.ends_with_folder; });
  for (Fault& each : all.faults) {
    if (each.call != call || path.find(each.path) == std::string::npos || each.count == 0) continue;
    if (each.skip-- > 0) continue;
    --each.count;
    ++all.met;
    return each;
  }
  return {};
}

std::string path_of(int fd) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "";
}

bool is_folder(int fd) {
  struct stat about;
  return __real_fstat(fd, &about) == 0 && S_ISDIR(about.st_mode);
}

template <class Function>
auto answer(FileCall call, const std::string& path, Function&& really) -> decltype(really()) {
  const int before = errno;
  const Fault fault = fault_of(call, path);
  errno = before;
  if (fault.error == 0) return really();
  if (fault.happens) (void)really();
  errno = fault.error;
  return -1;
}

}  // namespace

void set_faults(const std::string& folder, std::vector<Fault> faults) {
  Plan& all = plan();
  const std::lock_guard lock(all.using_it);
  all.folder = folder;
  all.faults = std::move(faults);
  all.met = 0;
  all.remembered.clear();
}

int met_faults() {
  Plan& all = plan();
  const std::lock_guard lock(all.using_it);
  return all.met;
}

void remember_attributes(const std::string& path) {
  struct stat about;
  if (__real_stat(path.c_str(), &about) != 0) return;
  Plan& all = plan();
  const std::lock_guard lock(all.using_it);
  all.remembered[path] = about;
}

}  // namespace sparcl::test

using sparcl::test::answer;
using sparcl::test::FileCall;

extern "C" {

int __wrap_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  FileCall call = FileCall::kOpen;
  if ((flags & O_CREAT) != 0) call = FileCall::kCreate;
  if ((flags & O_DIRECTORY) != 0) call = FileCall::kOpenFolder;
  return answer(call, path, [&] { return __real_open(path, flags, mode); });
}

ssize_t __wrap_pread(int fd, void* into, size_t bytes, off_t at);
ssize_t __wrap_pread(int fd, void* into, size_t bytes, off_t at) {
  return answer(FileCall::kRead, sparcl::test::path_of(fd),
                [&] { return __real_pread(fd, into, bytes, at); });
}

// A disk that is full takes a part of the bytes first.
ssize_t __wrap_write(int fd, const void* from, size_t bytes);
ssize_t __wrap_write(int fd, const void* from, size_t bytes) {
  return answer(FileCall::kWrite, sparcl::test::path_of(fd),
                [&] { return __real_write(fd, from, bytes > 4096 ? bytes / 2 : bytes); });
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
  return answer(sparcl::test::is_folder(fd) ? FileCall::kSyncFolder : FileCall::kSyncFile,
                sparcl::test::path_of(fd) + "/", [&] { return __real_fsync(fd); });
}

int __wrap_link(const char* from, const char* to);
int __wrap_link(const char* from, const char* to) {
  return answer(FileCall::kLink, to, [&] { return __real_link(from, to); });
}

int __wrap_rename(const char* from, const char* to);
int __wrap_rename(const char* from, const char* to) {
  return answer(FileCall::kRename, to, [&] { return __real_rename(from, to); });
}

int __wrap_mkdir(const char* path, mode_t mode);
int __wrap_mkdir(const char* path, mode_t mode) {
  return answer(FileCall::kMakeFolder, path, [&] { return __real_mkdir(path, mode); });
}

int __wrap_stat(const char* path, struct stat* about);
int __wrap_stat(const char* path, struct stat* about) {
  {
    sparcl::test::Plan& all = sparcl::test::plan();
    const std::lock_guard lock(all.using_it);
    if (const auto old = all.remembered.find(path); old != all.remembered.end())
      return *about = old->second, 0;
  }
  return answer(FileCall::kExamine, path, [&] { return __real_stat(path, about); });
}

int __wrap_fstat(int fd, struct stat* about);
int __wrap_fstat(int fd, struct stat* about) {
  return answer(FileCall::kExamine, sparcl::test::path_of(fd),
                [&] { return __real_fstat(fd, about); });
}

int __wrap_unlink(const char* path);
int __wrap_unlink(const char* path) {
  return answer(FileCall::kRemove, path, [&] { return __real_unlink(path); });
}
}
