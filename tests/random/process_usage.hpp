#pragma once
// What a process holds of memory and descriptors, and whether that grows over a run.

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace sparcl::test {

struct ProcessUsage {
  std::size_t heap_bytes = 0;      // handed out by malloc in pieces of less than a MiB
  std::size_t large_bytes = 0;     // in larger ones: the library keeps up to 64 MiB of segments for its next calls
  std::size_t resident_bytes = 0;  // of all the process
  std::size_t descriptors = 0;
};

// To be called at the beginning, else malloc draws its line elsewhere from time to time.
inline void tell_large_from_small() { mallopt(M_MMAP_THRESHOLD, 1 << 20); }

inline ProcessUsage process_usage() {
  ProcessUsage usage;
  malloc_trim(0);
  const struct mallinfo2 heap = mallinfo2();
  usage.heap_bytes = heap.uordblks;
  usage.large_bytes = heap.hblkhd;
  std::size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  usage.resident_bytes = resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::error_code ignored;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd", ignored)) usage.descriptors += !each.path().empty();
  return usage;
}

// Of many samples the least in a part of the run: what comes and goes does not show, what stays does.
inline ProcessUsage least_usage(const std::vector<ProcessUsage>& samples, double from, double to) {
  const auto at = [&](double share) {
    return samples.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(samples.size()));
  };
  ProcessUsage least{SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};
  for (auto each = at(from); each != at(to); ++each) {
    least.heap_bytes = std::min(least.heap_bytes, each->heap_bytes);
    least.large_bytes = std::min(least.large_bytes, each->large_bytes);
    least.resident_bytes = std::min(least.resident_bytes, each->resident_bytes);
    least.descriptors = std::min(least.descriptors, each->descriptors);
  }
  return least;
}

}  // namespace sparcl::test
