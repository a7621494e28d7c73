#pragma once

#include <fmt/format.h>
#include <ucp/api/ucp.h>

#include <string>

#include "src/base/status.hpp"

namespace sparcl {

inline Status ucx_status(ucs_status_t status, std::string_view what) {
  if (status == UCS_OK) return {};
  const Code code = status == UCS_ERR_NO_MEMORY ? Code::kOutOfMemory : Code::kSystemError;
  return Status(code, fmt::format("{}: UCX says: {}", what, ucs_status_string(status)));
}

}  // namespace sparcl
