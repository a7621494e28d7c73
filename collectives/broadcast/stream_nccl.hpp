#pragma once
// A stream that NCCL carries between the ranks' GPUs (sparclCommUseNccl). Coded bytes are few. They
// are copied through pinned memory to the root's GPU, sent by ncclBroadcast, and copied back the
// same way.
//
// All ranks must give NCCL the same counts, but only the root knows the length of the stream.
// Fragments therefore have sizes that all ranks know. The first is short, and each next one is
// twice as long, up to FragmentMemory's slots. Each fragment begins with a head: the number of its
// bytes that the stream fills. A fragment that is not full ends the stream. A rank asks for the
// next fragment once it has read the head of the last.

#include <memory>

#include "collectives/broadcast/stream.hpp"
#include "src/comm/device/fragment_memory.hpp"

namespace sparcl::collectives::broadcast {

class GpuStream final : public Stream {
 public:
  // channel: the call's own; nothing is sent on it. memory: nullptr if there is nothing to send or
  // receive.
  GpuStream(Engine& engine, transport::Channel channel, DeviceCalls& calls,
            std::shared_ptr<comm::FragmentMemory> memory, int root);
  // The memory stays until the GPU has finished with it.
  ~GpuStream() override;

  Task send_all(StreamSource& source, Status& outcome) override;
  Task receive_all(StreamTarget& target, Status& outcome) override;
  Task drain() override;  // nothing is in flight after the two above
  void abandon() override {}

 private:
  // Makes this rank wait for a message of the next rank that never comes. The transport therefore
  // watches that rank, which NCCL does not.
  class Guard {
   public:
    Guard(Engine& engine, transport::Channel channel);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Engine& engine_;
    transport::OperationRef nothing_;
  };

  Status send_fragment(std::size_t count);
  Status receive_fragment();
  Status copy_from_device(std::size_t first, std::size_t count, gpu::DeviceEvent& event);
  Status take_head(std::size_t& count);
  // Waits for the event. The result is an error only if the communicator is poisoned, which is the
  // only error that can end the wait.
  Task wait(const gpu::DeviceEvent& event, const char* purpose);
  // An error that other ranks cannot undo poisons the communicator.
  Status end_comm(const Status& error);

  transport::Channel channel_;
  DeviceCalls& calls_;
  std::shared_ptr<comm::FragmentMemory> memory_;
  int root_;
  std::uint64_t fragment_ = 0;  // the next to be sent or received
  gpu::DeviceEvent arrived_;    // other ranks: of the head, then of the rest
};

}  // namespace sparcl::collectives::broadcast
