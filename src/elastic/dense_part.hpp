#pragma once
// Contributions of all elements, without a list of their indices.

#include <cstdint>
#include <span>
#include <vector>

#include "src/elastic/contribution_bytes.hpp"

namespace sparcl::elastic {

// The entries of a contribution and its bytes.
struct PackedAll {
  std::uint64_t entries = 0;
  Packed packed;
};

// A part of all values that are not 0, as pack() makes it of their indices. wire: not scaled.
Result<PackedAll> pack_all(BufferSource& buffers, const kernels::KernelSet& kernels,
                           const sparse::BlockRun& run, const sparse::WireType& wire,
                           std::span<const float> values);

// values[i] - its sent value.
std::vector<float> rest_of_all(const kernels::KernelSet& kernels, const sparse::WireType& wire,
                               std::span<const float> values);

}  // namespace sparcl::elastic
