#pragma once
// Sums over ranks on CUDA's devices, as kernels/device_sums.hpp has them.

#include "kernels/device_sums.hpp"

namespace sparcl::kernels::cuda {

CheckDeviceListsKernel check_lists;
RoundDeviceValuesKernel round_values;
SumDeviceRowsKernel sum_rows;
LeaveDeviceRestKernel leave_rest;
LeaveDeviceMeanKernel leave_mean;
KeepLargestEntriesKernel keep_largest;
KeepLargestWorkspaceBytes keep_largest_workspace_bytes;

}  // namespace sparcl::kernels::cuda
