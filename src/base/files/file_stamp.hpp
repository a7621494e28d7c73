#pragma once
// Notices that a file was changed or replaced, by its metadata (stat(2)).

#include <cstdint>
#include <string>

namespace sparcl {

class FileStamp {
 public:
  // Watches nothing if path is "".
  explicit FileStamp(std::string path = {});

  const std::string& path() const { return path_; }
  // Since the constructor, or since keep(). A file that cannot be examined has not changed.
  bool has_changed();
  // The change that has_changed() has seen last is taken.
  void keep() { last_ = seen_; }

 private:
  struct Stamp {
    std::uint64_t device = 0, inode = 0, bytes = 0;
    std::int64_t seconds = 0, nanoseconds = 0;      // of its last modification
    std::int64_t seconds_c = 0, nanoseconds_c = 0;  // of its last change of any kind
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  Stamp look() const;  // zeros: it cannot be examined

  std::string path_;
  Stamp last_, seen_;
};

}  // namespace sparcl
