#pragma once
// A handle of the C interface is a number, not an address: it names a slot, the kind of its object,
// and how often the slot was used. Each handle is checked without a look at memory that may be
// gone, and a destroyed handle is never taken for a new one.

#include <cstdint>

#include "src/base/status.hpp"

namespace sparcl::api {

enum class HandleKind : std::uint8_t {
  kComm,
  kRequest,
  kState,
  kMask,
  kFeedback,
  kAggregator,
  kWorker,
  kPublisher,
  kSubscriber,
  kStore
};

using HandleNumber = std::uintptr_t;  // 0: none

// A new handle of `object`. Throws std::bad_alloc.
HandleNumber open_handle(HandleKind kind, void* object);

// The object, which stays until let_go(); an error that says what the handle is instead. parameter:
// its name in the call.
Result<void*> hold_handle(HandleNumber handle, HandleKind kind, const char* parameter);
void hold_again(HandleNumber held);
void let_go(HandleNumber held) noexcept;

// The caller holds it once. From now on hold_handle() waits some time for bury_handle(). False:
// another thread closes it, or other threads have not let go of it for some time.
bool close_handle(HandleNumber held) noexcept;
void bury_handle(HandleNumber handle) noexcept;

}  // namespace sparcl::api
