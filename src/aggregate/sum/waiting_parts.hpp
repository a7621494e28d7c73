#pragma once
// Parts that wait to be summed, because slots beside theirs are missing. All of them together would
// take as much memory as all contributions. Beyond a few times the largest one they wait in files.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "src/base/buffer.hpp"

namespace sparcl::aggregate {

class WaitingParts {
 public:
  static constexpr std::uint64_t kMinBytes = std::uint64_t{64} << 20;  // heuristic

  // folder: on a disk; "": all parts stay in memory. min_bytes: so many stay there anyway.
  explicit WaitingParts(std::string folder = "", std::uint64_t min_bytes = kMinBytes)
      : folder_(std::move(folder)), min_bytes_(min_bytes) {}

  // The part as it waits, with the same bytes, which must not be written any more. It counts until
  // the last copy is gone. If there is no room in the folder, it stays in memory, and the log says
  // so; later ones try again.
  Buffer put(Buffer part);

  // Bytes. Buffers may end in any thread, and after this object.
  struct Held {
    std::atomic<std::uint64_t> memory = 0, files = 0;
  };
  std::shared_ptr<const Held> held() const { return held_; }

 private:
  Buffer counted(Buffer part, std::atomic<std::uint64_t> Held::*kind) const;

  std::string folder_;
  std::uint64_t min_bytes_;
  std::shared_ptr<Held> held_ = std::make_shared<Held>();
  std::uint64_t largest_ = 0;
  int pause_ = 0;  // so many parts stay in memory after a failure
};

}  // namespace sparcl::aggregate
