#pragma once
// A stream that NCCL carries between the ranks' GPUs (sparclCommUseNccl). Coded bytes are few: they
// come through pinned memory into a GPU's, go out by ncclBroadcast, and leave the other GPUs'
// memory the same way.
//
// All ranks must give NCCL the same counts, and only the root knows how long the stream is. So
// fragments have sizes that all know, the first is short, each next one twice as long, up to
// FragmentMemory's slots, and begin with a head that says how much of them the stream fills: all of
// it, or less, which ends the stream. A rank asks for the next fragment once it has read the head
// of the last.

#include <memory>

#include "collectives/broadcast/stream.hpp"
#include "src/comm/device/fragment_memory.hpp"

namespace sparcl::collectives::broadcast {

class GpuStream final : public Stream {
 public:
  // channel: of the call's own, on which nothing is sent. memory: nullptr where there is nothing to
  // be sent or received.
  GpuStream(Engine& engine, transport::Channel channel, DeviceCalls& calls,
            std::shared_ptr<comm::FragmentMemory> memory, int root);
  // The memory stays until the GPU is through with it.
  ~GpuStream() override;

  Task send_all(StreamSource& source, Status& outcome) override;
  Task receive_all(StreamTarget& target, Status& outcome) override;
  Task drain() override;  // nothing is in flight after the two above
  void abandon() override {}

 private:
  // While it lives this rank waits for a message of the next one that never comes: so the transport
  // looks after that one, as NCCL does not.
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
  // Until the GPU has come to the event. The result is an error only if the comm is poisoned, which
  // then is all that holds it up.
  Task wait(const gpu::DeviceEvent& event, const char* purpose);
  // What cannot be undone on the other ranks ends the comm.
  Status end_comm(const Status& error);

  transport::Channel channel_;
  DeviceCalls& calls_;
  std::shared_ptr<comm::FragmentMemory> memory_;
  int root_;
  std::uint64_t fragment_ = 0;  // that is sent, or received, next
  gpu::DeviceEvent arrived_;    // others: of the head, then of what follows it
};

}  // namespace sparcl::collectives::broadcast
