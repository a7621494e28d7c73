#pragma once
// Contracts of the kernels that take the elements of a mask out of an array, and put them back.
// Memory space: device; each call enqueues on a stream, allocates nothing and waits for nothing, so
// that it may be captured in a graph. Nothing of CUDA is needed to include this.

#include <cstddef>
#include <cstdint>

#include "src/base/status.hpp"

namespace sparcl::kernels {

// The elements of a mask in one block of 64 Ki elements of the array.
struct MaskPart {
  std::uint64_t block;
  std::uint64_t begin;  // of its first position, among all
};

// Where the elements of a mask are, ascending: as positions in their blocks, or as runs of equal
// length.
struct MaskPlaces {
  std::uint64_t count = 0;          // elements
  const MaskPart* parts = nullptr;  // of positions: part_count, and one more whose `begin` is count
  std::uint64_t part_count = 0;     // less than 2^31
  const std::uint16_t* positions = nullptr;  // count
  const std::uint64_t* runs =
      nullptr;  // run r begins at runs[r] * run_elements; the array's last may be shorter
  std::uint64_t run_elements = 0;  // 0: positions it is
};

// packed[i] = array[the place of element i]. element_bytes: 1, 2, 4 or 8; arrays are aligned to it,
// and do not overlap.
using MaskGatherKernel = Status(const MaskPlaces& places, const void* array,
                                std::size_t element_bytes, void* packed, void* stream);
// array[index of element i] = packed[i]; no other element of the array is written.
using MaskScatterKernel = Status(const MaskPlaces& places, const void* packed,
                                 std::size_t element_bytes, void* array, void* stream);

}  // namespace sparcl::kernels
