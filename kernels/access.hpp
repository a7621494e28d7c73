#pragma once
// Contracts of the kernels that access a few elements of a large array. The array's memory is most
// likely not in a cache. Memory space: host. Positions count from the start of a block. `first` is
// the position of array[0], so a block may lie in several arrays.

#include <cstddef>
#include <cstdint>

namespace sparcl::kernels {

// The array that is accessed after this call. The kernel prefetches its first lines while it
// processes the last elements of the current array, so no call starts cold. A hint only.
struct Upcoming {
  const std::byte* array = nullptr;
  const std::uint16_t* positions = nullptr;
  std::size_t count = 0;
  std::uint32_t first = 0;
};

// values[i] = array[positions[i] - first]
using GatherKernel = void(const std::byte* array, const std::uint16_t* positions, std::size_t count,
                          std::uint32_t first, std::byte* values, const Upcoming& next);

// array[positions[i] - first] = values[i]
using ScatterKernel = void(std::byte* array, const std::uint16_t* positions, std::size_t count,
                           std::uint32_t first, const std::byte* values, const Upcoming& next);

// Swaps values[i] and array[positions[i] - first].
using ExchangeKernel = void(std::byte* array, const std::uint16_t* positions, std::size_t count,
                            std::uint32_t first, std::byte* values, const Upcoming& next);

// array[positions[i] - first] += steps[i], with the addition of step.hpp
using AddStepsAtKernel = void(std::byte* array, const std::uint16_t* positions, std::size_t count,
                              std::uint32_t first, const std::byte* steps, const Upcoming& next);

}  // namespace sparcl::kernels
