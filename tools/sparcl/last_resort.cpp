#include "tools/sparcl/last_resort.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>

#include "src/base/files/temporary_path.hpp"
#include "src/base/standard_streams.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {
namespace {

constexpr const char* kNoMemory =
    "out of memory: an allocation failed: free memory on this host, or raise this process's limit "
    "(ulimit -v)";

// Static objects may fail before main() has its arguments, and an object used later may be the one
// that failed.
bool wants_json() noexcept {
  static std::array<char, 65536> arguments;
  const int file = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t count = file >= 0 ? ::read(file, arguments.data(), arguments.size()) : 0;
  if (file >= 0) ::close(file);
  constexpr std::string_view kFlag("\0--json\0", 8);
  return count > 0 &&
         std::string_view(arguments.data(), static_cast<std::size_t>(count)).find(kFlag) !=
             std::string_view::npos;
}

// what: without characters that JSON escapes.
int print_last_error(const char* error, const char* what) noexcept {
  (void)write_quietly(STDERR_FILENO, "sparcl: error: ");
  (void)write_quietly(STDERR_FILENO, what);
  (void)write_quietly(STDERR_FILENO, "\n");
  if (!wants_json()) return kExitFailure;
  std::array<char, 512> line;
  const int count =
      std::snprintf(line.data(), line.size(),
                    "{\"ok\":false,\"error\":\"%s\",\"message\":\"%s\",\"exit_code\":%d}\n", error,
                    what, kExitFailure);
  (void)write_quietly(STDOUT_FILENO,
                      std::string_view(line.data(), static_cast<std::size_t>(count)));
  return kExitFailure;
}

int print_exception() noexcept {
  try {
    if (std::current_exception() != nullptr) throw;
  } catch (const std::bad_alloc&) {
    return print_out_of_memory();
  } catch (...) {
  }
  return print_last_error(code_name(Code::kInternalError),
                          "an unexpected exception ended the program: please report it");
}

[[noreturn]] void end_program() noexcept {
  static std::atomic<pid_t> at_it = 0;  // the thread
  pid_t other = 0;
  if (!at_it.compare_exchange_strong(other, ::gettid())) {
    if (other == ::gettid()) ::_exit(kExitFailure);  // even this failed
    for (;;) ::pause();
  }
  const int code = print_exception();
  remove_temporary_paths_at_once();
  ::_exit(code);
}

// Before the static objects of the command line's parser, which take memory.
[[gnu::constructor(101)]] void replace_abort() { std::set_terminate(end_program); }

}  // namespace

int print_out_of_memory() noexcept {
  return print_last_error(code_name(Code::kOutOfMemory), kNoMemory);
}

}  // namespace sparcl::tool
