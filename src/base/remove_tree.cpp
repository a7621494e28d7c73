#include "src/base/remove_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace sparcl {
namespace {

constexpr int kMaxDepth = 64;  // of nested folders: each takes a descriptor and a part of the stack

bool is_self_or_parent(const char* name) {
  return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
}

bool empty_folder(int folder, int depth) noexcept;

bool remove_entry(int folder, const char* name, int depth) noexcept {
  if (::unlinkat(folder, name, 0) == 0) return true;
  if (errno != EISDIR && errno != EPERM) return false;
  const int inner = ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (inner >= 0) {
    (void)empty_folder(inner, depth + 1);
    ::close(inner);
  }
  return ::unlinkat(folder, name, AT_REMOVEDIR) == 0;
}

// One reading of the folder. readdir() would need memory for its buffer.
int remove_entries(int folder, int depth) noexcept {
  alignas(dirent64) std::array<char, 2048> buffer;
  int removed = 0;
  if (::lseek(folder, 0, SEEK_SET) != 0) return 0;
  for (long bytes; (bytes = ::syscall(SYS_getdents64, folder, buffer.data(), buffer.size())) > 0;) {
    for (long at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(buffer.data() + at);
      at += entry->d_reclen;
      if (!is_self_or_parent(entry->d_name))
        removed += remove_entry(folder, entry->d_name, depth) ? 1 : 0;
    }
  }
  return removed;
}

// Repeats while it helps: a removal may shift the entries that are read next.
bool empty_folder(int folder, int depth) noexcept {
  if (depth > kMaxDepth) return false;
  while (remove_entries(folder, depth) > 0) continue;
  return true;
}

}  // namespace

bool is_that_folder(int opened, const char* path) noexcept {
  struct stat by_descriptor, by_name;
  return opened >= 0 && ::fstat(opened, &by_descriptor) == 0 && ::lstat(path, &by_name) == 0 &&
         by_descriptor.st_dev == by_name.st_dev && by_descriptor.st_ino == by_name.st_ino;
}

bool remove_tree(const char* path, int opened) noexcept {
  if (::unlink(path) == 0 || errno == ENOENT) return true;
  if (is_that_folder(opened, path)) {
    (void)empty_folder(opened, 0);
    return ::rmdir(path) == 0;
  }
  return remove_entry(AT_FDCWD, path, 0);
}

}  // namespace sparcl
