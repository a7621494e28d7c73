#pragma once
// The memory that an encoder or a decoder takes in addition to the arrays and the stream. It is
// known beforehand, and does not depend on the arrays' size except for 120 bytes for each block of
// an update.

#include <cstdint>

#include "src/codec/block_map.hpp"

namespace sparcl::codec {

// For one thread, measured with blocks of every type and density and rounded up
// (tests/codec/work_memory_test.cpp).
constexpr std::uint64_t kEncodeWorkBytes = std::uint64_t{24} << 20;
constexpr std::uint64_t kDecodeWorkBytes = std::uint64_t{8} << 20;

struct WorkMemory {
  std::uint64_t encode_bytes = 0;
  std::uint64_t decode_bytes = 0;
};

// An upper bound. It does not include the stream, which the caller keeps. With early writing it
// also excludes the replaced old values and their positions. Several threads each keep their coded
// region until its turn: at most the region itself.
WorkMemory work_memory(const BlockMap& map, unsigned threads);

}  // namespace sparcl::codec
