#pragma once
// The heartbeat's thread, and what it shares with the callers of Heartbeat.

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/transport/liveness/datagram_sockets.hpp"
#include "src/transport/liveness/heartbeat.hpp"
#include "src/transport/liveness/heartbeat_message.hpp"
#include "src/transport/liveness/peer_pulse.hpp"
#include "src/transport/service_thread.hpp"

namespace sparcl {

class Heartbeat::Loop {
 public:
  Loop(const HeartbeatOptions& options, DatagramSockets sockets, WakeEvent wake, WakeEvent died, std::atomic<std::uint32_t>& deaths)
      : options_(options), sockets_(std::move(sockets)), wake_(std::move(wake)), died_(std::move(died)), deaths_(deaths) {}

  Status make_card();
  Status start(int rank, std::span<const std::vector<std::byte>> cards);
  bool stop() { return thread_.stop(); }
  bool is_own_process() const { return thread_.is_own_process(); }
  void say_goodbye() const;
  void give_up(int peer);
  void go_on_without(int peer);
  void retire();

  void watch(int peer);
  std::optional<Status> dead(int peer) const;
  std::vector<Obituary> obituaries() const;
  bool has_answered(int peer) const;
  std::string describe(int peer) const;
  const std::vector<std::byte>& card() const { return card_; }
  int event_fd() const { return died_.fd(); }
  void clear_event() const { died_.drain(); }

 private:
  struct Peer {
    PeerPulse pulse;
    ProcessIdentity process;
    Socket process_end;                        // readable once the process has ended, where the kernel can say
    double left_at = -1;                       // when it said goodbye
    std::optional<std::uint64_t> last_before;  // ping before this process did not run for long; until one after it is answered
    double last_ping = -1;
    double last_pass = -1;  // until when its silence is counted; -1: it is not watched
    bool is_dead = false;
    bool may_have_gone_on = false;           // without this rank
    bool is_mute = false;                    // that it never answered was logged
    std::atomic<bool> has_answered = false;  // for other threads
    std::atomic<bool> is_given_up = false;   // by this rank, as another thread said
    std::atomic<bool> is_left_out = false;   // and the others go on without it
    bool is_told = false;                    // that it is left out
    std::atomic<double> watched_until{-1};   // written by watch()
  };

  void introduce(std::size_t rank, std::span<const std::byte> card);
  void watch_end(std::size_t rank);
  void run(const ServiceThread::Stop& stop);
  std::vector<std::size_t> sleep(const ServiceThread::Stop& stop, double until);
  void receive_all(double now);
  void take(const Beat& beat, const NetAddress& from, double now);
  void take_refusals(double now);
  void take_end(std::size_t rank);
  bool tick(double now);
  void look_at(std::size_t rank, double now);
  void ping(std::size_t rank, double now);
  void answer(const Beat& beat, BeatKind kind, const NetAddress& to) const;
  void look_for_absence(double now);
  enum class End { kSeen, kLeft, kGuessed };  // only what was seen is told to others
  void bury(std::size_t rank, const std::string& how, End end);
  std::string why_it_may_have_gone_on(const Peer& peer) const;  // "": it cannot
  void bury_those_told_before(std::size_t rank);
  void bury_who_gave_up(std::size_t rank);
  void tell_left_out(std::size_t rank) const;
  void take_wishes();
  void tell_all(BeatKind kind, std::uint64_t sequence) const;
  std::string who(std::size_t rank) const;
  bool has_peer(int peer) const { return peer >= 0 && static_cast<std::size_t>(peer) < count_ && peer != rank_; }

  HeartbeatOptions options_;
  DatagramSockets sockets_;
  WakeEvent wake_;
  WakeEvent died_;
  std::atomic<std::uint32_t>& deaths_;

  ProcessIdentity own_;
  std::vector<std::byte> card_;
  int rank_ = -1;
  std::uint64_t token_ = 0;
  std::unique_ptr<Peer[]> peers_;
  std::size_t count_ = 0;
  std::size_t greeted_ = 0;              // peers below have been pinged once
  double awake_ = 0;                     // when this thread last looked at the clock
  double absent_s_ = 0;                  // how long this process did not run, the last time that it was long
  std::vector<std::size_t> told_ended_;  // by peers, each of the first end that it saw; in the order of their words
  std::atomic<bool> asleep_ = false;
  std::atomic<bool> watch_news_ = false;  // watch() was called since the last tick
  std::atomic<bool> wishes_ = false;      // somebody is to be told something, or this rank retires
  std::atomic<bool> retires_ = false;
  std::atomic<bool> has_retired_ = false;

  mutable std::mutex mutex_;  // of obituaries_
  std::vector<Obituary> obituaries_;
  ServiceThread thread_;  // last: ends first
};

}  // namespace sparcl
