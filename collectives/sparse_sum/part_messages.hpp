#pragma once
// Parts as messages: nobody knows before how large another's is. What is small travels whole; of a
// larger part the front goes first and says how much follows. Where links are slow a part is coded
// (part_code.hpp); inside a node its place is told.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/collective.hpp"
#include "src/comm/engine/lending.hpp"
#include "src/sparse/parts/part_code.hpp"

namespace sparcl::collectives::sparse_sum {

class PartMessages {
 public:
  PartMessages(const CommContext& comm, std::uint32_t number, Traffic& traffic)
      : engine_(*comm.engine),
        buffers_(*comm.buffers),
        window_(comm.window.get()),
        number_(number),
        traffic_(traffic),
        coder_(*comm.kernels),
        codes_(comm.codes_entries(false)),
        codes_scaled_(comm.codes_entries(true)) {}

  // lane: another one for each kind of part; the rest of large ones takes lane + 1.
  void send(int peer, std::uint8_t lane, const Buffer& part, const sparse::PartShape& shape);

  struct Arrival {
    int peer = -1;
    std::uint8_t lane = 0;
    sparse::PartShape shape;
    std::uint64_t max_bytes = 0;  // of the part
    transport::OperationRef front;
    Buffer part;  // once it has arrived
  };
  Arrival receive(int peer, std::uint8_t lane, const sparse::PartShape& shape,
                  std::uint64_t max_bytes);

  // Until `arrival` has its part. Those of one peer and lane in the order in which they were
  // posted. Poisons the comm where what came is no part, or a larger one. purpose: for error texts.
  Task wait(Arrival& arrival, const char* purpose);

  // Until all that was sent is taken.
  Task wait_sent();

 private:
  static constexpr std::uint64_t kFrontBytes = 256
                                               << 10;  // heuristic: as the segments of dense sums
  static constexpr std::uint64_t kPieceBytes =
      64 << 20;  // of what follows; far below what a message may have

  const Buffer& message_of(const Buffer& part, const sparse::PartShape& shape);
  void note_sent(transport::OperationRef operation);
  Status take_message(Arrival& arrival, const Buffer& message);
  Status refuse(int peer);

  Engine& engine_;
  BufferPool& buffers_;
  transport::NodeWindow* window_;
  std::uint32_t number_;
  Traffic& traffic_;
  std::vector<transport::OperationRef> sent_;
  std::size_t sweep_at_ = 256;
  sparse::PartCoder coder_;
  bool codes_, codes_scaled_;
  Buffer part_, message_;  // the last that was sent, and as what
};

}  // namespace sparcl::collectives::sparse_sum
