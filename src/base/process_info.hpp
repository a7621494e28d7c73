#pragma once
// Facts about a process, from the system.

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

namespace sparcl {

struct ProcessInfo {
  bool exists = false;
  char state = '?';               // of /proc/PID/stat: R, S, D, T, t, Z ...
  std::uint64_t start_ticks = 0;  // since boot: with the pid it names one process
  std::string program;            // its short name

  bool is_dead() const { return !exists || state == 'Z' || state == 'X' || state == 'x'; }
  bool is_stopped() const { return state == 'T' || state == 't'; }
  // False if the file changed last before this process began: an earlier process with the same id
  // wrote it.
  bool may_have_changed(const struct stat& file) const;
};

ProcessInfo process_info(pid_t pid);

// Pids of two processes can be compared only if this is equal; 0 if it is not known.
std::uint64_t own_pid_namespace();

std::string host_name();  // "?" if it is not known

std::uint64_t monotonic_ns() noexcept;  // these two may be called in a signal handler
std::int64_t wall_ns() noexcept;

}  // namespace sparcl
