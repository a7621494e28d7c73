#pragma once
// Contracts of the kernels that pick elements by size. The magnitude key of an element is an
// unsigned integer that grows with |x|. For a float it is the bits without the sign, so it is 0
// only for zeros, and NaN > infinity > finite. For a signed integer it is |x|, for an unsigned one
// x. Memory space: host.

#include <cstddef>
#include <cstdint>

namespace sparcl::kernels {

// Writes first + i for each i whose magnitude key is at least `least`, ascending, to `positions`
// (room for count + kPositionSlack of diff.hpp). Returns their number. first + count <= 65536. Any
// alignment.
using FindAtLeastKernel = std::size_t(const std::byte* array, std::size_t count,
                                      std::uint32_t first, std::uint64_t least,
                                      std::uint16_t* positions);

// keys[i] = the magnitude key of array[positions[i] - first], limited to `cap`. With a cap of
// infinity's key + 1, all NaNs are equal.
using MagnitudeKeysKernel = void(const std::byte* array, const std::uint16_t* positions,
                                 std::size_t count, std::uint32_t first, std::uint64_t cap,
                                 std::uint64_t* keys);

}  // namespace sparcl::kernels
