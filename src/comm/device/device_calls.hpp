#pragma once
// The calls of a comm between its ranks' GPUs, in streams' order: what they hold there, and until
// when.

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
  // Waits some seconds at most for what streams hold, then ends it.
  ~DeviceCalls();

  transport::CollectiveEngine& engine() { return *engine_; }
  const kernels::DeviceKernelSet& kernels() const { return kernels_; }
  void* context() const { return context_; }
  int gpu() const { return gpu_; }  // its number

  struct Memory {
    std::shared_ptr<const gpu::DeviceBuffer> bytes;
    bool is_captured = false;
  };
  // Of the device, for one call on the stream, before anything is enqueued or agreed on: what all
  // calls share, or, of a call that is captured, its own.
  Result<Memory> reserve(std::size_t bytes, void* stream);
  // Once the call's steps are in the stream, also where some failed: it, and what else they use,
  // stays until they are through; for good, where they were captured.
  Status hold(const Memory& memory, std::shared_ptr<const void> other, void* stream);

  // For a broadcast's stream, before it is agreed on; the same for one after the other.
  Result<std::shared_ptr<FragmentMemory>> fragment_memory();

  // Until the stream is through: looks after the comm meanwhile, and after timeout_s ends it. Its
  // error is the comm's.
  Status synchronize(Engine& engine, void* stream);
  // What the GPU's side has found poisons the comm, and the comm's end ends what streams hold.
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
  // shared_ holds so much, and what the stream gets from now on comes behind its last use.
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
