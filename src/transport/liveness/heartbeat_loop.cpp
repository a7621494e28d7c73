#include "src/transport/liveness/heartbeat_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "src/base/keyed_hash.hpp"
#include "src/base/log.hpp"
#include "src/base/sha256.hpp"
#include "src/transport/network_interfaces.hpp"

namespace sparcl {
namespace {

constexpr const char* kHasEnded = "was killed or ended";
constexpr int kDatagramsAtOnce = 4096;       // then the clock has its turn, whoever floods us
constexpr std::size_t kMostProcesses = 512;  // watched through the kernel: a descriptor each

}  // namespace

Status Heartbeat::Loop::make_card() {
  HeartbeatCard card;
  card.process = own_ = own_identity();
  SPARCL_RETURN_IF_ERROR(fill_random(card.random));
  card.port_v4 = sockets_.port(NetAddress::Family::kIpv4);
  card.port_v6 = sockets_.port(NetAddress::Family::kIpv6);
  Result<std::vector<NetAddress>> addresses = own_addresses();
  if (!addresses.ok()) return addresses.status();
  card.addresses = std::move(*addresses);
  card_ = encode_card(card);
  return {};
}

Status Heartbeat::Loop::start(int rank, std::span<const std::vector<std::byte>> cards) {
  rank_ = rank;
  count_ = cards.size();
  awake_ = monotonic_seconds();
  peers_ = std::make_unique<Peer[]>(count_);
  Sha256 all;
  for (const std::vector<std::byte>& card : cards) all.update(card);
  const Result<Sha256::Digest> digest = all.finish();
  if (!digest.ok()) return digest.status();
  token_ = load_le<std::uint64_t>(std::as_bytes(std::span(*digest)).data());
  for (std::size_t i = 0; i < count_; ++i) {
    if (i != static_cast<std::size_t>(rank)) introduce(i, cards[i]);
  }
  std::size_t watched = 0;
  for (std::size_t i = 0; i < count_ && watched < kMostProcesses; ++i) {  // the first death is told to all that are known
    if (i == static_cast<std::size_t>(rank)) continue;
    watch_end(i);
    watched += peers_[i].process_end.is_open() ? 1 : 0;
  }
  return thread_.start("heartbeats", [this](const ServiceThread::Stop& stop) { run(stop); });
}

// Paths: loopback first where we share it, then what the card says.
void Heartbeat::Loop::introduce(std::size_t rank, std::span<const std::byte> bytes) {
  Peer& peer = peers_[rank];
  const std::optional<HeartbeatCard> card = decode_card(bytes);
  if (!card) {
    log_debug("heartbeat: rank {} has none: only a deadline will tell of its death", rank);
    return;
  }
  peer.process = card->process;
  std::vector<NetAddress> paths;
  if (shares_loopback(own_, card->process) && card->port_v4 != 0) paths.push_back(loopback_address(card->port_v4));
  for (const NetAddress& address : card->addresses) {
    if (paths.size() < kMaxPaths && sockets_.port(address.family) != 0) paths.push_back(address);
  }
  std::uint64_t first = 0;
  if (!fill_random(std::as_writable_bytes(std::span(&first, 1))).ok()) first = 0;
  peer.pulse = PeerPulse(std::move(paths), first);
}

void Heartbeat::Loop::watch_end(std::size_t rank) {
  Peer& peer = peers_[rank];
  if (!options_.use_processes || peer.process.pid == 0) return;
  if (watch_process(own_, peer.process, peer.process_end) == ProcessWatch::kGone) bury(rank, kHasEnded, End::kSeen);
}

void Heartbeat::Loop::watch(int peer) {
  if (!has_peer(peer)) return;
  std::atomic<double>& watched_until = peers_[static_cast<std::size_t>(peer)].watched_until;
  const double now = monotonic_seconds();
  const double refresh_s = std::min(options_.watch_s, options_.left_grace_s / 2) / 2;
  if (watched_until.load(std::memory_order_relaxed) > now + options_.watch_s - refresh_s) return;
  watched_until.store(now + options_.watch_s, std::memory_order_relaxed);
  // In one order with asleep_: either the thread sees this before it sleeps, or we see that it sleeps.
  watch_news_.store(true, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst)) wake_.wake();
}

