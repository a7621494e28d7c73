// The turns of the service's thread for the peers of a communicator.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "src/base/log.hpp"
#include "src/net/heartbeat/heartbeat_peers.hpp"

namespace sparcl::net {

void Heartbeat::Peers::take(const Beat& beat, const NetAddress& from, double now) {
  if (beat.from >= count_ || beat.from == beat.to) return;
  Peer& peer = peers_[beat.from];
  switch (beat.kind) {
    case BeatKind::kPing:
      if (peer.is_dead || peer.is_given_up.load(std::memory_order_acquire))
        return answer(beat, BeatKind::kOut, from);
      answer(beat, has_retired_ ? BeatKind::kBye : BeatKind::kPong, from);
      // This rank's own greeting may have come before the peer had begun.
      if (!has_retired_ && !peer.pulse.has_answered() && peer.pulse.can_be_pinged() &&
          !std::exchange(peer.is_greeted_back, true))
        ping(beat.from, now);
      return;
    case BeatKind::kPong:
      if (!peer.pulse.pong(beat.sequence, beat.path)) return;
      if (peer.last_before &&
          beat.sequence - *peer.last_before - 1 < peer.pulse.last_ping() - *peer.last_before)
        peer.last_before.reset();
      if (peer.has_answered.load(std::memory_order_relaxed)) return;
      peer.has_answered.store(true, std::memory_order_release);
      log_debug("heartbeat: {} answers at {}", who(beat.from), to_text(from));
      return;
    case BeatKind::kBye:
      if (peer.left_at < 0) peer.left_at = now;
      return;
    case BeatKind::kFirst:
      if (beat.sequence < count_ && told_ended_.size() < count_)
        told_ended_.push_back(beat.sequence);
      return;
    case BeatKind::kOut:
      if (peer.pulse.expects(beat.sequence)) bury_who_gave_up(beat.from);
      return;
    case BeatKind::kGoesOn:
      return bury_who_gave_up(beat.from);
  }
}

void Heartbeat::Peers::answer(const Beat& beat, BeatKind kind, const NetAddress& to) const {
  service_->sockets().send(to, encode_beat(answer_to(beat, kind)));
}

bool Heartbeat::Peers::take_refusal(const NetAddress& by, bool may_ask, double now) {
  bool has_asked = false;
  for (std::size_t i = 0; i < count_; ++i) {
    Peer& peer = peers_[i];
    if (peer.is_dead || peer.left_at >= 0 || !peer.pulse.is_path(by)) continue;
    const PeerPulse::Refusal refusal = peer.pulse.refuse(by);
    if (refusal == PeerPulse::Refusal::kHasEnded)
      bury(i, "was killed or ended: its port is closed", End::kSeen);
    if (refusal != PeerPulse::Refusal::kAskAgain || !may_ask) continue;
    ping(i, now);
    has_asked = true;
    may_ask = false;
  }
  return has_asked;
}

void Heartbeat::Peers::take_end(const ProcessEnd& end) {
  for (std::size_t i = 0; i < count_; ++i) {
    if (peers_[i].process_end.get() != &end) continue;
    if (peers_[i].left_at < 0) bury(i, kHasEnded, End::kSeen);
    peers_[i].process_end.reset();
  }
}

void Heartbeat::Peers::note_absence(double seconds) {
  if (seconds < std::max(options_.silence_s - 2 * options_.period_s, options_.silence_s / 2))
    return;
  log_debug("heartbeat: rank {}: this process did not run for {:.1f} s", rank_, seconds);
  absent_s_ = seconds;
  for (std::size_t i = 0; i < count_; ++i) peers_[i].last_before = peers_[i].pulse.last_ping();
  greeted_ = 0;
}

double Heartbeat::Peers::take_turn(double now) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (has_retired_) return kNone;
  is_busy_ |= greeted_ < count_;
  if (now >= next_tick_ && (is_busy_ || watch_news_.load(std::memory_order_seq_cst))) {
    next_tick_ = now + options_.period_s;
    watch_news_.store(false, std::memory_order_seq_cst);  // before the look at the watched peers
    is_busy_ = tick(now);
  }
  is_idle_.store(!is_busy_, std::memory_order_seq_cst);
  return is_busy_ || watch_news_.load(std::memory_order_seq_cst) ? next_tick_ : kNone;
}

// Returns whether there is more to do a period later.
bool Heartbeat::Peers::tick(double now) {
  bool is_busy = false;
  const std::size_t greet_from = greeted_;
  const std::size_t greet_until =
      std::min(count_, greet_from + static_cast<std::size_t>(std::max(options_.greetings, 1)));
  greeted_ = greet_until;  // before the looks, which may begin again
  for (std::size_t i = 0; i < count_; ++i) {
    Peer& peer = peers_[i];
    if (peer.is_dead || !peer.pulse.can_be_pinged()) continue;
    if (now < peer.watched_until.load(std::memory_order_relaxed)) {
      is_busy = true;
      look_at(i, now);
    } else {
      peer.last_pass = -1;
      peer.pulse.forget_silence();
      if (i >= greet_from && i < greet_until) ping(i, now);
    }
  }
  return is_busy || greeted_ < count_;
}

