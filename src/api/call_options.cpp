#include "src/api/call_options.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sparcl::api {

Status check_enum(const char* field, int value, int max, const char* type) {
  if (value >= 0 && value <= max) return Status();
  return Status(Code::kInvalidArgument, fmt::format("{} = {} is no {}", field, value, type));
}

Status check_path(const char* field, const char* path) {
  if (path == nullptr || *path != '\0') return {};
  return Status(Code::kInvalidArgument,
                fmt::format("options.{} is empty: give a path, or NULL for none", field));
}

Status check_toggle(const char* field, const sparclToggle_t& value) {
  return check_enum(field, number_of(value), sparclOff, "sparclToggle_t");
}

Status check_verify(const char* field, const sparclVerify_t& value) {
  return check_enum(field, number_of(value), sparclVerifyFull, "sparclVerify_t");
}

Status check_determinism(const char* field, const sparclDeterminism_t& value) {
  return check_enum(field, number_of(value), sparclDeterminismFast, "sparclDeterminism_t");
}

Status check_commit(const char* field, const sparclCommit_t& value) {
  return check_enum(field, number_of(value), sparclCommitEarly, "sparclCommit_t");
}

Status check_wire(const char* field, const sparclWire_t& value) {
  return check_enum(field, number_of(value), sparclWireInt2, "sparclWire_t");
}

Status check_algorithm(const char* name, const comm::AlgorithmChoice& choice) {
  const std::string_view given = name != nullptr ? name : "auto";
  const auto names = choice.names();
  if (given == "auto" || std::ranges::find(names, given) != names.end()) return Status();
  return Status(Code::kInvalidArgument,
                fmt::format("options.algorithm = '{}': expected auto, {}, or NULL for SPARCL_{}",
                            given, fmt::join(names, ", "), choice.setting));
}

codec::Verify verify_of(sparclVerify_t value) {
  return value == sparclVerifyOff    ? codec::Verify::kOff
         : value == sparclVerifyFull ? codec::Verify::kFull
                                     : codec::Verify::kTouched;
}

Determinism determinism_of(sparclDeterminism_t value) {
  return value == sparclDeterminismCanonical ? Determinism::kCanonical : Determinism::kRuns;
}

Status copy_text(const std::string& text, char* into, std::size_t capacity, const char* name) {
  if (into == nullptr) return Status(Code::kInvalidArgument, fmt::format("{} is NULL", name));
  if (capacity <= text.size()) {
    return Status(Code::kTruncated, fmt::format("{} has room for {} bytes, {} are needed", name,
                                                capacity, text.size() + 1));
  }
  std::memcpy(into, text.c_str(), text.size() + 1);
  return {};
}

}  // namespace sparcl::api
