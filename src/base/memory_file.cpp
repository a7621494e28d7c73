#include "src/base/memory_file.hpp"

#include <sys/resource.h>

namespace sparcl {

bool may_make_file_of(std::uint64_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
         (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes);
}

}  // namespace sparcl
