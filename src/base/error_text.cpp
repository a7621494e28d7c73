#include "src/base/error_text.hpp"

#include <fmt/format.h>

#include <cstring>

namespace sparcl {

// strerror() translates into the language of the locale.
std::string error_text(int error) {
  const char* const text = ::strerrordesc_np(error);
  return text != nullptr ? text : fmt::format("error {}", error);
}

}  // namespace sparcl
