#include "src/model/zero_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

namespace sparcl::model {

Result<ZeroMemory> ZeroMemory::allocate(std::uint64_t bytes, const char* what) {
  if (bytes == 0) return ZeroMemory(nullptr, 0);
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Status(Code::kOutOfMemory,
                  fmt::format("{} bytes for {} cannot be allocated: free memory on this host, or "
                              "raise the process's limit",
                              bytes, what));
  }
  (void)::madvise(data, bytes, MADV_HUGEPAGE);
  return ZeroMemory(static_cast<std::byte*>(data), bytes);
}

ZeroMemory::~ZeroMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace sparcl::model
