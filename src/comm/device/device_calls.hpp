#pragma once
// A communicator's calls between its ranks' GPUs, in the order of streams: the memory that they
// hold there, and until when.

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "kernels/device_kernel_set.hpp"
#include "src/comm/device/fragment_memory.hpp"
#include "src/gpu/device_stream.hpp"
#include "src/transport/collective_engine.hpp"

namespace sparcl::comm {

class Engine;

class DeviceCalls {
 public:
  // context: of this rank's GPU, which `engine` uses.
  DeviceCalls(std::unique_ptr<transport::CollectiveEngine> engine,
              const kernels::DeviceKernelSet& kernels, void* context, int gpu)
      : engine_(std::move(engine)), kernels_(kernels), context_(context), gpu_(gpu) {}
  // Waits at most some seconds for the work in streams, then ends it.
  ~DeviceCalls();

  transport::CollectiveEngine& engine() { return *engine_; }
  const kernels::DeviceKernelSet& kernels() const { return kernels_; }
  void* context() const { return context_; }
  int gpu() const { return gpu_; }  // its number

  struct Memory {
    std::shared_ptr<const gpu::DeviceBuffer> bytes;
    bool is_captured = false;
  };
  // Device memory for one call on the stream, before anything is enqueued or agreed on. All calls
  // share it; a captured call gets its own.
  Result<Memory> reserve(std::size_t bytes, void* stream);
  // Called once the call's steps are in the stream, even if some failed. The memory and `other`
  // stay until the steps have ended; for good if they were captured.
  Status hold(const Memory& memory, std::shared_ptr<const void> other, void* stream);

  // For a broadcast's stream, before it is agreed on. Consecutive broadcasts share it.
  Result<std::shared_ptr<FragmentMemory>> fragment_memory();

  // Waits until the stream has finished. The communicator is watched meanwhile, and ended after
  // timeout_s. The error is the communicator's.
  Status synchronize(Engine& engine, void* stream);
  // An error that the GPU has found poisons the communicator, and the end of the communicator ends
  // its work in streams.
  void exchange_health(Engine& engine);

 private:
  struct Held {
    std::shared_ptr<const gpu::DeviceBuffer> memory;
    std::shared_ptr<const void> other;
  };
  struct Use {  // until the event is over
    gpu::DeviceEvent event;
    void* stream;
    Held held;
  };

  void forget_what_is_over();
  // Makes shared_ at least that large, and orders the stream's next work after its last use.
  Status reserve_shared(std::size_t bytes, void* stream);

  std::unique_ptr<transport::CollectiveEngine> engine_;
  const kernels::DeviceKernelSet& kernels_;
  void* context_;
  int gpu_;
  std::shared_ptr<const gpu::DeviceBuffer> shared_;
  std::shared_ptr<FragmentMemory> fragments_;
  std::deque<Use> uses_;
  std::vector<Held> captures_;  // for good: a graph may be launched at any time
};

}  // namespace sparcl::comm
