#include "tools/sparcl/shell_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "src/base/error_text.hpp"
#include "tools/sparcl/signals.hpp"

namespace sparcl::tool {
namespace {

// The attributes of a new process; posix_spawn's two objects are freed with it.
class Surroundings {
 public:
  Surroundings() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    // Signals as this process found them (signals.cpp).
    ::posix_spawnattr_init(&attributes);
    sigset_t none, ignored;
    sigemptyset(&none);
    sigemptyset(&ignored);
    for (const int number : {SIGXFSZ, SIGPIPE}) sigaddset(&ignored, number);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &ignored);
    ::posix_spawnattr_setflags(
        &attributes,
        POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
            POSIX_SPAWN_SETSID);  // its own group, and no terminal to stop it
  }
  ~Surroundings() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&files);
  }
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(fmt::format("{}={}", name, value));
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string entry = *each;
    const auto is_given = [&](const auto& variable) {
      return entry.starts_with(variable.first + "=");
    };
    if (std::none_of(variables.begin(), variables.end(), is_given)) entries.push_back(entry);
  }
  return entries;
}

constexpr std::chrono::seconds kGrace(5);      // for a running command, after a stop is asked for,
constexpr std::chrono::seconds kLastGrace(2);  // and after SIGTERM; heuristics

// The child's status from waitpid(), or -1.
int wait_for_end(pid_t child) {
  int told = 0;                                                   // the last signal
  std::optional<std::chrono::steady_clock::time_point> patience;  // once a stop is asked for
  for (auto pause = std::chrono::milliseconds(1);;
       pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
    // WNOWAIT keeps the child's id, so that no other process group can get its number.
    siginfo_t ended{};
    if (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) < 0 &&
        errno != EINTR)
      return -1;
    if (ended.si_pid == child) {
      if (told != 0)
        ::kill(-child, SIGKILL);  // processes that it started and that are still running
      int status = 0;
      return ::waitpid(child, &status, 0) == child ? status : -1;
    }
    const auto now = std::chrono::steady_clock::now();
    if (!patience && stop_is_asked()) patience = now + kGrace;
    if (const int next = told == 0 ? SIGTERM : SIGKILL;
        told != SIGKILL && patience && now >= *patience) {
      ::kill(-child, next);  // and the processes that it started
      told = next;
      patience = now + kLastGrace;
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

Status run_shell(const std::string& command,
                 const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> entries = environment_with(variables);
  std::vector<char*> environment;
  for (std::string& entry : entries) environment.push_back(entry.data());
  environment.push_back(nullptr);
  std::string shell = "sh", option = "-c", text = command;
  char* arguments[] = {shell.data(), option.data(), text.data(), nullptr};
  const Surroundings surroundings;
  pid_t child = 0;
  const int error = ::posix_spawn(&child, "/bin/sh", &surroundings.files, &surroundings.attributes,
                                  arguments, environment.data());
  if (error != 0)
    return Status(Code::kSystemError,
                  fmt::format("/bin/sh cannot be started: {}", error_text(error)));
  const int status = wait_for_end(child);
  if (status == 0) return {};
  if (WIFSIGNALED(status))
    return Status(Code::kSystemError, fmt::format("it was ended by signal {}", WTERMSIG(status)));
  return Status(Code::kSystemError, fmt::format("it ended with exit code {}",
                                                status < 0 ? status : WEXITSTATUS(status)));
}

}  // namespace sparcl::tool
