#include "src/base/process_info.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <ctime>
#include <string_view>

namespace sparcl {
namespace {

std::string read_small_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::array<char, 4096> bytes;
  const ssize_t count = ::read(file, bytes.data(), bytes.size());
  ::close(file);
  return count > 0 ? std::string(bytes.data(), static_cast<std::size_t>(count)) : std::string();
}

// Fields are counted as in proc(5); the third is the first after the name, which may hold anything.
std::string_view field_of_stat(std::string_view after_name, int number) {
  for (int at = 3; at < number; ++at) {
    const std::size_t space = after_name.find(' ');
    if (space == std::string_view::npos) return {};
    after_name.remove_prefix(space + 1);
  }
  return after_name.substr(0, after_name.find_first_of(" \n"));
}

std::uint64_t ns_of(clockid_t clock) noexcept {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

bool ProcessInfo::may_have_changed(const struct stat& file) const {
  constexpr double kTolerance = 2;  // seconds; ticks, and a clock that is set; heuristic
  const double file_age =
      static_cast<double>(wall_ns()) * 1e-9 - static_cast<double>(file.st_ctim.tv_sec);
  const double age = static_cast<double>(ns_of(CLOCK_BOOTTIME)) * 1e-9 -
                     static_cast<double>(start_ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return file_age <= age + kTolerance;
}

ProcessInfo process_info(pid_t pid) {
  ProcessInfo info;
  const std::string stat = read_small_file(fmt::format("/proc/{}/stat", pid));
  const std::size_t open = stat.find('('), close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open ||
      close + 2 >= stat.size())
    return info;
  const std::string_view rest = std::string_view(stat).substr(close + 2);
  const std::string_view start = field_of_stat(rest, 22);
  info.exists = std::from_chars(start.data(), start.data() + start.size(), info.start_ticks).ec ==
                std::errc();
  info.state = rest.front();
  info.program = stat.substr(open + 1, close - open - 1);
  return info;
}

std::uint64_t own_pid_namespace() {
  struct stat found;
  return ::stat("/proc/self/ns/pid", &found) == 0 ? static_cast<std::uint64_t>(found.st_ino) : 0;
}

std::string host_name() {
  std::array<char, 256> host{};
  return ::gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "?";
}

std::uint64_t monotonic_ns() noexcept { return ns_of(CLOCK_MONOTONIC); }
std::int64_t wall_ns() noexcept { return static_cast<std::int64_t>(ns_of(CLOCK_REALTIME)); }

}  // namespace sparcl
