#include "src/gpu/device_driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <atomic>
#include <cstdint>

namespace sparcl::gpu::driver {
namespace {

template <class Function>
void find(void* library, const char* name, Function*& into) {
  into = reinterpret_cast<Function*>(::dlsym(library, name));
}

// The number of libraries that the process has loaded until now.
std::uint64_t libraries_loaded() {
  std::uint64_t count = 0;
  (void)::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        *static_cast<std::uint64_t*>(into) = info->dlpi_adds;
        return 1;  // every object has the same number
      },
      &count);
  return count;
}

}  // namespace

Functions functions_of(void* library) {
  Functions found;
  find(library, "cuPointerGetAttribute", found.pointer_attribute);
  find(library, "cuCtxPushCurrent_v2", found.push_context);
  find(library, "cuCtxPopCurrent_v2", found.pop_context);
  find(library, "cuMemcpyAsync", found.copy);
  find(library, "cuStreamSynchronize", found.synchronize);
  find(library, "cuGetErrorString", found.error_string);
  find(library, "cuCtxGetCurrent", found.current_context);
  find(library, "cuCtxGetDevice", found.current_device);
  find(library, "cuMemAlloc_v2", found.allocate);
  find(library, "cuMemFree_v2", found.free);
  find(library, "cuStreamCreate", found.create_stream);
  find(library, "cuStreamDestroy_v2", found.destroy_stream);
  find(library, "cuStreamQuery", found.query_stream);
  find(library, "cuStreamIsCapturing", found.is_capturing);
  find(library, "cuThreadExchangeStreamCaptureMode", found.exchange_capture_mode);
  find(library, "cuEventCreate", found.create_event);
  find(library, "cuEventRecord", found.record_event);
  find(library, "cuEventQuery", found.query_event);
  find(library, "cuEventSynchronize", found.await_event);
  find(library, "cuEventDestroy_v2", found.destroy_event);
  find(library, "cuStreamWaitEvent", found.order_after_event);
  find(library, "cuStreamGetCtx", found.context_of_stream);
  find(library, "cuMemsetD8Async", found.set_bytes);
  find(library, "cuMemHostAlloc", found.allocate_pinned);
  find(library, "cuMemFreeHost", found.free_pinned);
  find(library, "cuMemGetInfo_v2", found.memory_left);
  find(library, "cuDeviceGetUuid_v2", found.uuid);  // a part of a GPU has its own
  if (found.uuid == nullptr) find(library, "cuDeviceGetUuid", found.uuid);
  return found;
}

const Functions* loaded() {
  static std::atomic<const Functions*> known = nullptr;
  if (const Functions* functions = known.load(std::memory_order_acquire); functions != nullptr)
    return functions;
  static std::atomic<std::uint64_t> looked_at = 0;
  const std::uint64_t count = libraries_loaded();
  if (count == looked_at.load(std::memory_order_relaxed)) return nullptr;
  void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    looked_at.store(count, std::memory_order_relaxed);
    return nullptr;
  }
  static const Functions functions = functions_of(library);
  if (!functions.can_copy()) return nullptr;
  known.store(&functions, std::memory_order_release);
  return &functions;
}

DevicePointer as_device(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

Status status_of(const Functions& functions, Result_t error, const char* what) {
  if (error == 0) return Status();
  constexpr Result_t kOutOfMemory = 2;
  const char* text = nullptr;
  if (functions.error_string(error, &text) != 0 || text == nullptr) text = "unknown error";
  return Status(error == kOutOfMemory ? Code::kOutOfMemory : Code::kUnhandledCudaError,
                fmt::format("CUDA: {}: {} (CUresult {})", what, text, error));
}

}  // namespace sparcl::gpu::driver
