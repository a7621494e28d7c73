#pragma once
// Large pieces of memory that one call after the other needs. Fresh from the system each of their
// pages costs a fault and is cleared, which takes longer than filling it; so a few are kept for the
// next call.

#include "src/base/buffer.hpp"

namespace sparcl {

constexpr std::size_t kSegmentBytes = std::size_t{4} << 20;
// What the process keeps at most of those that nobody uses.
constexpr std::size_t kKeptSegmentBytes = std::size_t{64} << 20;

// kSegmentBytes, uninitialised. It goes back with the last slice. From any thread.
Buffer take_segment();

}  // namespace sparcl
