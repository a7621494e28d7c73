#pragma once

#include "src/aggregate/round/contribution.hpp"
#include "src/base/data_type.hpp"
#include "src/sparse/parts/entry_part.hpp"

namespace sparcl::aggregate {

// A contribution's part, with float32 values: see weigh(). part: valid, with values of `type`, a
// float type of at most 32 bits.
Buffer weigh_part(BufferSource& buffers, const kernels::KernelSet& kernels,
                  std::span<const std::byte> part, DataType type, float clip, float weight);

// The same positions, and `weight` at each: for means over contributors.
Buffer weights_part(BufferSource& buffers, std::span<const std::byte> part, DataType type,
                    float weight);

}  // namespace sparcl::aggregate
