#pragma once

#include <fmt/format.h>
#include <ucp/api/ucp.h>

#include <string>

#include "src/base/status.hpp"

namespace sparcl::transport {

inline Code ucx_code(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_NO_MEMORY:
      return Code::kOutOfMemory;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_REJECTED:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
      return Code::kRemoteError;
    default:
      return Code::kSystemError;
  }
}

inline Status ucx_status(ucs_status_t status, std::string_view what) {
  if (status == UCS_OK) return {};
  return Status(ucx_code(status), fmt::format("{}: UCX says: {}", what, ucs_status_string(status)));
}

}  // namespace sparcl::transport
