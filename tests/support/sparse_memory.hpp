#pragma once
// Gigabytes of address space, all zeros, without memory behind it but for the pages that are
// written to.

#include <sys/mman.h>

#include <cstddef>

namespace sparcl::test {

class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes) : bytes_(bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
  }
  ~SparseMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;

  // nullptr: there is not so much address space.
  std::byte* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

}  // namespace sparcl::test
