#include "src/api/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "src/api/comm.hpp"
#include "src/base/caught_error.hpp"

namespace sparcl::api {
namespace {

std::string& thread_text() {
  thread_local std::string text;
  return text;
}

// What may follow the error that ended a communicator.
const char* next_step(const sparclComm& comm, const Status& status) {
  const Status& health = comm.engine.health();
  if (health.ok() || health.message() != status.message()) return "";
  return comm.transport->capabilities().has_successors
             ? "; this communicator is over: sparclCommShrink makes one of the ranks that live, sparclCommDestroy ends it"
             : "; this communicator is over: end it by sparclCommDestroy";
}

}  // namespace

sparclResult_t report_error(sparclComm_t comm, const Status& status) {
  if (!status.ok()) {
    thread_text() = comm != nullptr
                        ? fmt::format("rank {}: {}{}", comm->transport->rank(), status.message(), next_step(*comm, status))
                        : status.message();
    if (comm != nullptr) comm->last_error = thread_text();
  }
  return static_cast<sparclResult_t>(status.code());
}

sparclResult_t report_exception(sparclComm_t comm) noexcept {
  const Status caught = caught_error("a call could not be made");
  try {
    return report_error(comm, caught);
  } catch (const std::exception&) {  // what fits a string without memory of its own
    thread_text() = no_memory().message();
    if (comm != nullptr) comm->last_error = thread_text();
  }
  return static_cast<sparclResult_t>(caught.code());
}

std::string wrong_size(const std::string& name, std::size_t found, std::size_t expected) {
  return fmt::format("{} is {}: expected {}, to which its INITIALIZER macro sets it", name, found, expected);
}

Status check_size(const std::string& name, std::size_t found, std::size_t expected) {
  constexpr std::size_t kMost = 4096;
  if (found < sizeof(std::size_t) || found > kMost) return Status(Code::kInvalidArgument, wrong_size(name, found, expected));
  if (found % kFieldBytes == 0) return Status();
  return Status(Code::kInvalidArgument, wrong_size(name, found, expected) + "; no version of this struct ends there");
}

Status check_unknown(const std::string& name, const std::byte* extra, std::size_t bytes) {
  const std::byte* set = std::find_if(extra, extra + bytes, [](std::byte each) { return each != std::byte{0}; });
  if (set == extra + bytes) return Status();
  return Status(
      Code::kInvalidArgument,
      fmt::format("{}: the program was compiled against a newer sparcl.h and sets an option that this library, {}.{}.{}, does "
                  "not have: run it with a newer library, or leave the option at 0",
                  name, SPARCL_VERSION_MAJOR, SPARCL_VERSION_MINOR, SPARCL_VERSION_PATCH));
}

}  // namespace sparcl::api

extern "C" {

sparclResult_t sparclInternalReportError(sparclResult_t result, const char* text) {
  return sparcl::api::guarded([&] { return sparcl::Status(static_cast<sparcl::Code>(result), text); });
}

sparclResult_t sparclGetVersion(int* version) {
  return sparcl::api::guarded([&]() -> sparcl::Status {
    if (version == nullptr) return sparcl::Status(sparcl::Code::kInvalidArgument, "sparclGetVersion: version is NULL");
    *version = 10000 * SPARCL_VERSION_MAJOR + 100 * SPARCL_VERSION_MINOR + SPARCL_VERSION_PATCH;
    return sparcl::Status();
  });
}

const char* sparclGetErrorString(sparclResult_t result) { return sparcl::code_text(static_cast<sparcl::Code>(result)); }

const char* sparclGetLastError(sparclComm_t comm) {
  return comm != nullptr ? comm->last_error.c_str() : sparcl::api::thread_text().c_str();
}

}  // extern "C"
