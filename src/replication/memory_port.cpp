#include "src/replication/memory_port.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/keyed_hash.hpp"
#include "src/base/log.hpp"
#include "src/transport/nearby_socket.hpp"

namespace sparcl::replication {
namespace {

constexpr int kBacklog = 32;
constexpr std::size_t kMostStrangers = 16;
constexpr double kStrangerSeconds = 1;   // to say a token
constexpr std::size_t kKeptPieces = 16;  // heuristic: 64 MiB
constexpr double kKeptSeconds = 0.5;     // after the last replica fetched one

}  // namespace

void MemoryPort::open() {
  MemoryToken token;
  Status status = fill_random(token);
  if (status.ok()) {
    name_ = fmt::format("sparcl-{:016x}{:016x}", load_le<std::uint64_t>(token.data()), load_le<std::uint64_t>(token.data() + 8));
    Result<Socket> listener = listen_nearby(name_, kBacklog);
    status = listener.status();
    if (listener.ok()) listener_ = std::move(*listener);
  }
  if (!status.ok()) log_debug("replication: no memory is shared: {}", status.message());
}

MemoryInvitation MemoryPort::invite(std::uint64_t session) {
  MemoryInvitation invitation;
  if (!is_open() || !fill_random(invitation.token).ok()) return {};
  invitation.name = name_;
  guests_.push_back({invitation.token, session});
  return invitation;
}

void MemoryPort::forget(std::uint64_t session) {
  std::erase_if(guests_, [&](const Guest& each) { return each.session == session; });
}

void MemoryPort::add_entries(std::vector<pollfd>& entries) const {
  if (!is_open()) return;
  entries.push_back({strangers_.size() < kMostStrangers ? listener_.fd() : -1, POLLIN, 0});
  for (const Stranger& each : strangers_) entries.push_back({each.socket.fd(), POLLIN, 0});
}

void MemoryPort::step(double now, const Joined& joined) {
  while (is_open() && strangers_.size() < kMostStrangers) {
    std::optional<Socket> socket = accept_nearby(listener_);
    if (!socket) break;
    strangers_.push_back({std::move(*socket), now});
  }
  std::vector<Stranger> stay;
  for (Stranger& each : strangers_) {
    if (listen_to(each, now, joined)) stay.push_back(std::move(each));
  }
  strangers_ = std::move(stay);
  std::erase_if(pieces_, [&](const Piece& each) { return now - each.used_at > kKeptSeconds; });
}

bool MemoryPort::listen_to(Stranger& stranger, double now, const Joined& joined) {
  MemoryToken token;
  const NearbyMessage said = receive_nearby(stranger.socket, token);
  if (said.moved.kind == Moved::Kind::kWouldBlock) return now - stranger.since <= kStrangerSeconds;
  if (said.moved.kind == Moved::Kind::kClosed) return false;
  const auto guest =
      std::find_if(guests_.begin(), guests_.end(), [&](const Guest& each) { return equal_in_constant_time(each.token, token); });
  if (guest == guests_.end()) return false;
  const std::uint64_t session = guest->session;
  guests_.erase(guest);
  joined(session, std::move(stranger.socket));
  return false;
}

Result<const SealedMemory*> MemoryPort::piece(const UpdateRef& update, std::uint64_t first_byte, std::size_t count, double now) {
  const auto found = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& each) {
    return each.update == update && each.first_byte == first_byte && each.memory.size() == count;
  });
  if (found != pieces_.end()) {
    found->used_at = now;
    return &found->memory;
  }
  Result<SealedMemory> made = SealedMemory::copy_of(update->bytes.slice(first_byte, count).bytes());
  if (!made.ok()) return made.status();
  if (pieces_.size() >= kKeptPieces) pieces_.pop_front();
  pieces_.push_back({update, first_byte, std::move(*made), now});
  return &pieces_.back().memory;
}

}  // namespace sparcl::replication
