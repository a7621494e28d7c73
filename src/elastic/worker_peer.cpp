#include "src/elastic/worker_peer.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/replication/peer_scores.hpp"

namespace sparcl::elastic {

using replication::MessageLink;
using replication::MessageType;

namespace {

constexpr std::size_t kMaxQueued = std::size_t{4} << 20;  // bytes of answers; heuristic

}  // namespace

Result<Buffer> Incoming::whole() const {
  SPARCL_ASSIGN_OR_RETURN(const model::Digest256 digest, model::root_of(leaves));
  if (digest != offered.digest) return corrupt("the bytes do not match their digest");
  if (pieces.size() == 1) return pieces.front();
  Buffer all = Buffer::allocate(have);
  std::byte* at = all.data();
  for (const Buffer& piece : pieces) {
    std::memcpy(at, piece.data(), piece.size());
    at += piece.size();
  }
  return all;
}

WorkerPeer::WorkerPeer(net::Socket socket, std::optional<net::NetAddress> from,
                       const replication::ServerSecurity& security, double now)
    : security_(security),
      link_(std::move(socket), security.tls),
      from_(from),
      born_(now),
      heard_(now),
      spoke_(now) {
  send_at_once(link_.socket());
}

std::string WorkerPeer::who() const {
  const std::string where = from_ ? to_text(*from_) : "unknown address";
  return name.empty() ? where : fmt::format("{} ({})", name, where);
}

std::string WorkerPeer::host() const { return replication::PeerScores::key_of(from_); }

// One that does not read is not read.
short WorkerPeer::events() const {
  const bool reads = link_.queued_bytes() <= kMaxQueued;
  return static_cast<short>(reads ? link_.events() : link_.events() & ~POLLIN);
}

// Once the handshake is over: the peer's role, and the proof of who this side is.
bool WorkerPeer::secure() {
  if (is_secured_ || security_.tls == nullptr) return true;
  if (!link_.stream().is_ready()) return false;
  is_secured_ = true;
  const int tag = link_.stream().peer_tag().value_or(0);
  const replication::PeerTag peer = security_.secrets != nullptr
                                        ? replication::PeerTag::of(tag)
                                        : replication::PeerTag{0, static_cast<trust::Role>(tag)};
  role_ = peer.role;
  if (security_.secrets == nullptr) return true;
  const Result<net::SecureSocket::Exporter> exporter = link_.stream().exporter();
  const auto proof = exporter.ok() ? security_.secrets->prove(peer, *exporter) : std::nullopt;
  if (!proof) {
    drop(Status(Code::kUnauthorized, "its secret is not accepted"));
    return false;
  }
  link_.queue(MessageType::kProof, *proof);
  return true;
}

std::optional<MessageType> WorkerPeer::receive(double now) {
  if (is_over() || link_.queued_bytes() > kMaxQueued) return {};  // it does not read
  const auto destination = [this](const replication::ChunkHead& chunk, std::size_t count) {
    const bool is_next = incoming && incoming->is_wanted &&
                         chunk.version == incoming->offered.round &&
                         chunk.first_byte == incoming->have &&
                         count == std::min<std::uint64_t>(replication::kMaxChunkBytes,
                                                          incoming->offered.bytes - incoming->have);
    return is_next ? incoming->pieces.emplace_back(Buffer::allocate(count)) : Buffer();
  };
  const std::uint64_t before = link_.heard_bytes();
  const MessageLink::Progress progress = link_.receive(destination);
  if (link_.heard_bytes() > before) note_heard(now);
  if (link_.is_open() && !secure()) return {};
  switch (progress) {
    case MessageLink::Progress::kMessage:
      return link_.type();
    case MessageLink::Progress::kMore:
      return {};
    default:
      drop(link_.why());
      return {};
  }
}

// On a slow link a chunk takes long. A peer that sends less than kMinMove in the time that it may
// be silent holds memory for nothing.
void WorkerPeer::note_heard(double now) {
  heard_ = now;
  if (!incoming || link_.heard_bytes() - incoming->moved_heard < kMinMove) return;
  incoming->moved_at = now;
  incoming->moved_heard = link_.heard_bytes();
}

void WorkerPeer::begin_incoming(double now) {
  incoming->is_wanted = true;
  incoming->wanted_at = incoming->moved_at = now;
  incoming->moved_heard = link_.heard_bytes();
}

Status WorkerPeer::take_chunk(double now) {
  if (!link_.chunk_has_destination()) {
    return corrupt(fmt::format("bytes {} to {} of a contribution are out of place",
                               chunk().first_byte, chunk().first_byte + chunk_bytes()));
  }
  SPARCL_ASSIGN_OR_RETURN(incoming->leaves.emplace_back(),
                          model::leaf_digest(incoming->pieces.back().bytes()));
  incoming->have += chunk_bytes();
  incoming->moved_at = now;
  return {};
}

void WorkerPeer::send_text(MessageType type, std::string_view text) {
  link_.queue(type, std::as_bytes(std::span(text)));
}

void WorkerPeer::refuse(const Status& why) {
  link_.queue(MessageType::kRefusal, replication::Refusal{why.code(), why.message()});
  (void)link_.flush();
  drop(why);
}

void WorkerPeer::leave() {
  link_.queue(MessageType::kBye, replication::Bye{});
  (void)link_.flush();
  link_.close();
}

void WorkerPeer::drop(Status why) {
  why_ = std::move(why);
  link_.close_and_forget();
}

void WorkerPeer::tick(std::uint64_t round, double now) {
  if (is_over()) return;
  const double period = replication::alive_period_s(1e9, silence_ms);
  if (is_enrolled() && now - spoke_ > period)
    link_.queue(MessageType::kAlive, replication::Alive{round});
  if (link_.queued_bytes() > 0) spoke_ = now;
  if (!link_.flush()) drop(link_.why());
}

}  // namespace sparcl::elastic
