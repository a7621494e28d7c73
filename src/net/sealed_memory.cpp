#include "src/net/sealed_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "src/base/memory_file.hpp"

namespace sparcl::net {
namespace {

constexpr std::string_view kLinkName = "/memfd:sparcl-sealed (deleted)";
constexpr int kUnchanging = F_SEAL_WRITE | F_SEAL_SHRINK;

Status failed(const char* call) {
  return Status(Code::kSystemError, fmt::format("{}: {}", call, error_text(errno)));
}

}  // namespace

Result<SealedMemory> SealedMemory::copy_of(std::span<const std::byte> bytes) {
  if (!may_make_file_of(bytes.size()))
    return Status(Code::kSystemError, "files may not be so large (ulimit -f)");
  Socket file(::memfd_create("sparcl-sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open()) return failed("memfd_create()");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(file.fd(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failed("write() to memory");
    done += static_cast<std::size_t>(count);
  }
  if (::fcntl(file.fd(), F_ADD_SEALS, kUnchanging | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return failed("fcntl(F_ADD_SEALS)");
  return SealedMemory(std::move(file), bytes.size());
}

Result<SealedMemory> SealedMemory::of_process(std::int64_t pid, int descriptor, std::size_t bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  // Looks at the name first, because opening a file that is no memory may have effects.
  std::array<char, kLinkName.size() + 1> name{};
  const ssize_t length = ::readlink(path.c_str(), name.data(), name.size());
  if (length < 0) return failed(path.c_str());
  if (std::string_view(name.data(), static_cast<std::size_t>(length)) != kLinkName)
    return Status(Code::kCorrupt, fmt::format("{} is no memory of sparcl's", path));
  Socket file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.is_open()) return failed(path.c_str());
  const int seals = ::fcntl(file.fd(), F_GET_SEALS);  // fails for all but files in memory
  if (seals < 0 || (seals & kUnchanging) != kUnchanging)
    return Status(Code::kCorrupt, fmt::format("{} is not sealed: its maker could change it", path));
  struct stat found {};
  if (::fstat(file.fd(), &found) != 0) return failed("fstat()");
  if (found.st_size < 0 || static_cast<std::uint64_t>(found.st_size) != bytes)
    return Status(Code::kCorrupt,
                  fmt::format("{} has {} bytes, where {} were said", path, found.st_size, bytes));
  return SealedMemory(std::move(file), bytes);
}

// MAP_PRIVATE, because kernels before 6.7 map sealed files in no other way. The mapping copies
// nothing while it is only read.
Result<Buffer> SealedMemory::map() const {
  if (bytes_ == 0) return Buffer();
  void* const memory =
      ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE | MAP_POPULATE, descriptor_.fd(), 0);
  if (memory == MAP_FAILED) return failed("mmap()");
  const std::shared_ptr<std::byte[]> shared(
      static_cast<std::byte*>(memory),
      [bytes = bytes_](std::byte* first) { ::munmap(first, bytes); });
  return Buffer(shared, 0, bytes_);
}

}  // namespace sparcl::net