void Heartbeat::Loop::give_up(int peer) {
  if (has_peer(peer)) peers_[static_cast<std::size_t>(peer)].is_given_up.store(true, std::memory_order_release);
}

void Heartbeat::Loop::go_on_without(int peer) {
  if (!has_peer(peer)) return;
  give_up(peer);
  peers_[static_cast<std::size_t>(peer)].is_left_out.store(true, std::memory_order_release);
  wishes_.store(true, std::memory_order_seq_cst);
  wake_.wake();
}

// The goodbyes are out before this returns: the process may end at once.
void Heartbeat::Loop::retire() {
  constexpr double kSeconds = 1;  // the thread needs a core for microseconds
  retires_.store(true, std::memory_order_seq_cst);
  wishes_.store(true, std::memory_order_seq_cst);
  wake_.wake();
  const double until = monotonic_seconds() + kSeconds;
  while (!has_retired_.load(std::memory_order_acquire) && monotonic_seconds() < until)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

std::optional<Status> Heartbeat::Loop::dead(int peer) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(obituaries_.begin(), obituaries_.end(), [&](const Obituary& each) { return each.rank == peer; });
  if (found == obituaries_.end()) return std::nullopt;
  return found->status;
}

std::vector<Heartbeat::Obituary> Heartbeat::Loop::obituaries() const {
  const std::lock_guard lock(mutex_);
  return obituaries_;
}

bool Heartbeat::Loop::has_answered(int peer) const {
  return has_peer(peer) && peers_[static_cast<std::size_t>(peer)].has_answered.load(std::memory_order_acquire);
}

std::string Heartbeat::Loop::describe(int peer) const {
  if (!has_peer(peer) || peers_[static_cast<std::size_t>(peer)].process.pid == 0) return {};
  const ProcessIdentity& process = peers_[static_cast<std::size_t>(peer)].process;
  return fmt::format("host {}, pid {}", process.host, process.pid);
}

std::string Heartbeat::Loop::who(std::size_t rank) const {
  const std::string where = describe(static_cast<int>(rank));
  return where.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} ({})", rank, where);
}

void Heartbeat::Loop::bury(std::size_t rank, const std::string& how, End end) {
  Peer& peer = peers_[rank];
  if (peer.is_dead) return;
  bury_those_told_before(rank);
  peer.is_dead = true;
  peer.process_end.close();
  look_for_absence(monotonic_seconds());  // it may have been stopped since the end was seen
  // Others look for themselves; but of what came while this process was stopped they know more.
  const bool is_news = end == End::kSeen && !peer.last_before && obituaries_.empty();
  const std::string doubt = end == End::kSeen ? why_it_may_have_gone_on(peer) : "";
  if (!doubt.empty()) end = End::kGuessed;
  peer.may_have_gone_on = end == End::kGuessed;
  const std::string text = fmt::format("{} {}{}", who(rank), how, doubt);
  log_debug("heartbeat: {}", text);
  // Before anyone here knows of it, and may end because of it: then all have this word when they learn of that end.
  if (is_news) tell_all(BeatKind::kFirst, rank);
  {
    const std::lock_guard lock(mutex_);
    obituaries_.push_back({static_cast<int>(rank), Status(Code::kRemoteError, text, Scope::kPeer), end != End::kGuessed});
  }
  died_.wake();  // first: whoever sees the new number and clears the event clears this, too
  deaths_.fetch_add(1, std::memory_order_release);
}

// Its end is seen; but before that it may have given this rank up, as this process was stopped, or its network cut.
std::string Heartbeat::Loop::why_it_may_have_gone_on(const Peer& peer) const {
  if (peer.last_before)
    return fmt::format(", or has gone on without rank {}, whose process did not run for {:.1f} s", rank_, absent_s_);
  for (std::size_t i = 0; i < count_; ++i) {
    const PeerPulse& pulse = peers_[i].pulse;
    // Who never answered is as silent as ever.
    if (peers_[i].may_have_gone_on || (pulse.has_answered() && pulse.silent_s() >= options_.silence_s / 2))
      return fmt::format(" (rank {} had not answered for long: those that ended may have gone on without rank {} before)", i,
                         rank_);
  }
  return "";
}

