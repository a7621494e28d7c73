#pragma once
// A part of a test in a process of its own, by fork(): make them before any thread, and let the
// part use no GoogleTest assertion.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

namespace sparcl::test {

class ChildProcess {
 public:
  // `part` returns what it wants to say; text() then gives it to the parent. To say something
  // earlier it may take the int of a descriptor and write there.
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
    try {  // the child must not go on with the parent's tests
      std::string text;
      if constexpr (std::is_invocable_v<Part, int>) {
        text = part(ends[1]);
      } else {
        text = part();
      }
      write_all(ends[1], text.data(), text.size());
    } catch (const std::exception& error) {
      write_all(ends[1], error.what(), std::strlen(error.what()));
    }
    _exit(0);
  }
  ~ChildProcess() {
    if (pid_ > 0) kill(SIGKILL);
    (void)wait();
    if (out_ >= 0) close(out_);
  }
  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), out_(std::exchange(other.out_, -1)) {}
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  void kill(int signal) const { ::kill(pid_, signal); }

  // What it says before its end, in so many bytes; fewer if it ends before.
  std::string text(std::size_t bytes) {
    std::string all(bytes, '\0');
    std::size_t done = 0;
    while (done < bytes) {
      const ssize_t count = read(out_, all.data() + done, bytes - done);
      if (count <= 0) break;
      done += static_cast<std::size_t>(count);
    }
    all.resize(done);
    return all;
  }

  // Waits for the process's end and returns what its part said.
  std::string text() {
    std::string all;
    char buffer[512];
    for (ssize_t count = 0; (count = read(out_, buffer, sizeof buffer)) > 0;)
      all.append(buffer, static_cast<std::size_t>(count));
    (void)wait();
    return all;
  }

  int wait() {
    int status = -1;
    if (pid_ > 0) waitpid(std::exchange(pid_, -1), &status, 0);
    if (status != -1) status_ = status;
    return status_;
  }

  int status() const { return status_; }  // of the last wait(), as of waitpid

 private:
  static void write_all(int out, const char* text, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t count = write(out, text + done, bytes - done);
      if (count <= 0) return;
      done += static_cast<std::size_t>(count);
    }
  }

  pid_t pid_ = -1;
  int out_ = -1;
  int status_ = -1;
};

// Holds a process stopped for a scope, also where something else on the machine continues all
// processes now and then.
class StoppedProcess {
 public:
  explicit StoppedProcess(const ChildProcess& process)
      : pid_(process.pid()), thread_([this] {
          for (; !over_.load(); std::this_thread::sleep_for(std::chrono::milliseconds(20)))
            ::kill(pid_, SIGSTOP);
        }) {}
  ~StoppedProcess() {
    over_.store(true);
    thread_.join();
    ::kill(pid_, SIGCONT);
  }
  StoppedProcess(const StoppedProcess&) = delete;
  StoppedProcess& operator=(const StoppedProcess&) = delete;

 private:
  pid_t pid_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace sparcl::test
