#include "src/base/device_memory.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <atomic>
#include <cstdint>

namespace sparcl {
namespace {

// The driver's interface (CUDA Driver API reference; cuda.h has the same numbers).
using Result_t = int;
using DevicePointer = unsigned long long;
constexpr int kContextOfPointer = 1, kMemoryTypeOfPointer = 2, kIsManaged = 8;  // CUpointer_attribute
constexpr unsigned kTypeDevice = 2;                                             // CUmemorytype

struct Driver {
  Result_t (*pointer_attribute)(void* value, int attribute, DevicePointer pointer) = nullptr;
  Result_t (*push_context)(void* context) = nullptr;
  Result_t (*pop_context)(void** context) = nullptr;
  Result_t (*copy)(DevicePointer to, DevicePointer from, std::size_t bytes, void* stream) = nullptr;
  Result_t (*synchronize)(void* stream) = nullptr;
  Result_t (*error_string)(Result_t error, const char** text) = nullptr;

  bool is_whole() const { return pointer_attribute && push_context && pop_context && copy && synchronize && error_string; }
};

template <class Function>
void find(void* library, const char* name, Function*& into) {
  into = reinterpret_cast<Function*>(::dlsym(library, name));
}

// How many libraries the process has loaded so far.
std::uint64_t libraries_loaded() {
  std::uint64_t count = 0;
  (void)::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        *static_cast<std::uint64_t*>(into) = info->dlpi_adds;
        return 1;  // each has the same number
      },
      &count);
  return count;
}

// Only a process that has loaded the driver has device memory: this one loads none. It is looked for again where a library came.
const Driver* loaded_driver() {
  static std::atomic<const Driver*> known = nullptr;
  if (const Driver* driver = known.load(std::memory_order_acquire); driver != nullptr) return driver;
  static std::atomic<std::uint64_t> looked_at = 0;
  const std::uint64_t loaded = libraries_loaded();
  if (loaded == looked_at.load(std::memory_order_relaxed)) return nullptr;
  void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    looked_at.store(loaded, std::memory_order_relaxed);
    return nullptr;
  }
  static const Driver driver = [library] {
    Driver found;
    find(library, "cuPointerGetAttribute", found.pointer_attribute);
    find(library, "cuCtxPushCurrent_v2", found.push_context);
    find(library, "cuCtxPopCurrent_v2", found.pop_context);
    find(library, "cuMemcpyAsync", found.copy);
    find(library, "cuStreamSynchronize", found.synchronize);
    find(library, "cuGetErrorString", found.error_string);
    return found;
  }();
  if (!driver.is_whole()) return nullptr;
  known.store(&driver, std::memory_order_release);
  return &driver;
}

DevicePointer as_device(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

Status status_of(const Driver& driver, Result_t error, const char* what) {
  if (error == 0) return Status();
  const char* text = nullptr;
  if (driver.error_string(error, &text) != 0 || text == nullptr) text = "unknown error";
  return Status(Code::kUnhandledCudaError, fmt::format("CUDA: {}: {} (CUresult {})", what, text, error));
}

}  // namespace

MemorySpace space_of(const void* pointer) {
  const Driver* const driver = pointer != nullptr ? loaded_driver() : nullptr;
  if (driver == nullptr) return MemorySpace::kHost;
  unsigned type = 0;
  int is_managed = 0;
  // Of memory that it does not know the driver says "invalid value".
  if (driver->pointer_attribute(&type, kMemoryTypeOfPointer, as_device(pointer)) != 0 || type != kTypeDevice)
    return MemorySpace::kHost;
  if (driver->pointer_attribute(&is_managed, kIsManaged, as_device(pointer)) == 0 && is_managed != 0) return MemorySpace::kHost;
  return MemorySpace::kDevice;
}

Status copy_device_memory(void* to, const void* from, std::size_t bytes, void* stream) {
  const Driver* const driver = loaded_driver();
  if (driver == nullptr) return Status(Code::kUnhandledCudaError, "CUDA: this process has loaded no driver");
  const void* const on_device = space_of(to) == MemorySpace::kDevice ? to : from;
  void* context = nullptr;
  SPARCL_RETURN_IF_ERROR(status_of(*driver, driver->pointer_attribute(&context, kContextOfPointer, as_device(on_device)),
                                   "the context of device memory"));
  // Any thread may call, also one that has no context of its own.
  SPARCL_RETURN_IF_ERROR(status_of(*driver, driver->push_context(context), "entering the context of device memory"));
  Status copied = status_of(*driver, driver->copy(as_device(to), as_device(from), bytes, stream), "a copy of device memory");
  if (copied.ok()) copied = status_of(*driver, driver->synchronize(stream), "waiting for a stream");
  void* left = nullptr;
  (void)driver->pop_context(&left);
  return copied;
}

}  // namespace sparcl
