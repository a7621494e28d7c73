#pragma once
// Contract of the state hash (word_hash.hpp, docs/reference/wire-format.md) of arrays in device
// memory. Each call enqueues on a stream, allocates nothing and waits for nothing. Nothing of CUDA
// is needed to include this.

#include <cstddef>
#include <cstdint>

#include "src/base/status.hpp"

namespace sparcl::kernels {

struct DeviceHash {
  std::uint64_t low, high;
};

// Where an array's first element is among the blocks of its state (codec::BlockMap::Place): the
// others follow, 65,536 a block.
struct HashPlace {
  std::uint64_t block = 0;
  std::uint32_t offset = 0;  // elements of the block before it, which are other arrays'
};

// *total (device memory) += what the array contributes to the hash of its state; sums do not depend
// on an order, so several arrays may be added up on several streams. blocks: of each block that the
// array touches, block_sums[i] += the sums of its elements as if the rest of the block were zeros
// (HashWordsKernel), not yet at the block's place; nullptr: not wanted; total likewise.
// element_bytes: 1, 2, 4 or 8; the array is aligned to it, and read at full speed where element and
// place are alike modulo 16 bytes.
using HashDeviceArrayKernel = Status(const void* array, std::uint64_t count,
                                     std::size_t element_bytes, const HashPlace& place,
                                     DeviceHash* total, DeviceHash* block_sums, void* stream);

// How many blocks an array touches.
constexpr std::uint64_t hashed_blocks(std::uint64_t count, const HashPlace& place) {
  constexpr std::uint64_t kBlock = 65'536;
  return count == 0 ? 0 : (place.offset + (count - 1) % kBlock) / kBlock + (count - 1) / kBlock + 1;
}

}  // namespace sparcl::kernels
