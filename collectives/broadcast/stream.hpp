#pragma once
// One rank's end of a stream of unknown length from a root to all ranks. message_stream.hpp or
// stream_nccl.hpp moves its bytes.

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
  // produce() has no work yet: its input comes by no message.
  virtual bool is_waiting() { return false; }
  // All ranks hold a verified stream: the root's part of the commit.
  virtual void commit() = 0;
};

// The other ranks' side.
class StreamTarget {
 public:
  virtual ~StreamTarget() = default;
  // The first `available` bytes have come: checks a bounded piece of the complete, unchecked part;
  // `more`: call again.
  virtual Status check(const Staging& stream, std::uint64_t available, bool& more) = 0;
  // As StreamSource::is_waiting(), for check().
  virtual bool is_waiting() { return false; }
  virtual Status finish(std::uint64_t stream_bytes) = 0;
  virtual Status commit(const Staging& stream) = 0;
  // The commit continues elsewhere: call commit() again.
  virtual bool is_committing() const { return false; }
};

// One rank's end of the stream. Holds the messages in flight.
class Stream {
 public:
  explicit Stream(Engine& engine) : engine_(engine) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Root: encodes a piece and sends nothing, while the ranks have not agreed on the call, up to a
  // limit.
  Status produce(StreamSource& source);
  bool wants_more_ahead(const StreamSource& source) const;

  // Root: encodes and sends until the end. `outcome`: the source's error, which ends the stream
  // early. The result is an error only if the communicator is poisoned.
  virtual Task send_all(StreamSource& source, Status& outcome) = 0;
  // Other ranks: receive, pass on and check until the end. `outcome`: the target's verdict on the
  // stream.
  virtual Task receive_all(StreamTarget& target, Status& outcome) = 0;

  // After a vote: waits until nothing is in flight, or gives up the messages in flight.
  virtual Task drain() = 0;
  virtual void abandon() = 0;

  const Staging& bytes() const { return staging_; }
  const Traffic& traffic() const { return traffic_; }

 protected:
  // Other ranks: check a piece of the received bytes; after the last byte, the rest.
  Status check(StreamTarget& target, bool& more) const;
  Status finish(StreamTarget& target) const;

  Engine& engine_;
  Staging staging_;
  std::uint64_t written_ = 0;  // root: encoded; others: received
  Traffic traffic_;
};

}  // namespace sparcl::collectives::broadcast
