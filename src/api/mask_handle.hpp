#pragma once
// The mask behind the handle.

#include <atomic>
#include <utility>

#include "collectives/device/device_masks.hpp"
#include "collectives/mask/mask.hpp"
#include "sparcl/sparcl.h"
#include "src/api/handles.hpp"

struct sparclMask {
  sparcl::api::OwnHandle<sparclMask> handle{this};
  explicit sparclMask(sparcl::collectives::Mask made) : mask(std::move(made)) {}
  sparcl::collectives::Mask mask;
  sparcl::collectives::DeviceMasks on_devices;
  std::atomic<int> calls_in_flight{0};  // of all communicators: ranks that are threads may share a mask
};
