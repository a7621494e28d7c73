#pragma once
// The contract of a transport: it moves ordered bytes between two ranks, and knows no collective.
//
// - Messages on one channel between two ranks match in the order in which they are posted. Channels
//   are independent. A stream socket can therefore be a transport, too.
// - Nothing blocks. send() and receive() post an operation, progress() advances it, and it has
//   ended once done(). One exception: a transport that learns of a peer's end may wait for the
//   message that names the first one, for a third of a second, once in its life.
// - The network sees library memory only. An operation holds its Buffer until the network has
//   released it, also after a cancel, a failure, or the end of the call that posted it.
// - The clock is the transport's, because a simulator has its own time.
// - A transport serves one rank, from one thread at a time, and needs no helper thread.

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

// All ranks give a few bytes and get those of all, in the order of ranks: over MPI, over the
// bootstrap's sockets, or over an earlier transport.
using OutOfBandGather = std::function<Result<std::vector<Bytes>>(std::span<const std::byte> own)>;

constexpr std::uint8_t kLanes = 16;

// The number of a call in the communicator's order, with a lane inside the call (0: control, 1:
// data ...).
struct Channel {
  std::uint32_t call = 0;
  std::uint8_t lane = 0;  // less than kLanes
  friend auto operator<=>(const Channel&, const Channel&) = default;
};

// Capabilities of a transport. Algorithms ask for them, never for a name.
struct Capabilities {
  std::uint64_t max_message_bytes = UINT64_MAX;  // the caller cuts larger messages
  bool pinned_memory = false;                    // Buffers in MemorySpace::kPinned are taken
  bool device_memory = false;                    // Buffers in MemorySpace::kDevice are taken
  bool stream_ordered = false;
  bool single_node = false;  // all ranks share one node: an estimate of what a message costs
  bool one_sided_put = false;
  bool node_shared_window = false;
  bool dense_allreduce = false;      // has a dense all-reduce of its own
  bool survives_peer_death = false;  // the other ranks can continue without a dead peer
  bool has_successors = false;       // make_successor() is there
  bool knows_peer_death =
      false;  // a peer's death fails its operations; else only the deadline tells
};

// One posted send or receive. The transport makes it, and shares it with its waiters.
struct Operation {
  enum class Kind : std::uint8_t { kSend, kReceive };

  Kind kind = Kind::kSend;
  int peer = -1;
  Channel channel;
  Buffer
      buffer;  // send: the message; receive: where it goes, as large as the largest message allowed
  std::uint64_t bytes = 0;  // of the message; for a receive valid once done
  bool done = false;        // it has ended: delivered, failed or cancelled
  Status status;  // of a done operation. Corrupt: the message was larger than the receive buffer
  void* waiter = nullptr;  // the engine's; a transport does not touch it

  virtual ~Operation() = default;
};
using OperationRef = std::shared_ptr<Operation>;

// A small message outside all channels. A rank that leaves a call with an error sends its reason to
// the other ranks, so that they do not wait for it.
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

  // "host h1, pid 4711", as known to the transport; for error texts.
  virtual std::string describe_peer(int peer) const = 0;

  // Posts; never returns nullptr. An operation that cannot be posted is returned done, with its
  // error. peer may be this rank itself.
  virtual OperationRef send(int peer, Channel channel, Buffer message) = 0;
  virtual OperationRef receive(int peer, Channel channel, Buffer space) = 0;

  // Cancels an operation: it becomes done (status InProgress if it had not finished). Its buffer
  // stays alive as long as the network may touch it. A cancelled receive may take a message; a
  // cancelled send may still arrive.
  virtual void cancel(const OperationRef& operation) = 0;

  // Advances operations without blocking, and appends those that became done since the last call,
  // each once. Operations that were returned done by send or receive, and cancelled ones, are not
  // repeated. An error poisons the communicator: the transport is unusable.
  virtual Status progress(std::vector<OperationRef>& completed) = 0;
  // The first peer whose end an operation or progress() reported; -1: none.
  virtual int culprit() const { return -1; }

  // The caller found nothing to do for the `turns`-th time in a row. Spins, yields, or sleeps until
  // something may have arrived, but not beyond `until_seconds` on the own clock.
  virtual void idle(std::uint64_t turns, double until_seconds) = 0;

  // The caller goes away with operations pending, and may come back late. The peers that it waits
  // for are watched meanwhile.
  virtual void leave_waiting() {}

  // Monotonic seconds.
  virtual double now() = 0;

  // Best effort, never blocks, at most once or twice in a communicator's life. The signal may name
  // a culprit that this transport has lost and that is alive. Receivers that still have a link to
  // the culprit then pass the signal on to it.
  virtual void signal(int peer, const Signal& signal) = 0;
  // The caller may not come back for long. Advances signals until they are sent, for at most so
  // many seconds.
  virtual void flush_signals(double /*seconds*/) {}
  // Takes one signal that has arrived.
  virtual bool poll_signal(Signal& signal) = 0;

  // This rank will post no more operations on this channel. Messages that no operation received may
  // be dropped.
  virtual void close(Channel channel) = 0;

  // Says whether a peer with failed operations has ended. A silent peer may still run, and count
  // this rank as dead. Repeated calls make the answer known.
  enum class PeerEnd { kUnknown, kMayGoOn, kSure };
  virtual PeerEnd end_of(int /*peer*/) { return PeerEnd::kUnknown; }

  // The other ranks continue without this peer, which may still run. It is told so, and never that
  // this rank leaves.
  virtual void go_on_without(int /*peer*/) {}

  // Whether the calling thread may call this transport.
  virtual bool is_for_this_thread() const noexcept { return true; }
  // Why no call but destruction is possible any more, because the library below has ended; nullptr:
  // calls are possible.
  virtual const char* why_over() const noexcept { return nullptr; }

  // If has_successors: a new transport of this kind and with these options, for the `ranks` ranks
  // that meet in `gather`.
  virtual Result<std::unique_ptr<Transport>> make_successor(int /*rank*/, int /*ranks*/,
                                                            const OutOfBandGather& /*gather*/) {
    return Status(Code::kUnsupported, "this transport has no successors");
  }
  // Collective, before anything is posted: finds unreachable peers, which a first message would
  // find too late.
  virtual Status connect(double /*timeout_s*/) { return {}; }
};

}  // namespace sparcl::transport
