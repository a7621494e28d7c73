#include "tests/support/process_party.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

extern char** environ;

namespace sparcl::test {
namespace {

constexpr int kPollMilliseconds = 5;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void close_end(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

// The caller's environment, with the command's in its place where both have a name.
std::vector<std::string> merged_environment(const ProcessCommand& command) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(command.environment.begin(), command.environment.end(),
                                      [&](const auto& each) { return each.first == name; });
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : command.environment) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// After fork(): only what is safe there.
[[noreturn]] void become(char** arguments, char** environment, int out, int err, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it died in between
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execve(arguments[0], arguments, environment);
  ::_exit(127);
}

}  // namespace

bool ProcessRecord::exited_with(int code) const {
  return ended && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == code;
}

bool ProcessRecord::died_of(int signal) const {
  return ended && WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == signal;
}

std::string ProcessRecord::describe_end() const {
  if (!ended) return "still running";
  if (ended_by_us) return "killed by the party";
  if (WIFEXITED(wait_status)) return "exit code " + std::to_string(WEXITSTATUS(wait_status));
  return "signal " + std::to_string(WTERMSIG(wait_status));
}

ProcessParty::ProcessParty() : began_(seconds_now()) {}

ProcessParty::~ProcessParty() {
  kill_rest();
  for (Pipes& each : pipes_) {
    close_end(each.out);
    close_end(each.err);
  }
}

double ProcessParty::now_s() const { return seconds_now() - began_; }

int ProcessParty::start(const ProcessCommand& command) {
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0) {
    trouble_ = std::string("pipe: ") + std::strerror(errno);
    return -1;
  }
  if (::pipe2(err, O_CLOEXEC) != 0) {
    trouble_ = std::string("pipe: ") + std::strerror(errno);
    for (int& end : out) close_end(end);
    return -1;
  }
  std::vector<std::string> arguments = command.arguments, environment = merged_environment(command);
  const std::vector<char*> argument_pointers = pointers_to(arguments),
                           environment_pointers = pointers_to(environment);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    become(const_cast<char**>(argument_pointers.data()),
           const_cast<char**>(environment_pointers.data()), out[1], err[1], parent);
  }
  close_end(out[1]);
  close_end(err[1]);
  if (child < 0) {
    trouble_ = std::string("fork: ") + std::strerror(errno);
    close_end(out[0]);
    close_end(err[0]);
    return -1;
  }
  ::setpgid(child, child);  // in either of the two processes, whichever comes first
  ::fcntl(out[0], F_SETFL, O_NONBLOCK);
  ::fcntl(err[0], F_SETFL, O_NONBLOCK);
  records_.emplace_back().pid = child;
  pipes_.push_back({out[0], err[0], {}});
  return size() - 1;
}

void ProcessParty::signal(int process, int number) {
  const ProcessRecord& record = this->record(process);
  if (!record.ended) ::kill(record.pid, number);
}

bool ProcessParty::run_until(const std::function<bool()>& enough, double deadline_s) {
  for (;;) {
    poll_once(0);
    if (enough()) return true;
    if (now_s() >= deadline_s) return false;
    poll_once(kPollMilliseconds);
  }
}

bool ProcessParty::finish(double deadline_s) {
  const auto all_ended = [&] {
    return std::all_of(records_.begin(), records_.end(),
                       [](const ProcessRecord& each) { return each.ended; });
  };
  const bool in_time = run_until(all_ended, deadline_s);
  kill_rest();
  return in_time;
}

void ProcessParty::kill_rest() {
  for (ProcessRecord& each : records_) {
    if (each.ended) continue;
    each.ended_by_us = true;
    ::kill(-each.pid, SIGKILL);
    ::kill(each.pid, SIGKILL);
    ::waitpid(each.pid, &each.wait_status, 0);
    each.ended = true;
    each.ended_at_s = now_s();
  }
  poll_once(0);
}

void ProcessParty::poll_once(int milliseconds) {
  std::vector<pollfd> ends;
  for (const Pipes& each : pipes_) {
    if (each.out >= 0) ends.push_back({each.out, POLLIN, 0});
    if (each.err >= 0) ends.push_back({each.err, POLLIN, 0});
  }
  ::poll(ends.data(), ends.size(), milliseconds);
  reap();  // first, so that the pipes of what has ended hold all that it said
  for (std::size_t i = 0; i < pipes_.size(); ++i) {
    read_out(i);
    read_err(i);
  }
}

void ProcessParty::reap() {
  for (ProcessRecord& each : records_) {
    if (each.ended || ::waitpid(each.pid, &each.wait_status, WNOHANG) != each.pid) continue;
    each.ended = true;
    each.ended_at_s = now_s();
  }
}

void ProcessParty::read_out(std::size_t process) {
  Pipes& pipes = pipes_[process];
  char buffer[4096];
  while (pipes.out >= 0) {
    const ssize_t count = ::read(pipes.out, buffer, sizeof buffer);
    if (count < 0) return;
    if (count == 0) return close_end(pipes.out);
    pipes.unfinished.append(buffer, static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = pipes.unfinished.find('\n')) != std::string::npos;
         pipes.unfinished.erase(0, end + 1)) {
      records_[process].lines.push_back({now_s(), pipes.unfinished.substr(0, end)});
    }
  }
}

void ProcessParty::read_err(std::size_t process) {
  Pipes& pipes = pipes_[process];
  char buffer[4096];
  while (pipes.err >= 0) {
    const ssize_t count = ::read(pipes.err, buffer, sizeof buffer);
    if (count < 0) return;
    if (count == 0) return close_end(pipes.err);
    records_[process].errors.append(buffer, static_cast<std::size_t>(count));
  }
}

std::string ProcessParty::left_behind() const {
  for (const ProcessRecord& each : records_) {
    if (::kill(-each.pid, 0) == 0)
      return "a process of the group of pid " + std::to_string(each.pid);
  }
  int status = 0;
  const pid_t zombie = ::waitpid(-1, &status, WNOHANG);
  if (zombie > 0) return "a zombie, pid " + std::to_string(zombie);
  return {};
}

}  // namespace sparcl::test
