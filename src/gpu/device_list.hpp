#pragma once
// The GPUs of this machine, as the driver reports them. Loads the driver if there is one: for
// programs that list the hardware.

#include <cstdint>
#include <string>
#include <vector>

namespace sparcl::gpu {

struct DeviceEntry {
  std::string name;
  std::uint64_t memory_bytes = 0;
  int capability_major = 0, capability_minor = 0;
};

struct DeviceList {
  std::string why_none;  // empty: there are some
  int driver_version =
      0;  // the CUDA version that it knows, 1000 * major + 10 * minor; 0: no driver
  std::vector<DeviceEntry> devices;
};

std::string driver_version_text(int version);  // "13.0"
DeviceList list_devices();

}  // namespace sparcl::gpu
