#pragma once
// Buffers that come back: large ones from the system cost a page fault for every page that they touch, each time anew.

#include <cstddef>
#include <memory>

#include "src/base/buffer.hpp"

namespace sparcl {

class BufferPool {
 public:
  // Keeps so many bytes of what nobody holds any more.
  explicit BufferPool(std::size_t most_kept_bytes = std::size_t{64} << 20);

  // Uninitialised host bytes. They may outlive the pool, and be let go by any thread.
  Buffer take(std::size_t bytes);

 private:
  struct Shelves;
  std::shared_ptr<Shelves> shelves_;
};

}  // namespace sparcl
