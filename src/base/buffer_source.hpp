#pragma once
// The source of a message's memory.

#include <cstddef>

#include "src/base/buffer.hpp"

namespace sparcl {

class BufferSource {
 public:
  virtual ~BufferSource() = default;
  // Uninitialised host bytes. They may outlive the source, and any thread may release them.
  virtual Buffer take(std::size_t bytes) = 0;
};

}  // namespace sparcl
