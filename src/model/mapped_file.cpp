#include "src/model/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace sparcl::model {

Status system_error(const std::string& path, const std::string& what) {
  return Status(Code::kSystemError, fmt::format("{}: {}: {}", path, what, std::generic_category().message(errno)));
}

Result<MappedFile> MappedFile::open(const std::string& path, Access access) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // O_NONBLOCK: a named pipe must not hang us
  if (fd < 0) return system_error(path, "cannot be opened");
  struct stat about;
  Status status;
  void* data = nullptr;
  if (::fstat(fd, &about) != 0) {
    status = system_error(path, "cannot be examined");
  } else if (!S_ISREG(about.st_mode)) {
    status = Status(Code::kInvalidArgument, fmt::format("{}: it is no regular file", path));
  } else if (about.st_size > 0) {
    const int protection = access == Access::kCopyOnWrite ? PROT_READ | PROT_WRITE : PROT_READ;
    data = ::mmap(nullptr, static_cast<std::size_t>(about.st_size), protection, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) status = system_error(path, fmt::format("{} bytes cannot be mapped", about.st_size));
  }
  ::close(fd);
  if (!status.ok()) return status;
  return MappedFile(static_cast<std::byte*>(data), static_cast<std::size_t>(about.st_size));
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace sparcl::model
