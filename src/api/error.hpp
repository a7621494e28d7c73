#pragma once
// Where a Status becomes a sparclResult_t, and its text becomes what sparclGetLastError returns.

#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "sparcl/sparcl.h"
#include "src/api/entry.hpp"
#include "src/base/status.hpp"

namespace sparcl::api {

// Keeps the text of an error for sparclGetLastError(NULL) on this thread; where comm is not nullptr for sparclGetLastError(comm),
// too, the rank first. A success leaves the texts as they are.
sparclResult_t report_error(sparclComm_t comm, const Status& status);

// The same for an exception that said no more. Its text is short where there is no memory for a longer one.
sparclResult_t report_out_of_memory(sparclComm_t comm) noexcept;

// Runs a function that returns a Status or a sparclResult_t; no exception leaves the C interface. comm: as above; where it cannot
// be entered (Entry) nothing is run.
template <class Function>
sparclResult_t guarded(sparclComm_t comm, Function&& function) noexcept {
  const Entry entry(comm);
  try {
    if (!entry.is_open()) return report_error(nullptr, entry.refusal());
    if constexpr (std::is_same_v<decltype(function()), Status>) {
      return report_error(comm, function());
    } else {
      return function();
    }
  } catch (const std::bad_alloc&) {
    return report_out_of_memory(comm);
  } catch (const std::exception& error) {
    return report_error(comm, Status(Code::kInternalError, error.what()));
  }
}

// The same for a function of an Entry that any thread may call at any time (Entry::kQuestion): where comm is another one's its text
// is this thread's alone.
template <class Function>
sparclResult_t guarded_for_any(sparclComm_t comm, Function&& function) noexcept {
  const Entry entry(comm, Entry::Purpose::kQuestion);
  return guarded(nullptr, [&]() -> sparclResult_t { return report_error(entry.is_open() ? comm : nullptr, function(entry)); });
}

template <class Function>
sparclResult_t guarded(Function&& function) noexcept {
  return guarded(nullptr, std::forward<Function>(function));
}

// "config.size is 0: ..." of a struct that is `expected` bytes.
std::string wrong_size(const std::string& name, std::size_t found, std::size_t expected);

// Copies the part of a sized C struct that both sides know.
template <class Struct>
Status read_sized(const Struct* from, const char* name, Struct& into) {
  if (from == nullptr) return Status();
  if (from->size < sizeof(std::size_t) || from->size > 4096) {
    return Status(Code::kInvalidArgument, wrong_size(std::string(name) + ".size", from->size, sizeof(Struct)));
  }
  const std::size_t known = from->size < sizeof(Struct) ? from->size : sizeof(Struct);
  __builtin_memcpy(&into, from, known);
  into.size = sizeof(Struct);
  return Status();
}

}  // namespace sparcl::api
