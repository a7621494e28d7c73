#pragma once

#include <fmt/format.h>

#include <cerrno>

#include "src/base/status.hpp"
#include "src/net/socket.hpp"

namespace sparcl::replication {

// Why there is no connection to a `what` ("publisher", "replica").
inline Status no_connection(int error, const char* what) {
  if (error != ECONNREFUSED)
    return Status(Code::kRemoteError, fmt::format("no connection: {}", error_text(error)));
  return Status(
      Code::kRemoteError,
      fmt::format("connection refused: no {} listens there; start one, or correct HOST:PORT",
                  what));
}

}  // namespace sparcl::replication
