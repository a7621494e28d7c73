#pragma once
// Heartbeats: whether a peer that a rank waits for still lives, over any transport, by UDP and a
// small thread. All communicators of a process share the thread and the port
// (heartbeat_service.hpp). docs/explanation/liveness.md says what is found, how soon, and what
// cannot be.
//
//   open()   before ranks meet: the port is there from now on
//   card()   goes to all ranks, by whatever brings them together
//   start()  with all cards
//   watch()  again and again while waiting for a peer; dead() tells

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
  double silence_s = 5;   // a watched peer that was heard before and does not answer for so long is
                          // stopped or cut off
  double watch_s = 1;     // how long one watch() lasts
  double left_grace_s = 2;    // what a peer sent before it left may still be under way
  int greetings = 32;         // peers that are pinged unasked each period, until each has been once
  bool use_processes = true;  // on one machine, ask the kernel too

  Status check_silence(double seconds, const char* name)
      const;                         // InvalidArgument if a healthy peer would look silent
  void set_silence(double seconds);  // silence_s, and what hangs on it
};

// By the settings HEARTBEAT_MS and LIVENESS_S; nothing where `is_on`, else HEARTBEAT, says off.
// is_on: what a config says of it.
Result<std::optional<HeartbeatOptions>> heartbeat_options(std::optional<bool> is_on = {});

class HeartbeatService;
class WakeEvent;

class Heartbeat {
 public:
  // service: nullptr for the one of this process.
  static Result<std::unique_ptr<Heartbeat>> open(const HeartbeatOptions& options = {},
                                                 std::shared_ptr<HeartbeatService> service = {});

  // Says nothing to the peers. No effect on them in a child of fork().
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // A few hundred bytes.
  const std::vector<std::byte>& card() const;

  // Once, with the cards of all ranks, in the order of ranks. A peer with an empty card (its
  // heartbeat is off) is never found dead.
  Status start(int rank, std::span<const std::vector<std::byte>> cards);

  // This rank waits for `peer`, for the next watch_s. Any thread; some 30 ns. The own rank is
  // ignored.
  void watch(int peer);

  // Grows with each peer that is found dead: one load, to be compared with the value of the last
  // look.
  std::uint32_t deaths() const { return deaths_.load(std::memory_order_acquire); }
  // A death wakes `event`, until another one is set, or nullptr.
  void set_event(const WakeEvent* event);

  // RemoteError, with rank, host, pid, and what is known; nothing while the peer lives as far as
  // one can tell. Any thread. A peer that was found dead stays so. Of one that left this is said
  // only where it is waited for, left_grace_s later.
  std::optional<Status> dead(int peer) const;
  // All of them, in the order in which they were found: the later ones may have ended because of
  // the first.
  struct Obituary {
    int rank;
    Status status;
    bool is_sure;  // it has ended, or left; else it does not answer, or has given this rank up: it
                   // may go on
  };
  std::vector<Obituary> obituaries() const;

  // Whether this peer ever answered: only then its silence, or its closed port, can be told from a
  // firewall. Any thread.
  bool has_answered(int peer) const;

  // "host h, pid 4711"; empty where its card was.
  std::string describe(int peer) const;

  // This rank has given `peer` up, for whatever reason: who asks is told. Any thread.
  void give_up(int peer);
  // The same, and the others go on without it: it is told so, now and at the end, and never that
  // this rank leaves. Any thread.
  void go_on_without(int peer);

  // Tells the peers that this rank leaves in good order. Those without which it goes on are
  // answered further.
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
