#include "src/replication/peer_scores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "src/base/checksum.hpp"

namespace sparcl::replication {
namespace {

constexpr double kBurstSeconds = 0.25;  // of the rate; heuristic

double decayed(double value, double since, double now, double half_life) {
  return value * std::exp2(-std::max(now - since, 0.0) / half_life);
}

}  // namespace

double PeerScores::points_of(Offence offence) {
  switch (offence) {
    case Offence::kHandshake:
      return 1;
    case Offence::kFalseAck:
      return 2;
    case Offence::kMalformed:
    case Offence::kRole:
      return 3;
  }
  return 0;
}

std::string PeerScores::key_of(const std::optional<net::NetAddress>& address) {
  if (!address) return "?";
  net::NetAddress network = *address;
  network.port = 0;
  if (network.family == net::NetAddress::Family::kIpv6)
    std::fill(network.ip.begin() + 8, network.ip.end(), std::byte{0});
  return to_text(network);
}

std::string PeerScores::key_of(const std::optional<net::NetAddress>& address,
                               std::string_view name) {
  return fmt::format("{} {}", key_of(address), name);
}

std::uint64_t PeerScores::hash_of(std::string_view key) {
  return xxh3_64(std::as_bytes(std::span(key)));
}

double PeerScores::points_at(const Peer& peer, double now) {
  return decayed(peer.points, peer.at, now, kHalfLife);
}

const PeerScores::Peer* PeerScores::find(std::uint64_t key) const {
  const auto found = std::ranges::find(peers_, key, &Peer::key);
  return found != peers_.end() ? &*found : nullptr;
}

PeerScores::Peer& PeerScores::find_or_add(std::uint64_t key, double now) {
  if (const Peer* found = find(key); found != nullptr) return const_cast<Peer&>(*found);
  if (peers_.size() < kMaxPeers) return peers_.emplace_back(Peer{key, 0, now});
  const auto rank = [&](const Peer& each) { return std::pair(each.until, points_at(each, now)); };
  Peer& least = *std::ranges::min_element(peers_, {}, rank);
  return least = Peer{key, 0, now};
}

// After a back-off half of the points are left: the next one comes sooner, and is longer. Once the
// peer has behaved for some half-lives, its back-offs begin anew.
void PeerScores::note(std::string_view key, Offence offence, double now) {
  Peer& peer = find_or_add(hash_of(key), now);
  const double before = points_at(peer, now);
  if (before < 0.5 && now >= peer.until) peer.next_s = kFirstBackOff;
  peer.points = before + points_of(offence);
  peer.at = now;
  if (peer.points < kLimit) return;
  peer.points = kLimit / 2;
  peer.until = now + peer.next_s;
  peer.next_s = std::min(2 * peer.next_s, kLongestBackOff);
}

double PeerScores::backed_off_s(std::string_view key, double now) const {
  if (peers_.empty()) return 0;
  const Peer* peer = find(hash_of(key));
  return peer != nullptr ? std::max(peer->until - now, 0.0) : 0;
}

double CopyLimits::copies_at(const Address& address, double now) {
  return decayed(address.copies, address.at, now, kHalfLife);
}

const CopyLimits::Address* CopyLimits::find(std::string_view key) const {
  const auto found = std::ranges::find(addresses_, key, &Address::key);
  return found != addresses_.end() ? &*found : nullptr;
}

CopyLimits::Address* CopyLimits::find(std::string_view key) {
  return const_cast<Address*>(std::as_const(*this).find(key));
}

void CopyLimits::begin(std::string_view key, double now) {
  Address* address = find(key);
  if (address == nullptr && addresses_.size() < kMaxAddresses) address = &addresses_.emplace_back();
  if (address == nullptr) {
    address = &*std::ranges::min_element(addresses_, {},
                                         [&](const Address& each) { return copies_at(each, now); });
    address->key.clear();
  }
  if (address->key != key) *address = Address{std::string(key), 0, now, 0, now};
  address->copies = copies_at(*address, now) + 1;
  address->at = now;
}

bool CopyLimits::is_over(std::string_view key, std::size_t replicas, double now) const {
  const Address* address = find(key);
  return address != nullptr &&
         copies_at(*address, now) > kFreeCopies + kCopiesAReplica * static_cast<double>(replicas);
}

bool CopyLimits::may_send(std::string_view key, double now) {
  Address* address = find(key);
  if (address == nullptr) return true;
  const double more = std::max(now - address->filled_at, 0.0) * rate_;
  address->bytes_left = std::min(address->bytes_left + more, rate_ * kBurstSeconds);
  address->filled_at = now;
  return address->bytes_left > 0;
}

void CopyLimits::sent(std::string_view key, std::uint64_t bytes) {
  if (Address* address = find(key); address != nullptr)
    address->bytes_left -= static_cast<double>(bytes);
}

}  // namespace sparcl::replication
