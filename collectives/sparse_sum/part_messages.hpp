#pragma once
// Parts as messages, whose size the receiver does not know before. A small part is sent as a whole.
// The front of a larger part is sent first and says how much follows. Over slow links a part is
// coded (part_code.hpp); inside a node its location is sent.

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

  // lane: a different one for each kind of part; the rest of large parts takes lane + 1.
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

  // Waits until `arrival` has its part. Parts of one peer and lane arrive in the order in which
  // they were posted. Poisons the communicator if the message is no part, or a larger one. purpose:
  // for error texts.
  Task wait(Arrival& arrival, const char* purpose);

  // Waits until all sent messages are taken.
  Task wait_sent();

 private:
  static constexpr std::uint64_t kFrontBytes = 256
                                               << 10;  // heuristic: as the segments of dense sums
  static constexpr std::uint64_t kPieceBytes =
      64 << 20;  // of the rest; far below the limit of a message

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
  Buffer part_, message_;  // the last sent part, and its message
};

}  // namespace sparcl::collectives::sparse_sum
