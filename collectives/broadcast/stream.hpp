#pragma once
// A stream of unknown length from a root to all ranks, in fragments that are passed on as they arrive.
//
// Fragments are fragment_bytes long; a shorter one (also an empty one) ends the stream, as fread does. So a fragment needs no header, lands at
// its final place, and is sent on from there. Receivers keep kReceivesAhead receives posted; the sender therefore ends the stream with
// kReceivesAhead - 1 further empty fragments, and nothing needs to be cancelled.

#include <cstdint>
#include <deque>

#include "collectives/broadcast/fanout.hpp"
#include "collectives/comm_context.hpp"
#include "collectives/engine/engine.hpp"
#include "src/base/staging.hpp"
#include "src/codec/update.hpp"

namespace sparcl::collectives {

constexpr int kReceivesAhead = 4;

// The root's side. One call does a bounded piece of work, so that messages move in between.
class StreamSource {
 public:
  virtual ~StreamSource() = default;
  virtual Status produce(codec::ByteSink& sink) = 0;
  virtual bool finished() const = 0;
  // produce() has nothing to do yet: what it takes comes by no message.
  virtual bool is_waiting() { return false; }
  // All ranks hold a verified stream: the root's part of the commit.
  virtual void commit() = 0;
};

// The other ranks' side.
class StreamTarget {
 public:
  virtual ~StreamTarget() = default;
  // The first `available` bytes are there: checks a bounded piece of what is complete and not yet checked; `more`: call again.
  virtual Status check(const Staging& stream, std::uint64_t available, bool& more) = 0;
  // The same of check().
  virtual bool is_waiting() { return false; }
  virtual Status finish(std::uint64_t stream_bytes) = 0;
  virtual Status commit(const Staging& stream) = 0;
  // It goes on elsewhere: commit() is to be called again.
  virtual bool is_committing() const { return false; }
};

// One rank's end of the stream. Holds what is in flight.
class Stream {
 public:
  Stream(Engine& engine, Channel channel, Links links, std::uint32_t fragment_bytes)
      : engine_(engine), channel_(channel), links_(std::move(links)), fragment_bytes_(fragment_bytes) {}

  // Root: encodes a piece and sends nothing: for as long as the ranks have not agreed on the call, up to a cap.
  Status produce(StreamSource& source);
  bool wants_more_ahead(const StreamSource& source) const;

  // Root: encodes and sends until the end. `outcome`: the source's error; then the stream is ended early. The result is an error only if the comm is poisoned.
  Task send_all(StreamSource& source, Status& outcome);
  // Others: receives, passes on and checks until the end. `outcome`: the target's verdict on the stream.
  Task receive_all(StreamTarget& target, Status& outcome);

  // After a vote: waits until nothing is in flight any more; or gives up what is.
  Task drain();
  void abandon();

  const Staging& bytes() const { return staging_; }
  const Traffic& traffic() const { return traffic_; }

 private:
  void pass_on(std::uint64_t first, std::size_t count);
  void post_receive();
  void cut_fragments();
  void end_stream();
  void take_fragment(std::size_t count, Status& outcome);

  Engine& engine_;
  Channel channel_;
  Links links_;
  std::uint32_t fragment_bytes_;
  Staging staging_;
  std::uint64_t written_ = 0;  // root: encoded; others: received
  std::uint64_t cut_ = 0;      // root: cut into fragments and sent
  std::uint64_t next_receive_ = 0;
  bool ended_ = false;
  std::deque<OperationRef> receives_;
  std::deque<OperationRef> sends_;
  Traffic traffic_;
};

}  // namespace sparcl::collectives
