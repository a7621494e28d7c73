#include "src/base/files/unnamed_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "src/base/error_text.hpp"
#include "src/base/memory_file.hpp"

namespace sparcl {
namespace {

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) (void)::close(fd);
  }
};

}  // namespace

Result<Buffer> to_unnamed_file(const std::string& folder, std::span<const std::byte> bytes) {
  if (bytes.empty()) return Buffer();
  const auto failed = [&] {
    return Status(
        Code::kSystemError,
        fmt::format("{}: {} bytes cannot be kept there, in a file without a name: {}. Give "
                    "a folder of a local disk with room",
                    folder, bytes.size(), error_text(errno)));
  };
  if (!may_make_file_of(bytes.size())) {
    errno = EFBIG;
    return failed();
  }
  const Descriptor file{::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
  if (file.fd < 0 || !write_all(file.fd, bytes)) return failed();
  void* const mapped = ::mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED, file.fd, 0);
  if (mapped == MAP_FAILED) return failed();
  const std::size_t size = bytes.size();
  std::shared_ptr<std::byte[]> storage(static_cast<std::byte*>(mapped),
                                       [size](std::byte* at) { (void)::munmap(at, size); });
  return Buffer(std::move(storage), 0, size);
}

}  // namespace sparcl
