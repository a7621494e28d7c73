#pragma once
// Shared by the functions of file.h: options and reports of callers of another version, and the
// callbacks.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "sparcl/file.h"
#include "src/api/error.hpp"
#include "src/model/file_watch.hpp"

namespace sparcl::api {

// The callbacks of a call, as the work takes them. Both may be NULL.
model::FileWatch watch_of(sparclFileProgress_t on_progress, sparclFileNote_t on_note, void* arg);

// InvalidArgument: a path or a name is NULL.
Status check_text(const char* parameter, const char* text);

// Cut where the array is too short.
template <std::size_t bytes>
void put_text(char (&into)[bytes], const std::string& text) {
  const std::size_t used = std::min(text.size(), bytes - 1);
  std::memcpy(into, text.data(), used);
  std::memset(into + used, 0, bytes - used);
}

template <class Struct>
Status check_sized(const char* name, const Struct* into) {
  if (into == nullptr) return Status();
  return check_size(std::string(name) + "->size", into->size, sizeof *into);
}

// Copies the fields that both sides know. `into` was checked.
template <class Struct>
void write_sized(Struct full, Struct* into) {
  if (into == nullptr) return;
  full.size = into->size;
  std::memcpy(into, &full, std::min(into->size, sizeof full));
}

// A call with options and a report, each of which may be NULL. work(options, watch, report) returns
// a Status; `options` holds the defaults.
template <class Options, class Work>
sparclResult_t file_call(const char* name, const Options* given, Options options,
                         sparclFileReport_t* report, Work&& work) noexcept {
  return guarded([&] {
    const auto run = [&]() -> Status {
      SPARCL_RETURN_IF_ERROR(read_sized(given, "options", options));
      SPARCL_RETURN_IF_ERROR(check_sized("report", report));
      sparclFileReport_t full = SPARCL_FILE_REPORT_INITIALIZER;
      const auto begin = std::chrono::steady_clock::now();
      SPARCL_RETURN_IF_ERROR(
          work(options, watch_of(options.on_progress, options.on_note, options.arg), full));
      full.seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      write_sized(full, report);
      return Status();
    };
    return in_call(name, run());
  });
}

}  // namespace sparcl::api
