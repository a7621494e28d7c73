#include "tests/random/process_usage.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/support/own_objects.hpp"

namespace sparcl::test {
namespace {

// What may grow, from the second quarter of a run to its last.
//
// Own objects: nothing but a container that found a new largest size.
constexpr std::size_t kOwnObjects = 16, kOwnBytes = std::size_t{16} << 10;
// The rest of the heap is Open MPI's and UCX's. They take requests, fragments and unexpected
// messages from lists that only ever grow, to the largest number that were in use at once, which
// depends on how ranks happen to run against each other: a new record adds some 50 KiB, and records
// get rarer. A leak shows all the same: in the 13,000 calls and 265 communicators of half a long
// run it would have to be less than 80 bytes a call, or 4 KiB a communicator; a request of Open MPI
// takes 834 bytes, a communicator 8.3 KB. But a rank that is late once, on a busy machine, may find
// some MiB of messages waiting, and their lists then stay as long: a leak grows in both of the last
// quarters, and that only in one.
constexpr std::size_t kPoolBytes = std::size_t{1} << 20;
constexpr std::size_t kBurstBytes = std::size_t{16} << 20;
// Up to 64 MiB in segments of 4 MiB stay with the library (src/base/segment_pool.hpp), as many as
// were ever in use at once; for each of them malloc takes 6 MiB and a page, for the sake of its
// alignment. Beyond that number no large piece may stay.
constexpr std::size_t kLargeBytes = 16 * ((std::size_t{6} << 20) + 4096);
// What is not on the heap: stacks, pages that malloc cannot give back because of holes.
constexpr std::size_t kResidentBytes = std::size_t{16} << 20;

std::string grown(const char* what, std::size_t before, std::size_t after, std::size_t allowed) {
  return after > before + allowed ? fmt::format("{} grew from {} to {}; ", what, before, after)
                                  : "";
}

// In each of the last two quarters a part of what is too much in all; or by more than a burst may
// leave.
std::string grown_steadily(const char* what, std::size_t second, std::size_t third,
                           std::size_t last) {
  const bool in_both = third > second + kPoolBytes / 4 && last > third + kPoolBytes / 4;
  return grown(what, second, last, in_both ? kPoolBytes : kBurstBytes);
}

std::size_t others_heap(const ProcessUsage& usage) {
  return usage.heap_bytes - std::min(usage.heap_bytes, usage.own_bytes);
}

}  // namespace

void tell_large_from_small() { mallopt(M_MMAP_THRESHOLD, 1 << 20); }

ProcessUsage process_usage() {
  ProcessUsage usage;
  malloc_trim(0);
  const OwnObjects own = own_objects();
  usage.own_objects = own.number;
  usage.own_bytes = own.bytes;
  const struct mallinfo2 heap = mallinfo2();
  usage.heap_bytes = heap.uordblks;
  usage.large_bytes = heap.hblkhd;
  std::size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  usage.resident_bytes = resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::error_code ignored;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd", ignored))
    usage.descriptors += !each.path().empty();
  return usage;
}

std::array<ProcessUsage, 4> min_of_quarters(const std::vector<ProcessUsage>& samples) {
  std::array<ProcessUsage, 4> quarters;
  for (std::size_t quarter = 0; quarter < 4; ++quarter) {
    ProcessUsage& least = quarters[quarter];
    least = samples[quarter * samples.size() / 4];
    for (std::size_t i = quarter * samples.size() / 4; i < (quarter + 1) * samples.size() / 4;
         ++i) {
      const ProcessUsage& each = samples[i];
      least.own_objects = std::min(least.own_objects, each.own_objects);
      least.own_bytes = std::min(least.own_bytes, each.own_bytes);
      least.heap_bytes = std::min(least.heap_bytes, each.heap_bytes);
      least.large_bytes = std::min(least.large_bytes, each.large_bytes);
      least.resident_bytes = std::min(least.resident_bytes, each.resident_bytes);
      least.descriptors = std::min(least.descriptors, each.descriptors);
    }
  }
  return quarters;
}

std::string describe_growth(const std::array<ProcessUsage, 4>& quarters) {
  const ProcessUsage &before = quarters[1], &after = quarters[3];
  const std::size_t segments = std::max(after.large_bytes, before.large_bytes) - before.large_bytes;
  return grown("the number of own objects", before.own_objects, after.own_objects, kOwnObjects) +
         grown("own memory", before.own_bytes, after.own_bytes, kOwnBytes) +
         grown_steadily("the heap of others", others_heap(before), others_heap(quarters[2]),
                        others_heap(after)) +
         grown("large memory", std::max(before.large_bytes, kLargeBytes), after.large_bytes, 0) +
         grown("resident memory", before.resident_bytes, after.resident_bytes,
               segments + kResidentBytes) +
         grown("the number of descriptors", before.descriptors, after.descriptors, 0);
}

std::string describe_usage(const std::array<ProcessUsage, 4>& quarters) {
  const auto row = [&](const char* name, auto&& figure) {
    return fmt::format("{} {} {} {} {}", name, figure(quarters[0]), figure(quarters[1]),
                       figure(quarters[2]), figure(quarters[3]));
  };
  return row("own objects", [](const ProcessUsage& u) { return u.own_objects; }) +
         row(", bytes", [](const ProcessUsage& u) { return u.own_bytes; }) +
         row(", KiB: heap", [](const ProcessUsage& u) { return u.heap_bytes >> 10; }) +
         row(", large", [](const ProcessUsage& u) { return u.large_bytes >> 10; }) +
         row(", resident", [](const ProcessUsage& u) { return u.resident_bytes >> 10; }) +
         row("; descriptors", [](const ProcessUsage& u) { return u.descriptors; });
}

}  // namespace sparcl::test
