#include "src/base/caught_error.hpp"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <system_error>

namespace sparcl {
namespace {

Status describe_exception(const char* what, Scope scope) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status(
        Code::kOutOfMemory,
        fmt::format("out of memory: {}: free memory on this host, or raise the process's limit",
                    what),
        scope);
  } catch (const std::system_error& error) {
    return Status(Code::kSystemError, fmt::format("{}: {}", what, error.what()), scope);
  } catch (const std::exception& error) {
    return Status(Code::kInternalError,
                  fmt::format("{}: unexpected exception: {}: please report it", what, error.what()),
                  scope);
  } catch (...) {
    return Status(Code::kInternalError,
                  fmt::format("{}: unexpected exception: please report it", what), scope);
  }
}

Status no_memory_in(Scope scope) {
  return Status(Code::kOutOfMemory, no_memory().message(), scope);
}

}  // namespace

Status caught_error(const char* what, Scope scope) noexcept {
  try {
    return describe_exception(what, scope);
  } catch (...) {
    return no_memory_in(scope);
  }
}

Status status_or_no_memory(Code code, const char* text, Scope scope) noexcept {
  try {
    return Status(code, text, scope);
  } catch (...) {
    return no_memory_in(scope);
  }
}

}  // namespace sparcl
