#pragma once
// Contracts of the kernels that touch a few elements of a large array. Memory space: host.
// positions count from the start of a block; `first` is the position of array[0], so a block may lie in several arrays.

#include <cstddef>
#include <cstdint>

namespace sparcl::kernels {

// values[i] = array[positions[i] - first]
using GatherKernel = void(const std::byte* array, const std::uint16_t* positions, std::size_t count, std::uint32_t first,
                          std::byte* values);

// array[positions[i] - first] = values[i]
using ScatterKernel = void(std::byte* array, const std::uint16_t* positions, std::size_t count, std::uint32_t first,
                           const std::byte* values);

// Asks for the lines of array[positions[i] - first] without waiting for them, to read or to write. Changes nothing.
using PrefetchKernel = void(const std::byte* array, const std::uint16_t* positions, std::size_t count, std::uint32_t first);

}  // namespace sparcl::kernels
