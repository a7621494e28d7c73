#include "src/net/heartbeat/heartbeat_peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "src/net/network_interfaces.hpp"
#include "src/trust/keyed_hash.hpp"
#include "src/trust/sha256.hpp"

namespace sparcl::net {

Status Heartbeat::Peers::make_card() {
  HeartbeatCard card;
  card.process = service_->own();
  SPARCL_RETURN_IF_ERROR(trust::fill_random(card.random));
  card.port_v4 = service_->sockets().port(NetAddress::Family::kIpv4);
  card.port_v6 = service_->sockets().port(NetAddress::Family::kIpv6);
  SPARCL_ASSIGN_OR_RETURN(std::vector<NetAddress> addresses, own_addresses());
  card.addresses = std::move(addresses);
  card_ = encode_card(card);
  return {};
}

Status Heartbeat::Peers::start(int rank, std::span<const std::vector<std::byte>> cards) {
  rank_ = rank;
  trust::Sha256 all;
  for (const std::vector<std::byte>& card : cards) all.update(card);
  SPARCL_ASSIGN_OR_RETURN(const trust::Sha256::Digest digest, all.finish());
  token_ = load_le<std::uint64_t>(std::as_bytes(std::span(digest)).data());
  peers_ = std::make_unique<Peer[]>(cards.size());
  count_ = cards.size();
  for (std::size_t i = 0; i < count_; ++i) {
    if (has_peer(static_cast<int>(i))) introduce(i, cards[i]);
  }
  const std::unique_lock held = service_->lock();
  watch_ends();
  service_->add(*this);
  return {};
}

// Paths: loopback first if the peer is on this machine, then the addresses of the card.
void Heartbeat::Peers::introduce(std::size_t rank, std::span<const std::byte> bytes) {
  Peer& peer = peers_[rank];
  const std::optional<HeartbeatCard> card = decode_card(bytes);
  if (!card) {
    log_debug("heartbeat: rank {} has none: only a deadline will tell of its death", rank);
    return;
  }
  peer.process = card->process;
  std::vector<NetAddress> paths;
  if (shares_loopback(service_->own(), card->process) && card->port_v4 != 0)
    paths.push_back(loopback_address(card->port_v4));
  for (const NetAddress& address : card->addresses) {
    if (paths.size() < kMaxPaths && service_->sockets().port(address.family) != 0)
      paths.push_back(address);
  }
  std::uint64_t first = 0;
  if (!trust::fill_random(std::as_writable_bytes(std::span(&first, 1))).ok()) first = 0;
  peer.pulse = PeerPulse(std::move(paths), first);
}

// Looks at all before the first death is handled: that death is sent to all known peers.
void Heartbeat::Peers::watch_ends() {
  if (!options_.use_processes) return;
  for (std::size_t i = 0; i < count_; ++i) {
    if (peers_[i].process.pid != 0) peers_[i].process_end = service_->watch_end(peers_[i].process);
  }
  for (std::size_t i = 0; i < count_; ++i) {
    if (peers_[i].process_end != nullptr && peers_[i].process_end->has_ended)
      bury(i, kHasEnded, End::kSeen);
  }
}

bool Heartbeat::Peers::stop(HeartbeatService::End end) {
  if (!service_->is_own_process()) return false;
  const std::unique_lock held = service_->lock();
  service_->remove(*this, end);
  return true;
}

void Heartbeat::Peers::leave() {
  if (stop(HeartbeatService::End::kLeft)) say_goodbye();
}

void Heartbeat::Peers::watch(int peer) {
  if (!has_peer(peer)) return;
  std::atomic<double>& watched_until = peers_[static_cast<std::size_t>(peer)].watched_until;
  const double now = monotonic_seconds();
  const double refresh_s = std::min(options_.watch_s, options_.left_grace_s / 2) / 2;
  if (watched_until.load(std::memory_order_relaxed) > now + options_.watch_s - refresh_s) return;
  watched_until.store(now + options_.watch_s, std::memory_order_relaxed);
  // Sequentially consistent with is_idle_: either the thread sees this in its turn, or this call
  // sees that the thread sleeps.
  watch_news_.store(true, std::memory_order_seq_cst);
  if (is_idle_.load(std::memory_order_seq_cst)) service_->wake();
}

void Heartbeat::Peers::give_up(int peer) {
  if (has_peer(peer))
    peers_[static_cast<std::size_t>(peer)].is_given_up.store(true, std::memory_order_release);
}

void Heartbeat::Peers::go_on_without(int peer) {
  if (!has_peer(peer) || !service_->is_own_process()) return;
  give_up(peer);
  const std::unique_lock held = service_->lock();
  if (!std::exchange(peers_[static_cast<std::size_t>(peer)].is_left_out, true))
    tell_left_out(static_cast<std::size_t>(peer));
}

// The goodbyes are sent before this returns, because the process may end at once.
void Heartbeat::Peers::retire() {
  if (!service_->is_own_process()) return;
  const std::unique_lock held = service_->lock();
  if (!std::exchange(has_retired_, true)) say_goodbye();
}

std::optional<Status> Heartbeat::Peers::dead(int peer) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(obituaries_.begin(), obituaries_.end(),
                                  [&](const Obituary& each) { return each.rank == peer; });
  if (found == obituaries_.end()) return std::nullopt;
  return found->status;
}

