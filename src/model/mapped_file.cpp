#include "src/model/mapped_file.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

namespace sparcl::model {

Result<MappedFile> MappedFile::open(const std::string& path, Access access) {
  const Result<FileReader> file = FileReader::open(path);
  if (!file.ok()) return file.status();
  return map(*file, access);
}

Result<MappedFile> MappedFile::map(const FileReader& file, Access access) {
  const auto bytes = static_cast<std::size_t>(file.byte_count());
  if (bytes == 0) return MappedFile(nullptr, 0);
  const int protection = access == Access::kCopyOnWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = ::mmap(nullptr, bytes, protection, MAP_PRIVATE, file.fd(), 0);
  if (data == MAP_FAILED) return system_error(file.path(), fmt::format("{} bytes cannot be mapped", bytes));
  return MappedFile(static_cast<std::byte*>(data), bytes);
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
