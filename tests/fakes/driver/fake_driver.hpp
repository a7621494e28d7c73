#pragma once
// A stand-in for the CUDA driver, by the names that sparcl asks it for: its device memory cannot be
// touched by the host (a read or write ends the process, also after it was freed), and what a
// stream holds happens when somebody waits for it or asks. What it cannot show is CUDA itself:
// tests/hardware does.

#include <cstddef>
#include <functional>
#include <memory>

namespace sparcl::test {

// Device memory, and the same bytes where the test can reach them. Never freed.
struct FakeDeviceMemory {
  void* device;
  void* bytes;
};
FakeDeviceMemory fake_device_memory(std::size_t bytes, int gpu = 0);
// Where the test, and what stands in for kernels, reaches an address of device memory; others as
// they are.
void* reachable(const void* address);

// From now on copies fail from the n-th on; -1: none does.
void fail_copies_from(int copy);
// Device memory is at an end, or not.
void fail_allocations(bool fails);
// What cuMemGetInfo says to be free of 64 GiB; 0: all of them.
void set_free_memory(std::size_t bytes);
// Copies so far; and those that were asked for in this stream.
int copies_made();
int copies_in_stream(const void* stream);
std::size_t bytes_copied(const void* stream);
// Copies to the host out of the piece of device memory that an address is in; only_pageable: of
// these the ones to memory that is not pinned.
int copies_out_of(const void* address, bool only_pageable = false);

// What a kernel does, in its stream's order.
void enqueue(const void* stream, std::function<void()> work);
// The same as a launch, which the driver counts, and may refuse: a CUresult.
int launch_kernel(const void* stream, std::function<void()> work);
int launches_in_stream(const void* stream);
// From now on launches, or marks in streams, fail from the n-th on; -1: none does.
void fail_launches_from(int launch);
void fail_events_from(int event);

// The stream is of this GPU's context, and not of the first's.
void put_on_gpu(const void* stream, int gpu);
// The stream comes to what is put into it after the next so many things only once it may go on.
void stall(const void* stream, int after);
void go_on(const void* stream);
bool is_stalled(const void* stream);  // it has come there

// Graphs. What must not be done in a capture ends it with an error, as CUDA's default mode has it.
struct FakeGraph;
void begin_capture(const void* stream);
std::shared_ptr<FakeGraph> end_capture(const void* stream);  // nullptr: something ended it
void launch(const FakeGraph& graph, const void* stream);

// This thread has chosen no GPU so far.
void forget_gpu(bool is_forgotten);
// All threads have the same GPU.
void share_gpus(bool are_shared);
// Device memory, and pinned memory, of sparcl's own that lives.
int allocations_alive();

}  // namespace sparcl::test
