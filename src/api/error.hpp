#pragma once
// Where a Status becomes a sparclResult_t, and its text becomes what sparclGetLastError returns.

#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "sparcl/sparcl.h"
#include "src/base/status.hpp"

namespace sparcl::api {

// Keeps the text of an error for sparclGetLastError(NULL) on this thread; where comm is not nullptr for sparclGetLastError(comm),
// too, the rank first. A success leaves the texts as they are.
sparclResult_t report_error(sparclComm_t comm, const Status& status);

// Runs a function that returns a Status or a sparclResult_t; no exception leaves the C interface. comm: as above.
template <class Function>
sparclResult_t guarded(sparclComm_t comm, Function&& function) noexcept {
  try {
    if constexpr (std::is_same_v<decltype(function()), Status>) {
      return report_error(comm, function());
    } else {
      return function();
    }
  } catch (const std::bad_alloc&) {
    return sparclOutOfMemory;  // no text: it would need memory
  } catch (const std::exception& error) {
    return report_error(comm, Status(Code::kInternalError, error.what()));
  }
}

template <class Function>
sparclResult_t guarded(Function&& function) noexcept {
  return guarded(nullptr, std::forward<Function>(function));
}

// Copies the part of a sized C struct that both sides know.
template <class Struct>
Status read_sized(const Struct* from, const char* name, Struct& into) {
  if (from == nullptr) return Status();
  if (from->size < sizeof(std::size_t) || from->size > 4096) {
    return Status(Code::kInvalidArgument, std::string(name) + ".size is not set: begin with its INITIALIZER macro");
  }
  const std::size_t known = from->size < sizeof(Struct) ? from->size : sizeof(Struct);
  __builtin_memcpy(&into, from, known);
  into.size = sizeof(Struct);
  return Status();
}

}  // namespace sparcl::api