// Where this thread comes late, several have ended since its last look, and the kernel does not say in which order. It may not even
// show all of them yet: a process that ends closes its port first.
void Heartbeat::Loop::bury_those_told_before(std::size_t rank) {
  for (const std::size_t told : std::exchange(told_ended_, {})) {
    if (told == rank) return;
    if (has_peer(static_cast<int>(told)) && peers_[told].left_at < 0) bury(told, kHasEnded, End::kSeen);
  }
}

// Also one that was thought to have ended: it had closed its port, or its word comes late.
void Heartbeat::Loop::bury_who_gave_up(std::size_t rank) {
  constexpr const char* kWhy = "was its process stopped (a signal, a debugger, a suspended machine), or its network cut?";
  bury(rank, fmt::format("has given rank {} up, which had not answered for long: {}", rank_, kWhy), End::kGuessed);
  peers_[rank].may_have_gone_on = true;
  const std::lock_guard lock(mutex_);
  for (Obituary& each : obituaries_) each.is_sure = each.is_sure && each.rank != static_cast<int>(rank);
}

// What other threads want of this one.
void Heartbeat::Loop::take_wishes() {
  if (!wishes_.exchange(false, std::memory_order_seq_cst)) return;
  for (std::size_t i = 0; i < count_; ++i) {
    Peer& peer = peers_[i];
    if (peer.is_left_out.load(std::memory_order_acquire) && !std::exchange(peer.is_told, true)) tell_left_out(i);
  }
  if (!retires_.load(std::memory_order_seq_cst) || has_retired_.load(std::memory_order_relaxed)) return;
  say_goodbye();
  has_retired_.store(true, std::memory_order_release);
}

void Heartbeat::Loop::run(const ServiceThread::Stop& stop) {
  double next_tick = 0;
  bool is_busy = true;  // somebody is watched, or to be greeted
  while (!stop.is_asked()) {
    asleep_.store(!is_busy, std::memory_order_seq_cst);
    const bool news = watch_news_.load(std::memory_order_seq_cst);
    // Whoever sleeps for long would not see that its process was stopped.
    const std::vector<std::size_t> ended = sleep(stop, is_busy || news ? next_tick : monotonic_seconds() + options_.silence_s / 4);
    asleep_.store(false, std::memory_order_seq_cst);
    wake_.drain();

    const double now = monotonic_seconds();
    look_for_absence(now);
    take_wishes();
    receive_all(now);
    take_refusals(now);
    for (const std::size_t rank : ended) take_end(rank);
    if (has_retired_.load(std::memory_order_relaxed)) {
      watch_news_.store(is_busy = false, std::memory_order_seq_cst);
      continue;
    }
    is_busy |= greeted_ < count_;
    if (now < next_tick || !(is_busy || watch_news_.load(std::memory_order_seq_cst))) continue;
    next_tick = now + options_.period_s;
    watch_news_.store(false, std::memory_order_seq_cst);  // before the look at who is watched
    is_busy = tick(now);
  }
}

// Whether this process did not run for so long that the others may have given it up. Each of them is asked: who answers has not.
void Heartbeat::Loop::look_for_absence(double now) {
  const double seconds = now - std::exchange(awake_, now);
  if (seconds < std::max(options_.silence_s - 2 * options_.period_s, options_.silence_s / 2)) return;
  log_debug("heartbeat: this process did not run for {:.1f} s", seconds);
  absent_s_ = seconds;
  for (std::size_t i = 0; i < count_; ++i) peers_[i].last_before = peers_[i].pulse.last_ping();
  greeted_ = 0;
}

