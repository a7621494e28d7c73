#pragma once
// Every function that can fail returns a Status (or a Result<T>); no exception crosses a layer.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace sparcl {

// Numbered as sparclResult_t, which numbers 0-7 as ncclResult_t does.
enum class Code : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
  kTimeout = 16,
  kMismatch = 17,
  kCorrupt = 18,
  kUnsupported = 19,
  kOutOfMemory = 20,
  kWrongBase = 21,
  kUnauthorized = 22,
  kTruncated = 23,
};

bool is_code(int number);  // one of the above

const char* code_name(Code code);  // "sparclTimeout"
const char* code_text(Code code);  // one sentence for users

// What an error leaves unusable: a call error is over with the call, a comm error poisons the comm.
enum class Scope : std::uint8_t { kCall, kRequest, kPeer, kComm, kDevice };

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message, Scope scope = Scope::kCall) : code_(code), scope_(scope), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kSuccess; }
  Code code() const { return code_; }
  Scope scope() const { return scope_; }
  // Names what failed, where, and what to do; empty on success.
  const std::string& message() const { return message_; }

  // The same error, with where it was met put before it: "rank 2: ...".
  Status with_prefix(const std::string& prefix) const { return ok() ? *this : Status(code_, prefix + message_, scope_); }

 private:
  Code code_ = Code::kSuccess;
  Scope scope_ = Scope::kCall;
  std::string message_;
};

// Short enough that to say so takes no memory.
inline Status no_memory() { return Status(Code::kOutOfMemory, "no memory left"); }

// What is wrong with bytes that came from elsewhere.
inline Status corrupt(std::string what) { return Status(Code::kCorrupt, std::move(what)); }

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Status error) : state_(std::move(error)) {}

  bool ok() const { return std::holds_alternative<T>(state_); }
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }
  T& value() { return std::get<T>(state_); }
  const T& value() const { return std::get<T>(state_); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }

 private:
  std::variant<T, Status> state_;
};

// Returns the error of `expression` from a function that itself returns a Status or a Result.
#define SPARCL_RETURN_IF_ERROR(expression)                                      \
  do {                                                                          \
    if (::sparcl::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

}  // namespace sparcl