std::vector<Heartbeat::Obituary> Heartbeat::Peers::obituaries() const {
  const std::lock_guard lock(mutex_);
  return obituaries_;
}

void Heartbeat::Peers::set_event(const WakeEvent* event) {
  const std::lock_guard lock(mutex_);
  died_ = event;
}

bool Heartbeat::Peers::has_answered(int peer) const {
  return has_peer(peer) &&
         peers_[static_cast<std::size_t>(peer)].has_answered.load(std::memory_order_acquire);
}

std::string Heartbeat::Peers::describe(int peer) const {
  if (!has_peer(peer) || peers_[static_cast<std::size_t>(peer)].process.pid == 0) return {};
  const ProcessIdentity& process = peers_[static_cast<std::size_t>(peer)].process;
  return fmt::format("host {}, pid {}", process.host, process.pid);
}

std::string Heartbeat::Peers::who(std::size_t rank) const {
  const std::string where = describe(static_cast<int>(rank));
  return where.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} ({})", rank, where);
}

bool Heartbeat::Peers::has_given_nobody_up() const {
  return std::none_of(peers_.get(), peers_.get() + count_, [](const Peer& peer) {
    return peer.is_dead || peer.is_left_out || peer.is_given_up.load(std::memory_order_acquire);
  });
}

// An excluded rank is told again that it is excluded: a goodbye would say that no rank continues.
void Heartbeat::Peers::say_goodbye() const {
  tell_all(BeatKind::kBye, 0);
  for (std::size_t i = 0; i < count_; ++i) {
    if (peers_[i].is_left_out) tell_left_out(i);
  }
}

// Sent to all addresses, because the one that answered before may be cut. A rank that has ended is
// not told.
void Heartbeat::Peers::tell_left_out(std::size_t rank) const {
  const Peer& peer = peers_[rank];
  if (peer.left_at >= 0 || (peer.is_dead && !peer.may_have_gone_on)) return;
  Beat beat;
  beat.kind = BeatKind::kGoesOn;
  beat.token = token_;
  beat.from = static_cast<std::uint32_t>(rank_);
  beat.to = static_cast<std::uint32_t>(rank);
  for (std::size_t path = 0; path < peer.pulse.path_count(); ++path)
    service_->sockets().send(peer.pulse.path(path), encode_beat(beat));
}

void Heartbeat::Peers::tell_all(BeatKind kind, std::uint64_t sequence) const {
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
    service_->sockets().send(peer.pulse.path(peer.pulse.best_path()), encode_beat(beat));
  }
}

}  // namespace sparcl::net
