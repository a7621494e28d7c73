#pragma once

#include <vector>

#include "src/sparse/parts/entry_part.hpp"

namespace sparcl::aggregate {

// The indices of a part's entries. False if they do not ascend, or are not below `end`.
[[nodiscard]] bool list_indices(const kernels::KernelSet& kernels, sparse::PartView view,
                                const sparse::BlockRun& run, std::uint64_t end,
                                std::vector<std::uint64_t>& indices);

}  // namespace sparcl::aggregate
