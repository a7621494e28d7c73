#pragma once
// Buffers of many sizes that each call needs again, in segments (segment_pool.hpp), so that none is
// fresh from the system.

#include <cstddef>
#include <memory>

#include "src/base/buffer_source.hpp"

namespace sparcl {

class BufferPool final : public BufferSource {
 public:
  // Holds up to max_bytes. Further buffers, and buffers larger than a segment, come from the
  // system.
  explicit BufferPool(std::size_t max_bytes = std::size_t{128} << 20);

  // The pool that all communicators of this process share, while any of them holds it. Up to 256
  // MiB: heuristic, because ranks may be threads.
  static std::shared_ptr<BufferPool> of_process();

  Buffer take(std::size_t bytes) override;

 private:
  struct Shelves;
  std::shared_ptr<Shelves> shelves_;
};

}  // namespace sparcl
