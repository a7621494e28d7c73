#pragma once
// Real processes as ranks: started together, read line by line, signalled, and all gone when the
// party ends, however the test ends.

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace sparcl::test {

struct ProcessCommand {
  std::vector<std::string> arguments;                            // the program's path first
  std::vector<std::pair<std::string, std::string>> environment;  // besides the caller's own
};

// Seconds are those since the party began.
struct ProcessLine {
  double at_s = 0;
  std::string text;
};

struct ProcessRecord {
  pid_t pid = -1;
  std::vector<ProcessLine> lines;  // of standard output
  std::string errors;              // standard error
  bool ended = false;
  double ended_at_s = 0;
  int wait_status = 0;       // as waitpid gives it, once ended
  bool ended_by_us = false;  // the party killed it, at its deadline or at its end

  bool exited_with(int code) const;
  bool died_of(int signal) const;
  std::string describe_end() const;
};

class ProcessParty {
 public:
  ProcessParty();
  ~ProcessParty();  // kills and reaps what is left
  ProcessParty(const ProcessParty&) = delete;
  ProcessParty& operator=(const ProcessParty&) = delete;

  // Its index, or -1 with a reason in trouble(). Each process is the head of a group of its own and
  // dies with this thread.
  int start(const ProcessCommand& command);
  void signal(int process, int number);

  // Reads what the processes say until `enough` or until so many seconds since the party began.
  // False: the time is over.
  bool run_until(const std::function<bool()>& enough, double deadline_s);
  // Until all have ended; kills the rest at the deadline. False: there was a rest.
  bool finish(double deadline_s);
  void kill_rest();

  double now_s() const;
  int size() const { return static_cast<int>(records_.size()); }
  const ProcessRecord& record(int process) const {
    return records_[static_cast<std::size_t>(process)];
  }
  const std::string& trouble() const { return trouble_; }

  // What is left behind although all have ended: a process of one of their groups, or a zombie.
  // Empty: nothing.
  std::string left_behind() const;

 private:
  struct Pipes {
    int out = -1;
    int err = -1;
    std::string unfinished;  // line
  };

  void poll_once(int milliseconds);
  void read_out(std::size_t process);
  void read_err(std::size_t process);
  void reap();

  double began_;
  std::vector<ProcessRecord> records_;
  std::vector<Pipes> pipes_;
  std::string trouble_;
};

}  // namespace sparcl::test
