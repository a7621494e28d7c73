#pragma once
// Contract of the cast of float32 in device memory to floats of 16 and 8 bits. Each call enqueues
// on a stream, allocates nothing and waits for nothing. Nothing of CUDA is needed to include this.

#include <cstdint>

#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels {

// type: float16, bfloat16, float8e4m3 or float8e5m2. Rounds to nearest, ties to even; NaN becomes
// the type's quiet NaN. Values that are too large become infinite; in float8e4m3, which has no
// infinity, the largest number (codec::CastSource). values and out are aligned to their elements.
// Full speed needs both aligned to 16 bytes.
using CastDeviceFloatsKernel = Status(const float* values, std::uint64_t count, DataType type,
                                      void* out, void* stream);

}  // namespace sparcl::kernels
