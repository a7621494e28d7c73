#pragma once
// Contracts of the kernels for steps. ord(x) maps a float's bits one to one to an integer that
// keeps the floats' order (x < 0: ~x, else x with the sign bit set). For integers it is the
// identity. The step of a change is d = ord(new) - ord(old) modulo 2^width, read as signed. Arrays
// are of the element's width. Memory space: host.

#include <cstddef>
#include <cstdint>

#include "kernels/bit_stream.hpp"

namespace sparcl::kernels {

// magnitudes[i] = |d_i|; bit i of `negative` is 1 if d_i < 0 (room for count / 64 + 1 words; the
// rest of the last word is zero).
using SplitStepsKernel = void(const std::byte* old_values, const std::byte* new_values,
                              std::size_t count, std::byte* magnitudes, std::uint64_t* negative);

// Writes the i with magnitudes[i] != 1, ascending, to `indices` (room for count + kPositionSlack).
// Returns their number. count <= 65536.
using FindNotOneKernel = std::size_t(const std::byte* magnitudes, std::size_t count,
                                     std::uint16_t* indices);

// steps[i] = -1 if bit `bit` + i of `bits` is 1, else +1. `bits` has kBitSlackBytes readable after
// its end.
using UnitStepsKernel = void(const std::byte* bits, std::uint64_t bit, std::size_t count,
                             std::byte* steps);

// new_values[i] = the value whose ord is ord(old_values[i]) + steps[i]. new_values may be
// old_values.
using AddStepsKernel = void(const std::byte* old_values, const std::byte* steps, std::size_t count,
                            std::byte* new_values);

}  // namespace sparcl::kernels
