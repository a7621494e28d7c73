#include "src/base/files/file_stamp.hpp"

#include <sys/stat.h>

#include <utility>

namespace sparcl {

FileStamp::FileStamp(std::string path) : path_(std::move(path)), last_(look()), seen_(last_) {}

FileStamp::Stamp FileStamp::look() const {
  struct stat about;
  if (path_.empty() || ::stat(path_.c_str(), &about) != 0) return {};
  return {static_cast<std::uint64_t>(about.st_dev),
          static_cast<std::uint64_t>(about.st_ino),
          static_cast<std::uint64_t>(about.st_size),
          about.st_mtim.tv_sec,
          about.st_mtim.tv_nsec,
          about.st_ctim.tv_sec,
          about.st_ctim.tv_nsec};
}

bool FileStamp::has_changed() {
  const Stamp now = look();
  if (now == Stamp() || now == last_) return false;
  seen_ = now;
  return true;
}

}  // namespace sparcl
