#include "src/base/memory_size.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>

namespace sparcl {
namespace {

// nullopt: the file is not there, or has no number ("max").
std::optional<std::uint64_t> number_in(const std::string& path) {
  std::uint64_t number = 0;
  return std::ifstream(path) >> number ? std::optional(number) : std::nullopt;
}

// "0::/a/b" is the group of cgroup v2.
std::string own_group(const std::string& proc) {
  std::ifstream file(proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return "";
}

std::uint64_t free_in_machine(Paging paging, const std::string& proc) {
  std::ifstream file(proc + "/meminfo");
  std::string name, unit;
  std::optional<std::uint64_t> memory;
  std::uint64_t swap = 0;
  for (std::uint64_t kilobytes = 0; file >> name >> kilobytes; std::getline(file, unit)) {
    if (name == "MemAvailable:") memory = kilobytes * 1024;
    if (name == "SwapFree:" && paging == Paging::kToSwap) swap = kilobytes * 1024;
  }
  return memory ? *memory + swap : UINT64_MAX;
}

}  // namespace

std::uint64_t physical_memory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t available_memory(Paging paging, const std::string& proc, const std::string& groups) {
  std::uint64_t least = free_in_machine(paging, proc);
  for (std::string group = own_group(proc);;) {
    const std::string folder = group.empty() ? groups : groups + "/" + group;
    const auto limit = number_in(folder + "/memory.max");
    const auto used = number_in(folder + "/memory.current");
    if (limit && used) least = std::min(least, *limit - std::min(*limit, *used));
    if (group.empty()) return least;
    const std::size_t slash = group.rfind('/');
    group = slash == std::string::npos ? "" : group.substr(0, slash);
  }
}

std::uint64_t available_memory(Paging paging) {
  return available_memory(paging, "/proc", "/sys/fs/cgroup");
}

}  // namespace sparcl
