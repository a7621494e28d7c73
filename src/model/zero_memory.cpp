#include "src/model/zero_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "src/base/error_text.hpp"
#include "src/base/memory_file.hpp"

namespace sparcl::model {

Result<ZeroMemory> ZeroMemory::allocate(std::uint64_t bytes, const char* what) {
  SPARCL_ASSIGN_OR_RETURN(ZeroMemory memory, map(bytes, 0, what));
  if (bytes > 0) (void)::madvise(memory.data(), bytes, MADV_HUGEPAGE);
  return memory;
}

Result<ZeroMemory> ZeroMemory::reserve(std::uint64_t bytes, const char* what) {
  SPARCL_ASSIGN_OR_RETURN(ZeroMemory memory, map(bytes, MAP_NORESERVE, what));
  if (bytes > 0) (void)::madvise(memory.data(), bytes, MADV_NOHUGEPAGE);
  return memory;
}

Result<ZeroMemory> ZeroMemory::map(std::uint64_t bytes, int flags, const char* what) {
  if (bytes == 0) return ZeroMemory(nullptr, 0);
  void* data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (data != MAP_FAILED) return ZeroMemory(static_cast<std::byte*>(data), bytes);
  return Status(Code::kOutOfMemory,
                fmt::format("{} bytes for {} cannot be allocated: free memory on this host, or "
                            "raise the process's limit",
                            bytes, what));
}

Result<ZeroMemory> ZeroMemory::in_file(const std::string& folder, std::uint64_t bytes) {
  if (bytes == 0) return ZeroMemory(nullptr, 0);
  const int fd = may_make_file_of(bytes)
                     ? ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)
                     : (errno = EFBIG, -1);
  // Room now, or a write to the memory would meet a full disk.
  int error = fd < 0 ? errno : ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  void* data = MAP_FAILED;
  if (error == 0) {
    data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    error = errno;
  }
  if (fd >= 0) (void)::close(fd);
  if (data != MAP_FAILED) return ZeroMemory(static_cast<std::byte*>(data), bytes);
  return Status(Code::kSystemError,
                fmt::format("{}: {} bytes cannot be kept there, in a file without a name: {}. Give "
                            "a folder of a local disk with room",
                            folder, bytes, error_text(error)));
}

ZeroMemory::~ZeroMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace sparcl::model
