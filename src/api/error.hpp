#pragma once
// Where a Status becomes a sparclResult_t, and its text becomes what sparclGetLastError returns.

#include <cstddef>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "sparcl/sparcl.h"
#include "src/api/entry.hpp"
#include "src/api/handles.hpp"
#include "src/base/status.hpp"

namespace sparcl::api {

// Keeps the text of an error, with the rank first, for sparclGetLastError on this thread. If comm
// is not nullptr, other threads that ask with this comm get it, too. A success keeps the old texts.
sparclResult_t report_error(sparclComm* comm, const Status& status);

// The text that report_error() keeps.
std::string error_text(const sparclComm* comm, const Status& status);
// Keeps a text that was made before.
sparclResult_t report_text(sparclComm* comm, sparclResult_t result, std::string text);

// report_error() for the exception that is being handled. Without memory its text is a short one.
sparclResult_t report_exception(sparclComm* comm) noexcept;

// Runs a function that returns a Status or a sparclResult_t; no exception leaves the C interface.
// comm: as above.
template <class Function>
sparclResult_t without_exceptions(sparclComm* comm, Function&& function) noexcept {
  try {
    if constexpr (std::is_same_v<decltype(function()), Status>) {
      return report_error(comm, function());
    } else {
      return function();
    }
  } catch (const std::exception&) {
    return report_exception(comm);
  }
}

// Puts the C function's name before an error. A success needs no memory: a call without free memory
// still takes part, and a destroy function still destroys.
inline Status in_call(const char* name, Status status) {
  return status.ok() ? status : status.with_prefix(std::string(name) + ": ");
}

// A call without a communicator.
template <class Function>
sparclResult_t guarded(Function&& function) noexcept {
  return without_exceptions(nullptr, std::forward<Function>(function));
}

// A call with another handle: function(object) returns a Status. name: the C function's; its errors
// begin with it.
template <class Object, class Function>
sparclResult_t guarded_with(const char* name, Object* handle, const char* parameter,
                            Function&& function) noexcept {
  return guarded([&]() -> Status {
    const Held<Object> held(handle, parameter);
    return in_call(name, held.status().ok() ? Status(function(*held)) : held.status());
  });
}

// A destroy function. check(object): whether it may go now.
template <class Object, class Check>
sparclResult_t destroy_handle(const char* name, Object* handle, const char* parameter,
                              Check&& check) noexcept {
  if (handle == nullptr) return sparclSuccess;
  return guarded([&]() -> Status {
    Held<Object> held(handle, parameter);
    Status status = held.status();
    if (status.ok()) status = check(*held);
    if (status.ok()) status = held.destroy(parameter);
    return in_call(name, std::move(status));
  });
}

// The same for an object of one process: in a child of fork() it stays the parent's, and nothing is
// done.
template <class Object, class IsOwn>
sparclResult_t destroy_own(const char* name, Object* handle, const char* parameter,
                           IsOwn&& is_own) noexcept {
  if (handle == nullptr) return sparclSuccess;
  return guarded([&]() -> Status {
    Held<Object> held(handle, parameter);
    Status status = held.status();
    if (status.ok() && is_own(*held)) status = held.destroy(parameter);
    return in_call(name, std::move(status));
  });
}

// A call of a communicator, by one thread at a time (Entry): function(comm) returns a Status or a
// sparclResult_t.
template <class Function>
sparclResult_t guarded_in(const char* name, sparclComm_t handle, Function&& function,
                          Entry::Purpose purpose = Entry::Purpose::kCall) noexcept {
  return without_exceptions(nullptr, [&]() -> sparclResult_t {
    const Held<sparclComm> comm(handle, "comm");
    if (!comm.status().ok()) return report_error(nullptr, in_call(name, comm.status()));
    const Entry entry(comm.get(), purpose);
    if (!entry.is_open()) return report_error(nullptr, in_call(name, entry.refusal()));
    return without_exceptions(comm.get(), [&] {
      if constexpr (std::is_same_v<decltype(function(*comm)), Status>) {
        return in_call(name, function(*comm));
      } else {
        return function(*comm);
      }
    });
  });
}

// The same for a function(comm, entry) that any thread may call at any time (Entry::kQuestion). If
// another thread is in comm, the error's text is kept for this thread alone.
template <class Function>
sparclResult_t guarded_about(const char* name, sparclComm_t handle, Function&& function) noexcept {
  return without_exceptions(nullptr, [&]() -> sparclResult_t {
    const Held<sparclComm> comm(handle, "comm");
    if (!comm.status().ok()) return report_error(nullptr, in_call(name, comm.status()));
    const Entry entry(comm.get(), Entry::Purpose::kQuestion);
    return report_error(entry.is_open() ? comm.get() : nullptr,
                        in_call(name, function(*comm, entry)));
  });
}

// "config.size is 0: ..." of a struct that is `expected` bytes.
std::string wrong_size(const std::string& name, std::size_t found, std::size_t expected);

// Checks the size that a caller gives of its struct. A caller of another version has more or fewer
// fields, but whole ones: each version of a struct ends at a multiple of its alignment, which no
// field lies across.
constexpr std::size_t kFieldBytes = 8;
Status check_size(const std::string& name, std::size_t found, std::size_t expected);

// Refuses `extra` bytes of an input that are not 0: an option that this library does not have must
// not be ignored.
Status check_unknown(const std::string& name, const std::byte* extra, std::size_t bytes);

// Copies the part of a sized C struct that both sides know.
template <class Struct>
Status read_sized(const Struct* from, const char* name, Struct& into) {
  static_assert(alignof(Struct) == kFieldBytes);
  if (from == nullptr) return Status();
  const std::size_t size = from->size;
  SPARCL_RETURN_IF_ERROR(check_size(std::string(name) + ".size", size, sizeof(Struct)));
  const std::size_t known = size < sizeof(Struct) ? size : sizeof(Struct);
  SPARCL_RETURN_IF_ERROR(
      check_unknown(name, reinterpret_cast<const std::byte*>(from) + known, size - known));
  __builtin_memcpy(&into, from, known);
  into.size = sizeof(Struct);
  return Status();
}

// Writes the part of a sized C struct that the caller's version has.
template <class Struct>
Status write_sized(const Struct& from, const char* name, Struct* into) {
  if (into == nullptr) return Status(Code::kInvalidArgument, std::string(name) + " is NULL");
  const std::size_t size = into->size;
  SPARCL_RETURN_IF_ERROR(check_size(std::string(name) + "->size", size, sizeof(Struct)));
  __builtin_memcpy(into, &from, size < sizeof(Struct) ? size : sizeof(Struct));
  into->size = size;
  return Status();
}

}  // namespace sparcl::api
