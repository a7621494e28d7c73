#pragma once
// A /dev/shm of this process's own: others' files are not seen there, nor touched.

#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace sparcl::test {

// Before any thread. Empty: done; else the reason why not.
inline std::string take_own_shared_memory() {
  const auto reason = [](const char* what) {
    return std::string(what) + ": " + std::strerror(errno);
  };
  if (::unshare(CLONE_NEWNS) != 0) return reason("unshare");
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return reason("mount of / as private");
  if (::mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) != 0) return reason("mount of a tmpfs");
  return {};
}

}  // namespace sparcl::test
