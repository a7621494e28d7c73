#pragma once
// A stream in messages of the communicator's transport, along a fan-out, in fragments that are
// passed on as they arrive.
//
// Fragments are fragment_bytes long; a shorter one (also an empty one) ends the stream, as fread
// does. A fragment therefore needs no header, is received at its final position, and is sent on
// from there. Receivers keep kReceivesAhead receives posted. The sender therefore ends the stream
// with kReceivesAhead - 1 further empty fragments, and nothing needs to be cancelled.

#include <deque>

#include "collectives/broadcast/fanout.hpp"
#include "collectives/broadcast/stream.hpp"

namespace sparcl::collectives::broadcast {

constexpr int kReceivesAhead = 4;

class MessageStream final : public Stream {
 public:
  MessageStream(Engine& engine, transport::Channel channel, Links links,
                std::uint32_t fragment_bytes)
      : Stream(engine),
        channel_(channel),
        links_(std::move(links)),
        fragment_bytes_(fragment_bytes) {}

  Task send_all(StreamSource& source, Status& outcome) override;
  Task receive_all(StreamTarget& target, Status& outcome) override;
  Task drain() override;
  void abandon() override;

 private:
  void pass_on(std::uint64_t first, std::size_t count);
  void post_receive();
  void cut_fragments();
  void end_stream();
  void take_fragment(std::size_t count, Status& outcome);

  transport::Channel channel_;
  Links links_;
  std::uint32_t fragment_bytes_;
  std::uint64_t cut_ = 0;  // root: cut into fragments and sent
  std::uint64_t next_receive_ = 0;
  bool ended_ = false;
  std::deque<transport::OperationRef> receives_;
  std::deque<transport::OperationRef> sends_;
};

}  // namespace sparcl::collectives::broadcast