// Looks at a peer that is waited for.
void Heartbeat::Peers::look_at(std::size_t rank, double now) {
  Peer& peer = peers_[rank];
  if (peer.left_at >= 0) {
    const double last_watch = peer.watched_until.load(std::memory_order_relaxed) - options_.watch_s;
    // Only after a while: its last bytes may come just after its goodbye, and then no rank waits
    // for it any more.
    const bool is_waited_for = last_watch >= peer.left_at + options_.left_grace_s / 4;
    if (is_waited_for && now - peer.left_at >= options_.left_grace_s)
      bury(rank, "has left the communicator", End::kLeft);
    return;
  }
  // Little more than the time in which this thread ran: after a stop of this process the peers are
  // not to blame. On an oversubscribed machine this thread runs rarely, and must still come to an
  // end.
  if (peer.last_pass >= 0) peer.pulse.pass(std::min(now - peer.last_pass, options_.silence_s / 4));
  peer.last_pass = now;
  // The first ping that is not answered leaves up to a period after the peer's stop, and a tick may
  // come late.
  const bool is_silent = peer.pulse.silent_s() >= options_.silence_s - 2 * options_.period_s;
  if (is_silent && peer.pulse.has_answered()) {
    return bury(rank,
                fmt::format("has not answered for {:.1f} s: it is stopped, or cut off",
                            peer.pulse.silent_s()),
                End::kGuessed);
  }
  if (is_silent && !peer.is_mute) {
    peer.is_mute = true;
    log_debug(
        "heartbeat: {} has never answered: a firewall may drop UDP, so only a deadline will tell "
        "of its death",
        who(rank));
  }
  if (now - peer.last_ping >= 0.9 * options_.period_s) ping(rank, now);
}

void Heartbeat::Peers::ping(std::size_t rank, double now) {
  Peer& peer = peers_[rank];
  peer.last_ping = now;
  Beat beat;
  beat.token = token_;
  beat.from = static_cast<std::uint32_t>(rank_);
  beat.to = static_cast<std::uint32_t>(rank);
  beat.sequence = peer.pulse.ping(options_.silence_s);
  for (const std::size_t path : peer.pulse.ping_paths()) {
    beat.path = static_cast<std::uint8_t>(path);
    service_->sockets().send(peer.pulse.path(path), encode_beat(beat));
  }
}

void Heartbeat::Peers::bury(std::size_t rank, const std::string& how, End end) {
  Peer& peer = peers_[rank];
  if (peer.is_dead) return;
  bury_those_told_before(rank);
  service_->look_for_absence(
      monotonic_seconds());  // this process may have been stopped since the end was seen
  // Peers look for themselves. They know more about what happened while this process was stopped.
  const bool is_news = end == End::kSeen && !peer.last_before && obituaries_.empty();
  const std::string doubt = end == End::kSeen ? why_it_may_have_gone_on(peer) : "";
  if (!doubt.empty()) end = End::kGuessed;
  peer.may_have_gone_on = end == End::kGuessed;
  const std::string text = fmt::format("{} {}{}", who(rank), how, doubt);
  peer.is_dead = true;  // if memory is short before this, the next turn finds the death again
  peer.process_end.reset();
  log_debug("heartbeat: {}", text);
  // Sent before this process knows of it, and may end because of it: all peers then have this
  // message before they learn of that end.
  if (is_news) tell_all(BeatKind::kFirst, rank);
  {
    const std::lock_guard lock(mutex_);
    obituaries_.push_back({static_cast<int>(rank), Status(Code::kRemoteError, text, Scope::kPeer),
                           end != End::kGuessed});
    deaths_.fetch_add(1, std::memory_order_release);
    if (died_ != nullptr) died_->wake();  // last: the thread that it wakes sees the new number
  }
}

// The peer's end is seen. Before it, the peer may have given this rank up, because this process was
// stopped or its network cut.
std::string Heartbeat::Peers::why_it_may_have_gone_on(const Peer& peer) const {
  if (peer.last_before)
    return fmt::format(", or has gone on without rank {}, whose process did not run for {:.1f} s",
                       rank_, absent_s_);
  for (std::size_t i = 0; i < count_; ++i) {
    const PeerPulse& pulse = peers_[i].pulse;
    // The silence of a peer that never answered has no meaning.
    if (peers_[i].may_have_gone_on ||
        (pulse.has_answered() && pulse.silent_s() >= options_.silence_s / 2))
      return fmt::format(
          " (rank {} had not answered for long: those that ended may have gone on without rank {} "
          "before)",
          i, rank_);
  }
  return "";
}

// If this thread is late, several peers have ended since its last look, and the kernel does not
// give their order. It may not even show all of them yet: a process that ends closes its port
// first.
void Heartbeat::Peers::bury_those_told_before(std::size_t rank) {
  for (const std::size_t told : std::exchange(told_ended_, {})) {
    if (told == rank) return;
    if (has_peer(static_cast<int>(told)) && peers_[told].left_at < 0)
      bury(told, kHasEnded, End::kSeen);
  }
}

// Also a peer that was thought to have ended: it had closed its port, or its message is late.
void Heartbeat::Peers::bury_who_gave_up(std::size_t rank) {
  constexpr const char* kWhy =
      "was its process stopped (a signal, a debugger, a suspended machine), or its network cut?";
  bury(rank, fmt::format("has given rank {} up, which had not answered for long: {}", rank_, kWhy),
       End::kGuessed);
  peers_[rank].may_have_gone_on = true;
  const std::lock_guard lock(mutex_);
  for (Obituary& each : obituaries_)
    each.is_sure = each.is_sure && each.rank != static_cast<int>(rank);
}

}  // namespace sparcl::net
