#pragma once
// Contracts of the passes in which top-k takes the large elements of an array, with or without
// error feedback. Accumulators: float32 for floats of 8 and 16 bits, the type itself for other
// floats and for integers of 32 and 64 bits (which wrap around); other types have none. acc[i] =
// residual[i] + values[i], or values[i] where there is no residual. One pattern of bits a number:
// acc is never -0, and each NaN is the quiet NaN. Memory space: host. Under a FloatEnvironment
// (base/float_environment.hpp).

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/base/data_type.hpp"

namespace sparcl::kernels {

// residual[i] = acc[i]. Writes first + i for each i whose acc has a magnitude key (select.hpp) of
// `least` >= 1 or more, ascending, to `positions` (room for count + kPositionSlack of diff.hpp) and
// that acc to `taken` (room for count accumulators). Returns how many. first + count <= 65536. Any
// alignment; values and residual do not overlap.
using AccumulateKernel = std::size_t(const std::byte* values, std::size_t count,
                                     std::byte* residual, std::uint32_t first, std::uint64_t least,
                                     std::uint16_t* positions, std::byte* taken);

// The same without a residual: nothing but `positions` and `taken` is written.
using TakeLargeKernel = std::size_t(const std::byte* values, std::size_t count, std::uint32_t first,
                                    std::uint64_t least, std::uint16_t* positions,
                                    std::byte* taken);

struct AccumulateKernels {  // for one data type; nullptr where it has no accumulators
  AccumulateKernel* accumulate;
  TakeLargeKernel* take_large;
};

// By the number of the data type.
using AccumulateTable =
    std::array<AccumulateKernels, static_cast<std::size_t>(DataType::kBool) + 1>;

// Of the types that have accumulators.
inline DataType accumulator_type(DataType type) {
  return info(type).is_float && element_bytes(type) < 4 ? DataType::kFloat32 : type;
}

}  // namespace sparcl::kernels
