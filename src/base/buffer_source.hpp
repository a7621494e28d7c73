#pragma once
// Where a message's memory comes from.

#include <cstddef>

#include "src/base/buffer.hpp"

namespace sparcl {

class BufferSource {
 public:
  virtual ~BufferSource() = default;
  // Uninitialised host bytes. They may outlive the source, and be let go by any thread.
  virtual Buffer take(std::size_t bytes) = 0;
};

}  // namespace sparcl
