#pragma once
// A folder for what a test writes.

#include <stdlib.h>

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

namespace sparcl::test {

namespace fs = std::filesystem;

// A folder of this test alone, removed with all that it holds. In memory where that can be: each
// output is synchronised to its disk, and a busy disk makes seconds of that.
class TempFolder {
 public:
  TempFolder() {
    std::string in_memory = "/dev/shm/sparcl-test-XXXXXX";
    std::string on_disk = (fs::temp_directory_path() / "sparcl-test-XXXXXX").string();
    path_ = ::mkdtemp(in_memory.data()) != nullptr ? in_memory : ::mkdtemp(on_disk.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  const fs::path& path() const { return path_; }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

  // How many entries it holds, hidden ones included: leftovers show.
  std::size_t count() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

}  // namespace sparcl::test
