#pragma once
// Contract of diff: where do two arrays differ, bit for bit? Memory space: host.

#include <cstddef>
#include <cstdint>

namespace sparcl::kernels {

// Entries that a kernel may overwrite after the last one it returns, in every output array of u16
// positions.
constexpr std::size_t kPositionSlack = 64;

// Compares `count` elements as bits, never as floats: -0 differs from +0, a NaN equals itself.
// Writes first + i for each i that differs, ascending, to `positions` (room for count +
// kPositionSlack). Returns their number. first + count <= 65536. Any alignment.
using DiffKernel = std::size_t(const std::byte* base, const std::byte* target, std::size_t count,
                               std::uint32_t first, std::uint16_t* positions);

// Bytes that a kernel may overwrite after the last value it returns.
constexpr std::size_t kValueSlackBytes = 64;

// The same, and writes the differing elements: they are in registers, so they cost next to nothing.
// old_values and new_values have room for count elements and kValueSlackBytes.
using DiffValuesKernel = std::size_t(const std::byte* base, const std::byte* target,
                                     std::size_t count, std::uint32_t first,
                                     std::uint16_t* positions, std::byte* old_values,
                                     std::byte* new_values);

}  // namespace sparcl::kernels
