#pragma once
// kernels/device_entries.hpp on CUDA's devices.

#include "kernels/device_entries.hpp"

namespace sparcl::kernels::cuda {

MergeDeviceWorkspaceBytes merge_workspace_bytes;
MergeDeviceEntriesKernel merge_entries;
ScatterDeviceEntriesKernel scatter_entries;
GatherDeviceEntriesKernel gather_entries;

}  // namespace sparcl::kernels::cuda
