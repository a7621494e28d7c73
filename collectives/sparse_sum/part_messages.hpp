#pragma once
// Parts as messages: nobody knows before how large another's is. What is small travels whole; of a larger part the front goes first
// and says how much follows.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/comm_context.hpp"
#include "collectives/engine/lending.hpp"
#include "collectives/sparse_sum/entry_part.hpp"

namespace sparcl::collectives {

class PartMessages {
 public:
  PartMessages(const CommContext& comm, std::uint32_t number, Traffic& traffic)
      : engine_(*comm.engine), buffers_(*comm.buffers), window_(comm.window.get()), number_(number), traffic_(traffic) {}

  // lane: another one for each kind of part; the rest of large ones takes lane + 1.
  void send(int peer, std::uint8_t lane, const Buffer& part);

  struct Arrival {
    int peer = -1;
    std::uint8_t lane = 0;
    OperationRef front;
    Buffer part;  // once it has arrived
  };
  Arrival receive(int peer, std::uint8_t lane, std::uint64_t most_bytes);

  // Until `arrival` has its part. Those of one peer and lane in the order in which they were posted. Poisons the comm where a part
  // has more than most_bytes. purpose: for error texts.
  Task wait(Arrival& arrival, std::uint64_t most_bytes, const char* purpose);

  // Until all that was sent is taken.
  Task wait_sent();

 private:
  static constexpr std::uint64_t kFrontBytes = 256 << 10;  // heuristic: as the segments of dense sums
  static constexpr std::uint64_t kPieceBytes = 64 << 20;   // of what follows; far below what a message may have

  void note_sent(OperationRef operation);
  Status refuse(int peer);

  Engine& engine_;
  BufferPool& buffers_;
  NodeWindow* window_;
  std::uint32_t number_;
  Traffic& traffic_;
  std::vector<OperationRef> sent_;
  std::size_t sweep_at_ = 256;
};

}  // namespace sparcl::collectives
