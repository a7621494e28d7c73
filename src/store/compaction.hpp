#pragma once
// Adds skips that are missing, and an anchor of the newest version. It needs no key: nothing that
// was published changes.

#include "kernels/kernel_set.hpp"
#include "src/store/reader_lease.hpp"
#include "src/store/version_chain.hpp"

namespace sparcl::store {

// Returns how many objects were added. Memory: three copies of the model. A repeated call goes on.
// It holds a lease of so many seconds while it reads.
Result<std::uint64_t> compact(Chain& chain, const kernels::KernelSet& kernels,
                              std::int64_t lease_s = kLeaseSeconds);

}  // namespace sparcl::store
