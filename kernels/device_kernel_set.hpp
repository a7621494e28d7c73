#pragma once
// The table of kernel bodies for one kind of device. Nothing of the device's own headers is needed
// to include this.

#include "kernels/device_block_codec.hpp"
#include "kernels/device_combine.hpp"
#include "kernels/device_entries.hpp"
#include "kernels/device_scaled.hpp"
#include "kernels/device_select.hpp"
#include "kernels/device_sums.hpp"
#include "kernels/mask_access.hpp"

namespace sparcl::kernels {

struct DeviceKernelSet {
  const char* name;
  Status (
      *check_device)();  // whether kernels run on this thread's GPU: its kind, and its driver's age
  MaskGatherKernel* gather_mask;
  MaskScatterKernel* scatter_mask;
  TopKKernels top_k;
  DeviceEntryKernels entries;
  DeviceSumKernels sums;
  EncodeScaledKernel* encode_scaled;
  RoundGroupsKernel* round_groups;
  DeviceBlockKernels blocks;
  CombineDeviceRowsKernel* combine_rows;
};

}  // namespace sparcl::kernels
