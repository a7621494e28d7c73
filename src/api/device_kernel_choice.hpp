#pragma once
// The kernels on device memory that this build has.

#include "kernels/device_kernel_set.hpp"
#include "src/api/comm.hpp"
#include "src/base/status.hpp"

namespace sparcl::api {

// Unsupported where there are none.
Result<const kernels::DeviceKernelSet*> device_kernels();

// What a blocking top-k call on these arrays takes of their GPU, entered for it; nullptr: it goes by way of the host. Both arrays
// are in device memory of one GPU, on which this build's kernels run, and the kernels take the type.
collectives::DeviceScratch* scratch_for_top_k(sparclComm& comm, const void* send, const void* receive, DataType type);

}  // namespace sparcl::api
