#pragma once
// What a process holds of memory and descriptors, and whether that grows over a run.

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace sparcl::test {

struct ProcessUsage {
  std::size_t own_objects = 0;  // of the library and the test, by new
  std::size_t own_bytes = 0;    // in them
  std::size_t heap_bytes = 0;   // handed out by malloc in pieces of less than a MiB, own ones and
                                // those of Open MPI and UCX
  std::size_t large_bytes = 0;  // in larger ones, among them the segments that the library keeps
  std::size_t resident_bytes = 0;  // of all the process
  std::size_t descriptors = 0;
};

// To be called at the beginning, else malloc draws its line elsewhere from time to time.
void tell_large_from_small();

ProcessUsage process_usage();

// Of many samples the least in each quarter of the run: what comes and goes does not show, what
// stays does.
std::array<ProcessUsage, 4> min_of_quarters(const std::vector<ProcessUsage>& samples);

// What grew, from the second to the last quarter, that must not grow; empty if nothing.
std::string describe_growth(const std::array<ProcessUsage, 4>& quarters);

// One line: each figure in each quarter.
std::string describe_usage(const std::array<ProcessUsage, 4>& quarters);

}  // namespace sparcl::test
