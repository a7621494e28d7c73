#include "src/gpu/device_list.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "src/gpu/device_driver.hpp"

namespace sparcl::gpu {
namespace {

using driver::Result_t;

struct Questions {
  Result_t (*init)(unsigned flags) = nullptr;
  Result_t (*driver_version)(int* version) = nullptr;
  Result_t (*count)(int* count) = nullptr;
  Result_t (*get)(int* device, int number) = nullptr;
  Result_t (*name)(char* name, int length, int device) = nullptr;
  Result_t (*memory)(std::size_t* bytes, int device) = nullptr;
  Result_t (*attribute)(int* value, int attribute, int device) = nullptr;
  bool is_whole() const {
    return init && driver_version && count && get && name && memory && attribute;
  }
};

template <class Function>
void find(void* library, const char* symbol, Function*& into) {
  into = reinterpret_cast<Function*>(::dlsym(library, symbol));
}

Questions questions_of(void* library) {
  Questions found;
  find(library, "cuInit", found.init);
  find(library, "cuDriverGetVersion", found.driver_version);
  find(library, "cuDeviceGetCount", found.count);
  find(library, "cuDeviceGet", found.get);
  find(library, "cuDeviceGetName", found.name);
  find(library, "cuDeviceTotalMem_v2", found.memory);
  find(library, "cuDeviceGetAttribute", found.attribute);
  return found;
}

DeviceEntry describe(const Questions& cuda, int number) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
  DeviceEntry entry{"unknown", 0, 0, 0};
  int device = 0;
  char name[256] = {};
  std::size_t bytes = 0;
  if (cuda.get(&device, number) != 0) return entry;
  if (cuda.name(name, sizeof name - 1, device) == 0) entry.name = name;
  if (cuda.memory(&bytes, device) == 0) entry.memory_bytes = bytes;
  (void)cuda.attribute(&entry.capability_major, kMajor, device);
  (void)cuda.attribute(&entry.capability_minor, kMinor, device);
  return entry;
}

}  // namespace

std::string driver_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

DeviceList list_devices() {
  DeviceList list;
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    list.why_none =
        "no NVIDIA driver: libcuda.so.1 cannot be loaded; install the driver, or give the "
        "container its GPUs";
    return list;
  }
  const Questions cuda = questions_of(library);
  if (!cuda.is_whole()) {
    list.why_none =
        "libcuda.so.1 lacks functions of the CUDA driver: is it a stub? Put the driver's before it";
    return list;
  }
  (void)cuda.driver_version(&list.driver_version);
  const driver::Functions texts = driver::functions_of(library);
  int count = 0;
  Result_t error = cuda.init(0);
  if (error == 0) error = cuda.count(&count);
  if (error != 0) {
    const char* text = nullptr;
    if (texts.error_string == nullptr || texts.error_string(error, &text) != 0) text = nullptr;
    list.why_none = fmt::format("the driver finds no GPU: {} (CUresult {})",
                                text != nullptr ? text : "unknown error", error);
    return list;
  }
  for (int number = 0; number < count; ++number) list.devices.push_back(describe(cuda, number));
  if (list.devices.empty())
    list.why_none = "the driver has no GPU (CUDA_VISIBLE_DEVICES may hide them)";
  return list;
}

}  // namespace sparcl::gpu
