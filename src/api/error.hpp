#pragma once
// Where a Status becomes a sparclResult_t, and its text becomes what sparclGetLastError returns.

#include <cstddef>
#include <exception>
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

// The same for the exception that is being handled. Its text is short where there is no memory for a longer one.
sparclResult_t report_exception(sparclComm_t comm) noexcept;

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
  } catch (const std::exception&) {
    return report_exception(comm);
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

// What a caller says of its struct's bytes. A caller of another time has more or fewer fields, but whole ones: each version of a
// struct ends at a multiple of its alignment, which no field lies across.
constexpr std::size_t kFieldBytes = 8;
Status check_size(const std::string& name, std::size_t found, std::size_t expected);

// `extra` bytes after the `known` ones of an input: an option that this library does not have is not one to ignore.
Status check_unknown(const std::string& name, const std::byte* extra, std::size_t bytes);

// Copies the part of a sized C struct that both sides know.
template <class Struct>
Status read_sized(const Struct* from, const char* name, Struct& into) {
  static_assert(alignof(Struct) == kFieldBytes);
  if (from == nullptr) return Status();
  const std::size_t size = from->size;
  if (Status bad = check_size(std::string(name) + ".size", size, sizeof(Struct)); !bad.ok()) return bad;
  const std::size_t known = size < sizeof(Struct) ? size : sizeof(Struct);
  if (Status bad = check_unknown(name, reinterpret_cast<const std::byte*>(from) + known, size - known); !bad.ok()) return bad;
  __builtin_memcpy(&into, from, known);
  into.size = sizeof(Struct);
  return Status();
}

}  // namespace sparcl::api
