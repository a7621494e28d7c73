#pragma once
// A mask's places in the memory of GPUs: brought there when a call first needs them, and held as
// long as calls do.

#include <memory>
#include <mutex>
#include <vector>

#include "kernels/mask_access.hpp"
#include "src/gpu/device_stream.hpp"
#include "src/sparse/mask/mask.hpp"

namespace sparcl::sparse {

// As the mask was when it was made; never changed.
struct DeviceMask {
  bool is_full = false;  // all elements: there are no places
  kernels::MaskPlaces places;
  gpu::DeviceBuffer memory;
};

// Of one mask. Threads that are ranks of several GPUs may share it.
class DeviceMasks {
 public:
  Result<std::shared_ptr<const DeviceMask>> get(const Mask& mask, void* context);
  void clear();  // the mask is another one from now on

 private:
  struct Row {
    void* context;
    std::shared_ptr<const DeviceMask> mask;
  };
  std::mutex mutex_;
  std::vector<Row> rows_;
};

}  // namespace sparcl::sparse
