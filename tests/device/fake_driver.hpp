#pragma once
// A stand-in for the CUDA driver, by the names that sparcl asks it for: its device memory cannot be touched by the host (a read or
// write ends the process), and copies happen when their stream is waited for. What it cannot show is CUDA itself: tests/gpu does.

#include <cstddef>

namespace sparcl::test {

// Device memory, and the same bytes where the test can reach them. Never freed.
struct FakeDeviceMemory {
  void* device;
  void* bytes;
};
FakeDeviceMemory fake_device_memory(std::size_t bytes);

// From now on copies fail from the n-th on; -1: none does.
void fail_copies_from(int copy);
// Copies so far; and those that were asked for in this stream.
int copies_made();
int copies_in_stream(const void* stream);

}  // namespace sparcl::test
