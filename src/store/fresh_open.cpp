#include "src/store/fresh_open.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace sparcl::store {
namespace {

void ask_for_names_beside(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) (void)::close(fd);
}

}  // namespace

bool is_absent_error(int error) { return error == ENOENT || error == ENOTDIR; }

int open_fresh(const std::string& path) {
  bool has_asked = false;
  for (int tries = 1;; ++tries) {
    // O_NONBLOCK: a named pipe must not hang us.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) return fd;
    const int error = errno;
    const bool may_be_new = is_absent_error(error) && !has_asked;
    if (!may_be_new && (error != ESTALE || tries >= kStaleTries)) {
      errno = error;
      return -1;
    }
    if (may_be_new) ask_for_names_beside(path);
    has_asked = has_asked || may_be_new;
  }
}

}  // namespace sparcl::store
