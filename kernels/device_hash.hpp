#pragma once
// Contract of the state hash (word_hash.hpp, docs/reference/wire-format.md) of arrays in device
// memory. Each call enqueues on a stream, allocates nothing and does not wait. This header needs no
// CUDA.

#include <cstddef>
#include <cstdint>

#include "src/base/status.hpp"

namespace sparcl::kernels {

struct DeviceHash {
  std::uint64_t low, high;
};

// The position of an array's first element among the blocks of its state (codec::BlockMap::Place).
// The other elements follow, 65,536 a block.
struct HashPlace {
  std::uint64_t block = 0;
  std::uint32_t offset = 0;  // elements of other arrays before it in the block
};

// *total (device memory) += the array's contribution to the hash of its state. Sums do not depend
// on an order, so several streams may add several arrays. block_sums[i] += the sums of the array's
// elements in block i of the blocks that the array touches (HashWordsKernel). The rest of the block
// counts as zeros, and the key of the block is not applied. total and block_sums: nullptr if not
// wanted. element_bytes: 1, 2, 4 or 8; the array is aligned to it. Full speed needs an element
// address and a position that are equal modulo 16 bytes.
using HashDeviceArrayKernel = Status(const void* array, std::uint64_t count,
                                     std::size_t element_bytes, const HashPlace& place,
                                     DeviceHash* total, DeviceHash* block_sums, void* stream);

// The number of blocks that an array touches.
constexpr std::uint64_t hashed_blocks(std::uint64_t count, const HashPlace& place) {
  constexpr std::uint64_t kBlock = 65'536;
  return count == 0 ? 0 : (place.offset + (count - 1) % kBlock) / kBlock + (count - 1) / kBlock + 1;
}

}  // namespace sparcl::kernels