// Returns the peers of this machine whose processes have ended.
std::vector<std::size_t> Heartbeat::Loop::sleep(const ServiceThread::Stop& stop, double until) {
  const std::array<int, 2> sockets = sockets_.descriptors();
  std::vector<pollfd> entries{{stop.fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}, {sockets[0], POLLIN, 0}, {sockets[1], POLLIN, 0}};
  const std::size_t first = entries.size();
  std::vector<std::size_t> ranks;
  for (std::size_t i = 0; i < count_; ++i) {
    if (!peers_[i].process_end.is_open()) continue;
    entries.push_back({peers_[i].process_end.fd(), POLLIN, 0});
    ranks.push_back(i);
  }
  poll_until(entries, until);
  std::vector<std::size_t> ended;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (entries[first + i].revents != 0) ended.push_back(ranks[i]);
  }
  return ended;
}

void Heartbeat::Loop::receive_all(double now) {
  std::array<std::byte, kBeatBytes> space;
  for (int i = 0; i < kDatagramsAtOnce; ++i) {
    const std::optional<DatagramSockets::Datagram> datagram = sockets_.receive(space);
    if (!datagram) return;
    if (!datagram->whole) continue;
    const std::optional<Beat> beat = decode_beat(datagram->bytes);
    if (beat && beat->token == token_ && beat->to == static_cast<std::uint32_t>(rank_) && beat->from < count_ &&
        beat->from != beat->to) {
      take(*beat, datagram->from, now);
    }
  }
}

void Heartbeat::Loop::answer(const Beat& beat, BeatKind kind, const NetAddress& to) const {
  Beat reply = beat;
  reply.kind = kind;
  std::swap(reply.from, reply.to);
  sockets_.send(to, encode_beat(reply));
}

void Heartbeat::Loop::take(const Beat& beat, const NetAddress& from, double now) {
  Peer& peer = peers_[beat.from];
  switch (beat.kind) {
    case BeatKind::kPing:
      if (peer.is_dead || peer.is_given_up.load(std::memory_order_acquire)) return answer(beat, BeatKind::kOut, from);
      return answer(beat, has_retired_.load(std::memory_order_relaxed) ? BeatKind::kBye : BeatKind::kPong, from);
    case BeatKind::kPong:
      if (!peer.pulse.pong(beat.sequence, beat.path)) return;
      if (peer.last_before && beat.sequence - *peer.last_before - 1 < peer.pulse.last_ping() - *peer.last_before)
        peer.last_before.reset();
      if (peer.has_answered.load(std::memory_order_relaxed)) return;
      peer.has_answered.store(true, std::memory_order_release);
      log_debug("heartbeat: {} answers at {}", who(beat.from), to_text(from));
      return;
    case BeatKind::kBye:
      if (peer.left_at < 0) peer.left_at = now;
      return;
    case BeatKind::kFirst:
      if (beat.sequence < count_ && told_ended_.size() < count_) told_ended_.push_back(beat.sequence);
      return;
    case BeatKind::kOut:
      if (peer.pulse.expects(beat.sequence)) bury_who_gave_up(beat.from);
      return;
    case BeatKind::kGoesOn:
      return bury_who_gave_up(beat.from);
  }
}

void Heartbeat::Loop::take_refusals(double now) {
  while (const std::optional<NetAddress> by = sockets_.next_refusal()) {
    for (std::size_t i = 0; i < count_; ++i) {
      Peer& peer = peers_[i];
      if (peer.is_dead || peer.left_at >= 0 || !peer.pulse.is_path(*by)) continue;
      switch (peer.pulse.refuse(*by)) {
        case PeerPulse::Refusal::kMeansNothing:
          break;
        case PeerPulse::Refusal::kAskAgain:
          ping(i, now);
          break;
        case PeerPulse::Refusal::kHasEnded:
          bury(i, "was killed or ended: its port is closed", End::kSeen);
          break;
      }
    }
  }
}

// After the datagrams: one who said goodbye before its end was not killed.
void Heartbeat::Loop::take_end(std::size_t rank) {
  peers_[rank].process_end.close();
  if (peers_[rank].left_at < 0) bury(rank, kHasEnded, End::kSeen);
}

void Heartbeat::Loop::ping(std::size_t rank, double now) {
  Peer& peer = peers_[rank];
  peer.last_ping = now;
  Beat beat;
  beat.token = token_;
  beat.from = static_cast<std::uint32_t>(rank_);
  beat.to = static_cast<std::uint32_t>(rank);
  beat.sequence = peer.pulse.ping(options_.silence_s);
  for (const std::size_t path : peer.pulse.ping_paths()) {
    beat.path = static_cast<std::uint8_t>(path);
    sockets_.send(peer.pulse.path(path), encode_beat(beat));
  }
}

