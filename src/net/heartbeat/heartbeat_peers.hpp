#pragma once
// The heartbeats' knowledge of the peers of one communicator. The service's thread calls take*(),
// note_absence() and take_turn() under the service's lock.

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/net/heartbeat/heartbeat.hpp"
#include "src/net/heartbeat/heartbeat_message.hpp"
#include "src/net/heartbeat/heartbeat_service.hpp"
#include "src/net/heartbeat/peer_pulse.hpp"

namespace sparcl::net {

inline constexpr const char* kHasEnded = "was killed or ended";

class Heartbeat::Peers {
 public:
  Peers(const HeartbeatOptions& options, std::shared_ptr<HeartbeatService> service,
        std::atomic<std::uint32_t>& deaths)
      : options_(options), service_(std::move(service)), deaths_(deaths) {}

  // --- by the callers of Heartbeat ---
  Status make_card();
  Status start(int rank, std::span<const std::vector<std::byte>> cards);
  bool stop(
      HeartbeatService::End end = HeartbeatService::End::kSilent);  // false in a child of fork()
  void leave();
  void give_up(int peer);
  void go_on_without(int peer);
  void retire();

  void watch(int peer);
  std::optional<Status> dead(int peer) const;
  std::vector<Obituary> obituaries() const;
  bool has_answered(int peer) const;
  std::string describe(int peer) const;
  const std::vector<std::byte>& card() const { return card_; }
  void set_event(const WakeEvent* event);

  // --- by the service ---
  std::uint64_t token() const { return token_; }
  int rank() const { return rank_; }
  bool has_given_nobody_up() const;
  double longest_sleep_s() const { return options_.silence_s / 4; }
  void take(const Beat& beat, const NetAddress& from, double now);
  bool take_refusal(const NetAddress& by, bool may_ask,
                    double now);  // whether a peer was asked again
  void take_end(const ProcessEnd& end);
  // This process did not run for so long, and its peers may have given it up. Each of them is
  // asked: a peer that answers has not.
  void note_absence(double seconds);
  double take_turn(double now);  // the time of the next turn; infinity: after watch()

 private:
  struct Peer {
    PeerPulse pulse;
    ProcessIdentity process;
    std::shared_ptr<const ProcessEnd> process_end;  // where the kernel can say
    double left_at = -1;                            // when it said goodbye
    std::optional<std::uint64_t> last_before;       // last ping before this process did not run for
                                                    // long; until a later ping is answered
    double last_ping = -1;
    double last_pass = -1;  // until when its silence is counted; -1: it is not watched
    bool is_dead = false;
    bool may_have_gone_on = false;  // without this rank
    bool is_mute = false;           // it is in the log that it never answered
    bool is_greeted_back = false;   // it began later than this rank, whose greeting came too early
    bool is_left_out = false;       // the other ranks continue without it
    std::atomic<bool> has_answered = false;  // for other threads
    std::atomic<bool> is_given_up = false;   // by this rank, from another thread
    std::atomic<double> watched_until{-1};   // written by watch()
  };

  void introduce(std::size_t rank, std::span<const std::byte> card);
  void watch_ends();
  bool tick(double now);
  void look_at(std::size_t rank, double now);
  void ping(std::size_t rank, double now);
  void answer(const Beat& beat, BeatKind kind, const NetAddress& to) const;
  enum class End { kSeen, kLeft, kGuessed };  // only kSeen is sent to other ranks
  void bury(std::size_t rank, const std::string& how, End end);
  std::string why_it_may_have_gone_on(const Peer& peer) const;  // "": it cannot
  void bury_those_told_before(std::size_t rank);
  void bury_who_gave_up(std::size_t rank);
  void tell_left_out(std::size_t rank) const;
  void tell_all(BeatKind kind, std::uint64_t sequence) const;
  void say_goodbye() const;
  std::string who(std::size_t rank) const;
  bool has_peer(int peer) const {
    return peer >= 0 && static_cast<std::size_t>(peer) < count_ && peer != rank_;
  }

  HeartbeatOptions options_;
  std::shared_ptr<HeartbeatService> service_;
  std::atomic<std::uint32_t>& deaths_;

  std::vector<std::byte> card_;
  int rank_ = -1;
  std::uint64_t token_ = 0;
  std::unique_ptr<Peer[]> peers_;
  std::size_t count_ = 0;
  std::size_t greeted_ = 0;  // peers below this rank have been pinged once
  double next_tick_ = 0;
  bool is_busy_ = true;  // a peer is watched, or must be greeted
  double absent_s_ = 0;  // how long this process did not run, at its last long pause
  std::vector<std::size_t>
      told_ended_;  // by peers, each of the first end that it saw; in the order of arrival
  bool has_retired_ = false;
  std::atomic<bool> is_idle_ = false;     // the thread looks again only after watch()
  std::atomic<bool> watch_news_ = false;  // watch() was called since the last tick

  mutable std::mutex mutex_;  // of both below
  std::vector<Obituary> obituaries_;
  const WakeEvent* died_ = nullptr;  // the caller's
};

}  // namespace sparcl::net
