#pragma once
// The mask behind the handle.

#include <atomic>
#include <utility>

#include "sparcl/sparcl.h"
#include "src/api/handles.hpp"
#include "src/sparse/mask/mask.hpp"
#include "src/sparse/mask/mask_device.hpp"

struct sparclMask {
  sparcl::api::OwnHandle<sparclMask> handle{this};
  explicit sparclMask(sparcl::sparse::Mask made) : mask(std::move(made)) {}
  sparcl::sparse::Mask mask;
  sparcl::sparse::DeviceMasks on_devices;
  std::atomic<int> calls_in_flight{
      0};  // of all communicators: ranks that are threads may share a mask
};
