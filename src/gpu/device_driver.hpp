#pragma once
// The CUDA driver's functions, named by meaning: those of the driver that the process has loaded,
// if any. Numbers and signatures are those of the CUDA Driver API reference; the build needs no
// CUDA.

#include <cstddef>

#include "src/base/status.hpp"

namespace sparcl::gpu::driver {

using Result_t = int;
using DevicePointer = unsigned long long;
constexpr Result_t kNotReady = 600;  // CUDA_ERROR_NOT_READY
constexpr int kContextOfPointer = 1, kMemoryTypeOfPointer = 2, kIsManaged = 8,
              kDeviceOfPointer = 9;  // CUpointer_attribute
constexpr unsigned kTypeDevice = 2;  // CUmemorytype
constexpr int kRelaxedCapture = 2;   // CUstreamCaptureMode
constexpr unsigned kNonBlockingStream = 1, kEventWithoutTime = 2, kPinnedForAllContexts = 1;

struct Functions {
  Result_t (*pointer_attribute)(void* value, int attribute, DevicePointer pointer) = nullptr;
  Result_t (*push_context)(void* context) = nullptr;
  Result_t (*pop_context)(void** context) = nullptr;
  Result_t (*copy)(DevicePointer to, DevicePointer from, std::size_t bytes, void* stream) = nullptr;
  Result_t (*synchronize)(void* stream) = nullptr;
  Result_t (*error_string)(Result_t error, const char** text) = nullptr;
  bool can_copy() const {
    return pointer_attribute && push_context && pop_context && copy && synchronize && error_string;
  }

  // Additional functions for stream-ordered calls.
  Result_t (*current_context)(void** context) = nullptr;
  Result_t (*current_device)(int* device) = nullptr;
  Result_t (*allocate)(DevicePointer* pointer, std::size_t bytes) = nullptr;
  Result_t (*free)(DevicePointer pointer) = nullptr;
  Result_t (*create_stream)(void** stream, unsigned flags) = nullptr;
  Result_t (*destroy_stream)(void* stream) = nullptr;
  Result_t (*query_stream)(void* stream) = nullptr;
  Result_t (*is_capturing)(void* stream, int* status) = nullptr;
  Result_t (*exchange_capture_mode)(int* mode) = nullptr;
  Result_t (*create_event)(void** event, unsigned flags) = nullptr;
  Result_t (*record_event)(void* event, void* stream) = nullptr;
  Result_t (*query_event)(void* event) = nullptr;
  Result_t (*await_event)(void* event) = nullptr;
  Result_t (*destroy_event)(void* event) = nullptr;
  Result_t (*order_after_event)(void* stream, void* event, unsigned flags) = nullptr;
  Result_t (*context_of_stream)(void* stream, void** context) = nullptr;
  bool has_streams() const {
    return current_context && current_device && allocate && free && create_stream &&
           destroy_stream && query_stream && is_capturing && exchange_capture_mode &&
           create_event && record_event && query_event && await_event && destroy_event &&
           order_after_event && context_of_stream;
  }

  // Additional functions for calls that stage through pinned memory.
  Result_t (*set_bytes)(DevicePointer to, unsigned char value, std::size_t bytes,
                        void* stream) = nullptr;
  Result_t (*allocate_pinned)(void** pointer, std::size_t bytes, unsigned flags) = nullptr;
  Result_t (*free_pinned)(void* pointer) = nullptr;
  bool can_stage() const { return has_streams() && set_bytes && allocate_pinned && free_pinned; }

  // Optional; callers check for nullptr.
  Result_t (*memory_left)(std::size_t* free, std::size_t* total) = nullptr;
  Result_t (*uuid)(unsigned char (*id)[16], int device) = nullptr;
};

// nullptr: the process has loaded no driver, so it has no device memory. The search is repeated
// after the process has loaded a library.
const Functions* loaded();
// The functions of a library from dlopen.
Functions functions_of(void* library);

DevicePointer as_device(const void* pointer);
Status status_of(const Functions& functions, Result_t error,
                 const char* what);  // "CUDA: what: text (CUresult 2)"

}  // namespace sparcl::gpu::driver
