#pragma once
// Contracts of the kernels that pick elements by size. The magnitude key of an element is an
// unsigned integer that grows with |x|: a float's bits without the sign (so 0 only for zeros, and
// NaN > infinity > finite), |x| of a signed integer, x of an unsigned one. Memory space: host.

#include <cstddef>
#include <cstdint>

namespace sparcl::kernels {

// Writes first + i for each i whose magnitude key is `least` or more, ascending, to `positions`
// (room for count + kPositionSlack of diff.hpp). Returns how many. first + count <= 65536. Any
// alignment.
using FindAtLeastKernel = std::size_t(const std::byte* array, std::size_t count,
                                      std::uint32_t first, std::uint64_t least,
                                      std::uint16_t* positions);

// keys[i] = the magnitude key of array[positions[i] - first], but at most `cap`: one more than
// infinity's makes all NaNs alike.
using MagnitudeKeysKernel = void(const std::byte* array, const std::uint16_t* positions,
                                 std::size_t count, std::uint32_t first, std::uint64_t cap,
                                 std::uint64_t* keys);

}  // namespace sparcl::kernels
