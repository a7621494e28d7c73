#pragma once
// A mask's positions in the memory of GPUs: copied there when a call first needs them, and kept
// while calls use them.

#include <memory>
#include <mutex>
#include <vector>

#include "kernels/mask_access.hpp"
#include "src/gpu/device_stream.hpp"
#include "src/sparse/mask/mask.hpp"

namespace sparcl::sparse {

// The mask at the time when it was made; never changed.
struct DeviceMask {
  bool is_full = false;  // all elements: there are no positions
  kernels::MaskPlaces places;
  gpu::DeviceBuffer memory;
};

// The device copies of one mask. Threads that are ranks of several GPUs may share it.
class DeviceMasks {
 public:
  Result<std::shared_ptr<const DeviceMask>> get(const Mask& mask, void* context);
  void clear();  // the mask has changed

 private:
  struct Row {
    void* context;
    std::shared_ptr<const DeviceMask> mask;
  };
  std::mutex mutex_;
  std::vector<Row> rows_;
};

}  // namespace sparcl::sparse
