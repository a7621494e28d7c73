#pragma once
// A part of a test in a process of its own, by fork(): make them before any thread, and let the part use no GoogleTest assertion.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

namespace sparcl::test {

class ChildProcess {
 public:
  // `part` returns what it wants to say; text() then gives it to the parent.
  template <class Part>
  explicit ChildProcess(Part part) {
    int ends[2];
    if (pipe(ends) != 0) return;
    std::fflush(nullptr);
    pid_ = fork();
    if (pid_ != 0) {
      close(ends[1]);
      out_ = ends[0];
      return;
    }
    close(ends[0]);
    const std::string text = part();
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t count = write(ends[1], text.data() + done, text.size() - done);
      if (count <= 0) break;
      done += static_cast<std::size_t>(count);
    }
    _exit(0);
  }
  ~ChildProcess() {
    if (pid_ > 0) kill(SIGKILL);
    (void)wait();
    if (out_ >= 0) close(out_);
  }
  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)), out_(std::exchange(other.out_, -1)) {}
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  void kill(int signal) const { ::kill(pid_, signal); }

  // Waits for the process's end and returns what its part said.
  std::string text() {
    std::string all;
    char buffer[512];
    for (ssize_t count = 0; (count = read(out_, buffer, sizeof buffer)) > 0;) all.append(buffer, static_cast<std::size_t>(count));
    (void)wait();
    return all;
  }

  int wait() {
    int status = -1;
    if (pid_ > 0) waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
};

}  // namespace sparcl::test
