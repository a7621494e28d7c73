#pragma once
// A stream of unknown length from a root to all ranks: one rank's end of it. How its bytes come to
// the others is message_stream.hpp's, or stream_nccl.hpp's.

#include <cstdint>

#include "collectives/collective.hpp"
#include "src/base/staging.hpp"
#include "src/codec/update.hpp"

namespace sparcl::collectives::broadcast {

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
  // The first `available` bytes are there: checks a bounded piece of what is complete and not yet
  // checked; `more`: call again.
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
  explicit Stream(Engine& engine) : engine_(engine) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Root: encodes a piece and sends nothing: for as long as the ranks have not agreed on the call,
  // up to a cap.
  Status produce(StreamSource& source);
  bool wants_more_ahead(const StreamSource& source) const;

  // Root: encodes and sends until the end. `outcome`: the source's error; then the stream is ended
  // early. The result is an error only if the comm is poisoned.
  virtual Task send_all(StreamSource& source, Status& outcome) = 0;
  // Others: receives, passes on and checks until the end. `outcome`: the target's verdict on the
  // stream.
  virtual Task receive_all(StreamTarget& target, Status& outcome) = 0;

  // After a vote: waits until nothing is in flight any more; or gives up what is.
  virtual Task drain() = 0;
  virtual void abandon() = 0;

  const Staging& bytes() const { return staging_; }
  const Traffic& traffic() const { return traffic_; }

 protected:
  // Others: checks a piece of what is there; and, after the last byte, all of it.
  Status check(StreamTarget& target, bool& more) const;
  Status finish(StreamTarget& target) const;

  Engine& engine_;
  Staging staging_;
  std::uint64_t written_ = 0;  // root: encoded; others: received
  Traffic traffic_;
};

}  // namespace sparcl::collectives::broadcast
