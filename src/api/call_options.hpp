#pragma once
// Options of calls: what they may be, and what they override of a communicator's settings.

#include <cstring>
#include <string>

#include "sparcl/core.h"
#include "src/base/determinism.hpp"
#include "src/base/status.hpp"
#include "src/codec/update.hpp"
#include "src/comm/engine/collective_descriptor.hpp"

namespace sparcl::api {

// An enum in a caller's struct may hold any int, also one that is no value of a C++ enum.
template <class Enum>
int number_of(const Enum& value) {
  static_assert(sizeof value == sizeof(int));
  int number;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

// value: 0 to max. "options.mode = 7 is no sparclTopKMode_t".
Status check_enum(const char* field, int value, int max, const char* type);
// A path that may be NULL, but not "": an unset variable is no choice.
Status check_path(const char* field, const char* path);
Status check_toggle(const char* field, const sparclToggle_t& value);
// value: valid. fallback: the meaning of the default.
inline bool is_on(sparclToggle_t value, bool fallback) {
  return value == sparclDefault ? fallback : value == sparclOn;
}

Status check_verify(const char* field, const sparclVerify_t& value);
Status check_determinism(const char* field, const sparclDeterminism_t& value);
Status check_commit(const char* field, const sparclCommit_t& value);
Status check_wire(const char* field, const sparclWire_t& value);
// NULL: the setting's algorithm. An error lists the valid names.
Status check_algorithm(const char* name, const comm::AlgorithmChoice& choice);

// `value` is valid and not the default.
codec::Verify verify_of(sparclVerify_t value);
Determinism determinism_of(sparclDeterminism_t value);

// The text and its zero, for a caller's buffer. Truncated: it does not fit; says what is needed.
Status copy_text(const std::string& text, char* into, std::size_t capacity, const char* name);

}  // namespace sparcl::api
