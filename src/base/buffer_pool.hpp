#pragma once
// Buffers of many sizes that one call after the other needs, in segments (segment_pool.hpp), so
// that none is fresh from the system.

#include <cstddef>
#include <memory>

#include "src/base/buffer_source.hpp"

namespace sparcl {

class BufferPool final : public BufferSource {
 public:
  // Has so many bytes at most; what is taken beyond them, or is larger than a segment, comes from
  // the system.
  explicit BufferPool(std::size_t max_bytes = std::size_t{128} << 20);

  // The one that all communicators of this process share, as long as anybody holds it. Up to 256
  // MiB: heuristic, as ranks may be threads.
  static std::shared_ptr<BufferPool> of_process();

  Buffer take(std::size_t bytes) override;

 private:
  struct Shelves;
  std::shared_ptr<Shelves> shelves_;
};

}  // namespace sparcl
