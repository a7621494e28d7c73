#pragma once
// The contract of a transport: it moves ordered bytes between two ranks, and knows no collective.
//
// - Messages on one channel between two ranks match in the order in which they are posted; channels
// are independent.
//   So a stream socket is a transport, too.
// - Nothing blocks. send() and receive() post an operation, progress() moves it on, and it is over
// once done(). One exception:
//   a body that learns of a peer's end may wait for the word who was the first, for a third of a
//   second, once in its life.
// - The network sees library memory only: an operation holds its Buffer until the network has let
// go of it, also after a
//   cancel, a failure, or the end of the call that posted it.
// - The clock is the transport's: under a simulator time is not ours.
// - A body serves one rank, from one thread at a time; no helper thread is needed.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/buffer.hpp"
#include "src/base/status.hpp"

namespace sparcl::transport {

using Bytes = std::vector<std::byte>;

// All ranks give a few bytes and get everyone's, in the order of the ranks: over MPI, over the
// bootstrap's sockets, or over the transport that they had before.
using OutOfBandGather = std::function<Result<std::vector<Bytes>>(std::span<const std::byte> own)>;

// A call's number in the comm's order of calls, with a lane inside the call (0: control, 1: data
// ...).
struct Channel {
  std::uint32_t call = 0;
  std::uint8_t lane = 0;
  friend auto operator<=>(const Channel&, const Channel&) = default;
};

// What a body can do. Algorithms ask for capabilities, never for a name.
struct Capabilities {
  std::uint64_t max_message_bytes = UINT64_MAX;  // larger messages are the caller's to cut
  bool pinned_memory = false;                    // Buffers in MemorySpace::kPinned are taken
  bool device_memory = false;                    // Buffers in MemorySpace::kDevice are taken
  bool stream_ordered = false;
  bool single_node = false;  // all ranks share one node: a guess of what a message costs
  bool one_sided_put = false;
  bool node_shared_window = false;
  bool dense_allreduce = false;      // has a dense all-reduce of its own
  bool survives_peer_death = false;  // the comm's other ranks can go on without a dead peer
  bool has_successors = false;       // make_successor() is there
  bool knows_peer_death =
      false;  // a peer's death fails its operations; else only the deadline tells
};

// One posted send or receive. Made by the transport; shared with whoever waits for it.
struct Operation {
  enum class Kind : std::uint8_t { kSend, kReceive };

  Kind kind = Kind::kSend;
  int peer = -1;
  Channel channel;
  Buffer
      buffer;  // send: the message; receive: where it goes, as large as the largest message allowed
  std::uint64_t bytes = 0;  // of the message; for a receive valid once done
  bool done = false;        // over: delivered, failed or cancelled
  Status status;  // of a done operation. Corrupt: the message was larger than the receive buffer
  void* waiter = nullptr;  // the engine's; a transport leaves it alone

  virtual ~Operation() = default;
};
using OperationRef = std::shared_ptr<Operation>;

// A small message outside all channels: a rank that leaves a call in error tells the others why, so
// that nobody waits for it.
struct Signal {
  std::int32_t from = -1;        // set by the receiver's transport
  std::int32_t code = 0;         // a Code
  std::int32_t culprit = -1;     // the rank that failed, -1 if none is named
  std::array<char, 180> text{};  // zero-terminated
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view name() const = 0;  // "loopback", "mpi"
  virtual const Capabilities& capabilities() const = 0;

  // "host h1, pid 4711", as far as the transport knows; for error texts.
  virtual std::string describe_peer(int peer) const = 0;

  // Posts; the answer is never nullptr. An operation that cannot be posted is returned done, with
  // its error. peer may be the own rank.
  virtual OperationRef send(int peer, Channel channel, Buffer message) = 0;
  virtual OperationRef receive(int peer, Channel channel, Buffer space) = 0;

  // Gives an operation up: it becomes done (status InProgress if it had not finished). Its buffer
  // stays alive as long as the network may touch it. A cancelled receive may swallow a message; a
  // cancelled send may still arrive.
  virtual void cancel(const OperationRef& operation) = 0;

  // Moves things on without blocking and appends operations that became done since the last call,
  // each once (those that were returned done by send or receive, and cancelled ones, are not
  // repeated). An error poisons the comm: the transport is of no further use.
  virtual Status progress(std::vector<OperationRef>& completed) = 0;
  // The first peer whose end operations or progress() told of, whichever of them fails; -1: none's.
  virtual int culprit() const { return -1; }

  // The caller found nothing to do for the `turns`-th time in a row: spin, yield, or sleep until
  // something may have arrived, but not beyond `until` on the own clock.
  virtual void idle(std::uint64_t turns, double until_seconds) = 0;

  // The caller goes away with operations pending, and may come back late: whoever it waits for is
  // to be looked after meanwhile.
  virtual void leave_waiting() {}

  // Monotonic seconds.
  virtual double now() = 0;

  // Best effort, never blocks, at most once or twice in a comm's life. What names a culprit that
  // this body has lost reaches that one, if it lives, through those that get it and have not.
  virtual void signal(int peer, const Signal& signal) = 0;
  // The caller may not come back for long: moves signals on until they are sent, for so many
  // seconds at most.
  virtual void flush_signals(double /*seconds*/) {}
  // Takes one signal that has arrived.
  virtual bool poll_signal(Signal& signal) = 0;

  // No more operations will be posted on this channel by this rank: messages that nobody received
  // may be dropped.
  virtual void close(Channel channel) = 0;

  // What is known of a peer with which operations fail. Of one that only does not answer nobody
  // knows whether it goes on, and holds this rank for dead. Asked again and again, it becomes
  // known.
  enum class PeerEnd { kUnknown, kMayGoOn, kSure };
  virtual PeerEnd end_of(int /*peer*/) { return PeerEnd::kUnknown; }

  // The others go on without this peer, of which they do not know that it has ended: it is told so,
  // and never that this rank leaves.
  virtual void go_on_without(int /*peer*/) {}

  // Whether the thread that asks may make calls of this transport at all.
  virtual bool is_for_this_thread() const noexcept { return true; }
  // Why no call but its end is possible any more, as what it rests on has ended; nullptr: calls are
  // possible.
  virtual const char* why_over() const noexcept { return nullptr; }

  // Where has_successors: a new transport of this kind and with these options, for the `ranks`
  // ranks that meet in `gather`.
  virtual Result<std::unique_ptr<Transport>> make_successor(int /*rank*/, int /*ranks*/,
                                                            const OutOfBandGather& /*gather*/) {
    return Status(Code::kUnsupported, "this transport has no successors");
  }
  // Collective, before anything is posted: finds out that all peers are reached, where a first
  // message would find it out too late.
  virtual Status connect(double /*timeout_s*/) { return {}; }
};

}  // namespace sparcl::transport
