#pragma once
// Contracts of the passes in which top-k takes the large elements of an array, with or without
// error feedback. Accumulators: float32 for floats of 8 and 16 bits, the type itself for other
// floats and for integers of 32 and 64 bits (which wrap around); other types have none. acc[i] =
// residual[i] + values[i], or values[i] without a residual. Each number has one bit pattern: acc is
// never -0, and each NaN is the quiet NaN. Memory space: host. Runs under a FloatEnvironment
// (base/float_environment.hpp).

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/base/data_type.hpp"

namespace sparcl::kernels {

// residual[i] = acc[i]. An element is taken if the magnitude key (select.hpp) of its acc is at
// least `least`, which is at least 1. For each element taken, writes first + i to `positions`,
// ascending, and acc[i] to `taken`. Returns their number. `positions` has room for count +
// kPositionSlack (diff.hpp) entries, `taken` for count accumulators. first + count <= 65536. Any
// alignment; values and residual do not overlap.
using AccumulateKernel = std::size_t(const std::byte* values, std::size_t count,
                                     std::byte* residual, std::uint32_t first, std::uint64_t least,
                                     std::uint16_t* positions, std::byte* taken);

// The same without a residual. Writes only `positions` and `taken`.
using TakeLargeKernel = std::size_t(const std::byte* values, std::size_t count, std::uint32_t first,
                                    std::uint64_t least, std::uint16_t* positions,
                                    std::byte* taken);

struct AccumulateKernels {  // for one data type; nullptr if it has no accumulator
  AccumulateKernel* accumulate;
  TakeLargeKernel* take_large;
};

// Indexed by the number of the data type.
using AccumulateTable =
    std::array<AccumulateKernels, static_cast<std::size_t>(DataType::kBool) + 1>;

// Only for types that have accumulators.
inline DataType accumulator_type(DataType type) {
  return info(type).is_float && element_bytes(type) < 4 ? DataType::kFloat32 : type;
}

}  // namespace sparcl::kernels
