#include "src/api/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

#include "src/api/comm.hpp"
#include "src/base/caught_error.hpp"
#include "src/base/shown_text.hpp"
#include "src/base/thread_own.hpp"

namespace sparcl::api {
namespace {

// Errors in the order in which they came, over all threads of the process.
std::uint64_t next_error() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

struct ThreadError {
  ErrorText error;
  std::uint64_t comm = 0;  // whose call it was: sparclComm::id; 0: none's
  std::string shown;       // what sparclGetLastError(comm) gave
};

// nullptr: this thread has none, and there is no memory for one.
ThreadError* thread_error() {
  static const ThreadOwn<ThreadError> error;
  return error.get();
}

void keep(sparclComm* comm, std::string text) {
  const std::uint64_t number = next_error();
  if (comm != nullptr) {
    const std::lock_guard lock(comm->reporting);
    comm->last_error = {number, text};
  }
  ThreadError* const own = thread_error();
  if (own == nullptr) return;
  own->comm = comm != nullptr ? comm->id : 0;
  own->error = {number, std::move(text)};
}

// The advice after an error that ended the communicator.
const char* next_step(const sparclComm& comm, const Status& status) {
  const Status& health = comm.engine.health();
  if (health.ok() || !status.message().ends_with(health.message())) return "";
  return comm.transport->capabilities().has_successors
             ? "; this communicator is over: sparclCommShrink makes one of the ranks that live, "
               "sparclCommDestroy ends it"
             : "; this communicator is over: end it by sparclCommDestroy";
}

}  // namespace

std::string error_text(const sparclComm* comm, const Status& status) {
  return comm != nullptr ? fmt::format("rank {}: {}{}", comm->transport->rank(), status.message(),
                                       next_step(*comm, status))
                         : status.message();
}

sparclResult_t report_error(sparclComm* comm, const Status& status) {
  return report_text(comm, static_cast<sparclResult_t>(status.code()),
                     status.ok() ? std::string() : error_text(comm, status));
}

sparclResult_t report_text(sparclComm* comm, sparclResult_t result, std::string text) {
  if (result != sparclSuccess) keep(comm, shown_line(text));
  return result;
}

sparclResult_t report_exception(sparclComm* comm) noexcept {
  const Status caught = caught_error("a call could not be made");
  try {
    return report_error(comm, caught);
  } catch (const std::exception&) {
    keep(comm, no_memory().message());  // fits a string without memory of its own
  }
  return static_cast<sparclResult_t>(caught.code());
}

std::string wrong_size(const std::string& name, std::size_t found, std::size_t expected) {
  return fmt::format("{} is {}: expected {}, to which its INITIALIZER macro sets it", name, found,
                     expected);
}

Status check_size(const std::string& name, std::size_t found, std::size_t expected) {
  constexpr std::size_t kMost = 4096;
  if (found < sizeof(std::size_t) || found > kMost)
    return Status(Code::kInvalidArgument, wrong_size(name, found, expected));
  if (found % kFieldBytes == 0) return Status();
  return Status(Code::kInvalidArgument,
                wrong_size(name, found, expected) + "; no version of this struct ends there");
}

Status check_unknown(const std::string& name, const std::byte* extra, std::size_t bytes) {
  const std::byte* set =
      std::find_if(extra, extra + bytes, [](std::byte each) { return each != std::byte{0}; });
  if (set == extra + bytes) return Status();
  return Status(
      Code::kInvalidArgument,
      fmt::format(
          "{}: the program was compiled against a newer sparcl.h and sets an option that this "
          "library, {}.{}.{}, does not have. Run it with a newer library, or leave the option at 0",
          name, SPARCL_VERSION_MAJOR, SPARCL_VERSION_MINOR, SPARCL_VERSION_PATCH));
}

}  // namespace sparcl::api

extern "C" {

sparclResult_t sparclInternalReportError(sparclResult_t result, const char* text) {
  return sparcl::api::guarded(
      [&] { return sparcl::Status(static_cast<sparcl::Code>(result), text); });
}

sparclResult_t sparclGetVersion(int* version) {
  return sparcl::api::guarded([&]() -> sparcl::Status {
    if (version == nullptr)
      return sparcl::Status(sparcl::Code::kInvalidArgument, "sparclGetVersion: version is NULL");
    *version = SPARCL_VERSION;
    return sparcl::Status();
  });
}

const char* sparclGetErrorString(sparclResult_t result) {
  return sparcl::code_text(static_cast<sparcl::Code>(result));
}

const char* sparclGetLastError(sparclComm_t handle) {
  constexpr const char* kNoMemory = "no memory left";
  sparcl::api::ThreadError* const own = sparcl::api::thread_error();
  if (own == nullptr) return kNoMemory;
  const char* const text = own->error.text.c_str();
  try {
    const auto comm = sparcl::api::hold_if_given(handle, "comm");
    if (comm.get() == nullptr || own->comm == comm->id) return text;
    const std::lock_guard lock(comm->reporting);
    if (comm->last_error.number < own->error.number) return text;
    own->shown = comm->last_error.text;
    return own->shown.c_str();
  } catch (const std::exception&) {
    return kNoMemory;
  }
}

}  // extern "C"
