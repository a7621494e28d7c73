#pragma once
// The program as a child process that goes on beside the test.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

#include "tests/tools/tools_support.hpp"

namespace sparcl::test {

// Looks until `done` says so; false after 60 s, and a test that waits in vain fails by what it asks
// next.
template <class Done>
bool soon(Done&& done) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

class BackgroundProgram {
 public:
  // With --json.
  explicit BackgroundProgram(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SPARCL_PROGRAM);
    arguments.push_back("--json");
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const std::string out = folder_ / "out", err = folder_ / "err";
    child_ = ::fork();
    if (child_ != 0) return;
    ::setenv("XDG_STATE_HOME", (folder_ / "state").c_str(), 1);
    for (const char* tests_own : {"SPARCL_TRACE", "SPARCL_TEST_LONG"}) ::unsetenv(tests_own);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    ::execv(SPARCL_PROGRAM, pointers.data());
    ::_exit(127);
  }
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;
  ~BackgroundProgram() {
    if (!has_ended()) end_by(SIGKILL);
  }

  std::string out() const { return read_text(folder_ / "out"); }
  std::string err() const { return read_text(folder_ / "err"); }
  bool says(const std::string& text) const {
    return soon([&] { return err().find(text) != std::string::npos; });
  }

  // Whole lines.
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> found;
    const std::string all = out();
    std::istringstream text(all.substr(0, all.rfind('\n') + 1));
    for (std::string line; std::getline(text, line);)
      found.push_back(nlohmann::json::parse(line, nullptr, false));
    return found;
  }
  // Waits for the line that has this value; null where none comes.
  nlohmann::json line_with(const std::string& key, const nlohmann::json& value) {
    nlohmann::json found;
    soon([&] {
      const bool is_over = has_ended();
      for (const nlohmann::json& line : lines()) {
        if (line.is_object() && line.contains(key) && (value.is_null() || line[key] == value))
          found = line;
      }
      return !found.is_null() || is_over;
    });
    return found;
  }
  nlohmann::json version(std::uint64_t number) { return line_with("version", number); }
  std::string address() {
    const nlohmann::json line = line_with("address", nullptr);
    return line.is_null() ? "none" : line["address"].get<std::string>();
  }

  pid_t pid() const { return child_; }
  // Returns once it has stopped, or ended.
  void stop() {
    ::kill(child_, SIGSTOP);
    int status = 0;
    if (!is_over_ && ::waitpid(child_, &status, WUNTRACED) == child_ && !WIFSTOPPED(status)) {
      status_ = status;
      is_over_ = true;
    }
  }

  bool has_ended() {
    is_over_ = is_over_ || ::waitpid(child_, &status_, WNOHANG) == child_;
    return is_over_;
  }
  // The exit code once it has ended by itself; -1 where a signal ended it, or it does not end.
  int exit_code() {
    if (!soon([this] { return has_ended(); })) end_by(SIGKILL);
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }
  int end_by(int signal) {
    ::kill(child_, signal);
    if (signal != SIGKILL) return exit_code();
    if (!is_over_) ::waitpid(child_, &status_, 0);
    is_over_ = true;
    return -1;
  }

 private:
  TempFolder folder_;
  pid_t child_ = -1;
  bool is_over_ = false;
  int status_ = -1;
};

}  // namespace sparcl::test
