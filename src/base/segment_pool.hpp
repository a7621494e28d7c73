#pragma once
// Large pieces of memory that each call needs again. Each page that is fresh from the system costs
// a fault and is cleared, which takes longer than filling it. The process therefore keeps a few for
// the next call.

#include "src/base/buffer.hpp"

namespace sparcl {

constexpr std::size_t kSegmentBytes = std::size_t{4} << 20;
// The process keeps up to this much unused memory.
constexpr std::size_t kKeptSegmentBytes = std::size_t{64} << 20;

// kSegmentBytes, uninitialised. The segment returns to the pool with its last slice. Any thread may
// call it.
Buffer take_segment();

}  // namespace sparcl
