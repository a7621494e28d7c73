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
  kStale = 24,
};

bool is_code(int number);  // one of the above

const char* code_name(Code code);  // "sparclTimeout"
const char* code_text(Code code);  // one sentence for users

// How far an error reaches: a call error ends with the call, a comm error poisons the communicator.
enum class Scope : std::uint8_t { kCall, kRequest, kPeer, kComm, kDevice };

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message, Scope scope = Scope::kCall)
      : code_(code), scope_(scope), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kSuccess; }
  Code code() const { return code_; }
  Scope scope() const { return scope_; }
  // Names what failed, where, and what to do; empty on success.
  const std::string& message() const { return message_; }

  // The same error, with the location put before it: "rank 2: ...".
  Status with_prefix(const std::string& prefix) const {
    return ok() ? *this : Status(code_, prefix + message_, scope_);
  }

 private:
  Code code_ = Code::kSuccess;
  Scope scope_ = Scope::kCall;
  std::string message_;
};

// Short enough for the string's own buffer: the error itself allocates nothing.
inline Status no_memory() { return Status(Code::kOutOfMemory, "no memory left"); }

// Bytes from outside are wrong.
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

// SPARCL_RETURN_IF_ERROR(expression): returns its error from a function that itself returns a
// Status or a Result. SPARCL_ASSIGN_OR_RETURN(const T value, expression): the same for a Result,
// whose value `value` becomes. SPARCL_CO_...: the same in a coroutine. They are statements: not for
// the branch of an `if` without braces.
#define SPARCL_RETURN_IF_ERROR(...) SPARCL_LEAVE_IF_ERROR_(return, __VA_ARGS__)
#define SPARCL_CO_RETURN_IF_ERROR(...) SPARCL_LEAVE_IF_ERROR_(co_return, __VA_ARGS__)
#define SPARCL_ASSIGN_OR_RETURN(declaration, ...) \
  SPARCL_ASSIGN_OR_LEAVE_(return, SPARCL_JOIN_(result_, __LINE__), declaration, __VA_ARGS__)
#define SPARCL_CO_ASSIGN_OR_RETURN(declaration, ...) \
  SPARCL_ASSIGN_OR_LEAVE_(co_return, SPARCL_JOIN_(result_, __LINE__), declaration, __VA_ARGS__)

#define SPARCL_LEAVE_IF_ERROR_(leave, ...)                                      \
  do {                                                                          \
    if (::sparcl::Status status_ = (__VA_ARGS__); !status_.ok()) leave status_; \
  } while (false)
#define SPARCL_ASSIGN_OR_LEAVE_(leave, result, declaration, ...) \
  auto result = (__VA_ARGS__);                                   \
  if (!result.ok()) leave result.status();                       \
  declaration = std::move(*result)
#define SPARCL_JOIN_(a, b) SPARCL_JOIN_NOW_(a, b)
#define SPARCL_JOIN_NOW_(a, b) a##b

}  // namespace sparcl
