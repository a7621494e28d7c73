#pragma once
// Hashes of tensors in device memory, made there: whether they hold what they held is known for 16
// bytes each.

#include <vector>

#include "kernels/device_kernel_set.hpp"
#include "src/base/checksum.hpp"
#include "src/base/status.hpp"
#include "src/codec/block_map.hpp"
#include "src/model/device_tensor_source.hpp"

namespace sparcl::model {

// One for each array of the map, of its values after the work enqueued in the stream; arrays that
// are nullptr are not read. source: has their contexts, in which the kernels run.
Result<std::vector<Hash128>> device_fingerprints(const codec::BlockMap& map,
                                                 std::span<std::byte* const> arrays,
                                                 const DeviceTensorSource& source,
                                                 const kernels::DeviceKernelSet& kernels,
                                                 void* stream);

}  // namespace sparcl::model
