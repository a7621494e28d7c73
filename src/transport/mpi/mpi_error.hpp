#pragma once

#include <mpi.h>

#include <string>

#include "src/base/status.hpp"

namespace sparcl::transport {

inline std::string mpi_error_text(int error) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  return std::string(text, static_cast<std::size_t>(length));
}

inline Status mpi_status(int error, const std::string& call) {
  if (error == MPI_SUCCESS) return {};
  return Status(Code::kSystemError, call + ": " + mpi_error_text(error), Scope::kComm);
}

}  // namespace sparcl::transport
