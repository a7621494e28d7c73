#pragma once
// How much memory an encoder or a decoder takes beyond the arrays and the stream: known beforehand,
// and no part of the arrays' size but 120 bytes for each block of an update.

#include <cstdint>

#include "src/codec/block_map.hpp"

namespace sparcl::codec {

// Of one thread, measured with blocks of every type and density and rounded up
// (tests/codec/work_memory_test.cpp).
constexpr std::uint64_t kEncodeWorkBytes = std::uint64_t{24} << 20;
constexpr std::uint64_t kDecodeWorkBytes = std::uint64_t{8} << 20;

struct WorkMemory {
  std::uint64_t encode_bytes = 0;
  std::uint64_t decode_bytes = 0;
};

// At most. Not in it: the stream, which the caller keeps, and with early writing the old values of
// what is replaced, with their positions. Several threads keep what they have coded of a region
// each until it is its turn: at most the region itself.
WorkMemory work_memory(const BlockMap& map, unsigned threads);

}  // namespace sparcl::codec
