#pragma once
// What a handle of the C interface is: no address, but a number that names a slot, the kind of its
// object, and how often the slot was used. So each handle is checked without a look at memory that
// may be gone, and a destroyed one is never taken for a new one.

#include <cstdint>

#include "src/base/status.hpp"

namespace sparcl::api {

enum class HandleKind : std::uint8_t {
  kComm,
  kRequest,
  kState,
  kMask,
  kFeedback,
  kPublisher,
  kSubscriber
};

using HandleNumber = std::uintptr_t;  // 0: none

// A new handle of `object`. Throws std::bad_alloc.
HandleNumber open_handle(HandleKind kind, void* object);

// The object, which stays until let_go(); an error that says what the handle is instead. parameter:
// its name in the call.
Result<void*> hold_handle(HandleNumber handle, HandleKind kind, const char* parameter);
void hold_again(HandleNumber held);
void let_go(HandleNumber held) noexcept;

// By the one that holds it once: from now on nobody else gets in, and who tries waits for
// bury_handle(). False: others hold it, and have not let go of it for some time.
bool close_handle(HandleNumber held) noexcept;
void bury_handle(HandleNumber handle) noexcept;

}  // namespace sparcl::api
