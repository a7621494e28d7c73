#pragma once

#include "src/sparse/parts/entry_part.hpp"

namespace sparcl::aggregate {

// Writes the indices of a part's entries. False if they do not ascend, or are not below `end`;
// some may be written then.
[[nodiscard]] bool write_indices(const kernels::KernelSet& kernels, sparse::PartView view,
                                 const sparse::BlockRun& run, std::uint64_t end,
                                 std::uint64_t* indices);

}  // namespace sparcl::aggregate
