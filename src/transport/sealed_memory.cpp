#include "src/transport/sealed_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "src/base/memory_file.hpp"

namespace sparcl {
namespace {

constexpr int kUnchanging = F_SEAL_WRITE | F_SEAL_SHRINK;

Status failed(const char* call) { return Status(Code::kSystemError, fmt::format("{}: {}", call, error_text(errno))); }

}  // namespace

Result<SealedMemory> SealedMemory::copy_of(std::span<const std::byte> bytes) {
  if (!may_make_file_of(bytes.size())) return Status(Code::kSystemError, "files may not be so large (ulimit -f)");
  Socket file(::memfd_create("sparcl", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open()) return failed("memfd_create()");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(file.fd(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failed("write() to memory");
    done += static_cast<std::size_t>(count);
  }
  if (::fcntl(file.fd(), F_ADD_SEALS, kUnchanging | F_SEAL_GROW | F_SEAL_SEAL) != 0) return failed("fcntl(F_ADD_SEALS)");
  return SealedMemory(std::move(file), bytes.size());
}

Result<SealedMemory> SealedMemory::adopt(Socket descriptor, std::size_t bytes) {
  const int seals = ::fcntl(descriptor.fd(), F_GET_SEALS);  // fails for all but files in memory
  if (seals < 0 || (seals & kUnchanging) != kUnchanging) {
    return Status(Code::kCorrupt, "a piece of memory came that is not sealed: whoever sent it could change it");
  }
  struct stat file {};
  if (::fstat(descriptor.fd(), &file) != 0) return failed("fstat()");
  if (file.st_size < 0 || static_cast<std::uint64_t>(file.st_size) != bytes) {
    return Status(Code::kCorrupt, fmt::format("a piece of memory of {} bytes came, where {} were said", file.st_size, bytes));
  }
  return SealedMemory(std::move(descriptor), bytes);
}

// Privately: kernels before 6.7 map sealed files in no other way. Nothing is copied as long as nobody writes.
Result<Buffer> SealedMemory::map() const {
  if (bytes_ == 0) return Buffer();
  void* const memory = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE | MAP_POPULATE, descriptor_.fd(), 0);
  if (memory == MAP_FAILED) return failed("mmap()");
  const std::shared_ptr<std::byte[]> shared(static_cast<std::byte*>(memory),
                                            [bytes = bytes_](std::byte* first) { ::munmap(first, bytes); });
  return Buffer(shared, 0, bytes_);
}

}  // namespace sparcl
