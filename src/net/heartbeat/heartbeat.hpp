#pragma once
// Heartbeats tell whether a peer that a rank waits for is alive, over any transport, by UDP and a
// small thread. All communicators of a process share the thread and the port
// (heartbeat_service.hpp). docs/explanation/liveness.md says what is detected, how soon, and what
// cannot be.
//
// - open(): before ranks meet; the port exists from now on.
// - card(): is sent to all ranks with the bootstrap.
// - start(): takes the cards of all ranks.
// - watch(): again and again while a rank waits for a peer; dead() tells the result.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::net {

struct HeartbeatOptions {
  double period_s = 0.1;  // between two pings of a watched peer
  double silence_s =
      5;  // a watched peer that was heard before and is silent for so long is stopped or cut off
  double watch_s = 1;       // how long one watch() lasts
  double left_grace_s = 2;  // a peer's last messages may still be under way when it has left
  int greetings = 32;       // peers that are pinged unasked each period, until each was pinged once
  bool use_processes = true;  // also ask the kernel about processes of this machine

  Status check_silence(double seconds, const char* name)
      const;                         // InvalidArgument if a healthy peer would look silent
  void set_silence(double seconds);  // silence_s, and what depends on it
};

// From the settings HEARTBEAT_MS and LIVENESS_S. Nothing if `is_on`, the value of a config, says
// off; without a value, if HEARTBEAT does.
Result<std::optional<HeartbeatOptions>> heartbeat_options(std::optional<bool> is_on = {});

class HeartbeatService;
class WakeEvent;

class Heartbeat {
 public:
  // service: nullptr for the service of this process.
  static Result<std::unique_ptr<Heartbeat>> open(const HeartbeatOptions& options = {},
                                                 std::shared_ptr<HeartbeatService> service = {});

  // Sends nothing to the peers. No effect on them in a child of fork().
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // A few hundred bytes.
  const std::vector<std::byte>& card() const;

  // Call it once, with the cards of all ranks, in the order of ranks. A peer with an empty card has
  // no heartbeat and is never found dead.
  Status start(int rank, std::span<const std::vector<std::byte>> cards);

  // This rank waits for `peer`, for the next watch_s. Any thread; some 30 ns. The own rank is
  // ignored.
  void watch(int peer);

  // Grows with each peer that is found dead. One load, to compare with the value of the last look.
  std::uint32_t deaths() const { return deaths_.load(std::memory_order_acquire); }
  // A death wakes `event`, until another event is set, or nullptr.
  void set_event(const WakeEvent* event);

  // RemoteError, with rank, host, pid, and the evidence; nothing while the peer seems alive. Any
  // thread. A peer that was found dead stays dead. A peer that left counts as dead only if it is
  // waited for, left_grace_s later.
  std::optional<Status> dead(int peer) const;
  // All of them, in the order in which they were found: later ones may have ended because of the
  // first.
  struct Obituary {
    int rank;
    Status status;
    bool is_sure;  // the peer has ended, or left; if false, it may still run: it is silent, or has
                   // given this rank up
  };
  std::vector<Obituary> obituaries() const;

  // Whether this peer ever answered. If not, its silence or its closed port may be a firewall's.
  // Any thread.
  bool has_answered(int peer) const;

  // "host h, pid 4711"; empty if its card is empty.
  std::string describe(int peer) const;

  // This rank has given `peer` up, for any reason: peers that ask are told. Any thread.
  void give_up(int peer);
  // The same, and the other ranks continue without it. It is told so, now and at the end, and never
  // that this rank leaves. Any thread.
  void go_on_without(int peer);

  // Tells the peers that this rank leaves in good order. The ranks that were excluded are still
  // answered.
  void retire();
  // The same, and this rank answers no more. The last communicator of the process ends the thread.
  void leave();

  class Peers;

 private:
  Heartbeat();

  std::unique_ptr<Peers> peers_;
  std::atomic<std::uint32_t> deaths_ = 0;
};

}  // namespace sparcl::net