// Whether there is more to do a period later.
bool Heartbeat::Loop::tick(double now) {
  bool is_busy = false;
  const std::size_t greet_from = greeted_;
  const std::size_t greet_until = std::min(count_, greet_from + static_cast<std::size_t>(std::max(options_.greetings, 1)));
  greeted_ = greet_until;  // before the looks, which may begin anew
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

// At a peer that is waited for.
void Heartbeat::Loop::look_at(std::size_t rank, double now) {
  Peer& peer = peers_[rank];
  if (peer.left_at >= 0) {
    const double last_watch = peer.watched_until.load(std::memory_order_relaxed) - options_.watch_s;
    // For some time: its last bytes may have come just after its goodbye, and nobody needs it any more.
    const bool is_waited_for = last_watch >= peer.left_at + options_.left_grace_s / 4;
    if (is_waited_for && now - peer.left_at >= options_.left_grace_s) bury(rank, "has left the communicator", End::kLeft);
    return;
  }
  // Little more than the time in which this thread ran: after a stop of this process the peers are not to blame. On a machine with
  // far more work than cores it runs only now and then, and must come to an end all the same.
  if (peer.last_pass >= 0) peer.pulse.pass(std::min(now - peer.last_pass, options_.silence_s / 4));
  peer.last_pass = now;
  // The first ping that is not answered leaves up to a period after the peer's stop, and a tick may come late.
  const bool is_silent = peer.pulse.silent_s() >= options_.silence_s - 2 * options_.period_s;
  if (is_silent && peer.pulse.has_answered()) {
    return bury(rank, fmt::format("has not answered for {:.1f} s: it is stopped, or cut off", peer.pulse.silent_s()),
                End::kGuessed);
  }
  if (is_silent && !peer.is_mute) {
    peer.is_mute = true;
    log_debug("heartbeat: {} has never answered: a firewall may drop UDP, so only a deadline will tell of its death", who(rank));
  }
  if (now - peer.last_ping >= 0.9 * options_.period_s) ping(rank, now);
}

// Who is left out hears that again: a goodbye would say that nobody goes on here.
void Heartbeat::Loop::say_goodbye() const {
  tell_all(BeatKind::kBye, 0);
  for (std::size_t i = 0; i < count_; ++i) {
    if (peers_[i].is_left_out.load(std::memory_order_acquire)) tell_left_out(i);
  }
}

// By all its addresses: it may be the one that answered before which is cut. Who has ended needs no word.
void Heartbeat::Loop::tell_left_out(std::size_t rank) const {
  const Peer& peer = peers_[rank];
  if (peer.left_at >= 0 || (peer.is_dead && !peer.may_have_gone_on)) return;
  Beat beat;
  beat.kind = BeatKind::kGoesOn;
  beat.token = token_;
  beat.from = static_cast<std::uint32_t>(rank_);
  beat.to = static_cast<std::uint32_t>(rank);
  for (std::size_t path = 0; path < peer.pulse.path_count(); ++path) sockets_.send(peer.pulse.path(path), encode_beat(beat));
}

void Heartbeat::Loop::tell_all(BeatKind kind, std::uint64_t sequence) const {
  Beat beat;
  beat.kind = kind;
  beat.token = token_;
  beat.from = static_cast<std::uint32_t>(rank_);
  beat.sequence = sequence;
  for (std::size_t i = 0; i < count_; ++i) {
    const Peer& peer = peers_[i];
    if (peer.is_dead || peer.left_at >= 0 || !peer.pulse.can_be_pinged()) continue;
    if (kind == BeatKind::kBye && peer.is_given_up.load(std::memory_order_acquire)) continue;
    beat.to = static_cast<std::uint32_t>(i);
    sockets_.send(peer.pulse.path(peer.pulse.best_path()), encode_beat(beat));
  }
}

}  // namespace sparcl
