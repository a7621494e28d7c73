#include "src/net/bootstrap/root_server.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "src/base/log.hpp"

namespace sparcl::net {
namespace {

using Phase = RootPeer::Phase;

constexpr double kFarSeconds = 3600;

RecordLine::Payload failure_payload(const Status& failure) {
  Result<RecordLine::Payload> payload =
      RecordLine::make_payload(RecordKind::kFailure, encode_failure(failure));
  return payload.ok()
             ? *payload
             : RecordLine::Payload{
                   RecordKind::kFailure, std::make_shared<const std::vector<std::byte>>(), {}};
}

}  // namespace

RootServer::RootServer(const Secret& secret, std::vector<Socket> listeners,
                       const RootOptions& options)
    : secret_(secret), listeners_(std::move(listeners)), options_(options) {}

void RootServer::run(const ServiceThread::Stop& stop) {
  bool is_over = false;
  while (!is_over && !stop.is_asked()) is_over = !turn(stop);
  if (!is_over)
    fail(Status(Code::kRemoteError, "the process that made the unique id is ending"),
         monotonic_seconds());
  listeners_
      .clear();  // new connections are refused; else the kernel would accept them without a reader
  peers_.clear();
}

bool RootServer::turn(const ServiceThread::Stop& stop) {
  const double begin = monotonic_seconds();
  const bool accepting = begin >= accept_time();
  std::vector<pollfd> entries{{stop.fd(), POLLIN, 0}};
  for (const Socket& listener : listeners_)
    entries.push_back({accepting ? listener.fd() : -1, POLLIN, 0});
  const std::size_t first_peer = entries.size();
  for (const auto& peer : peers_) entries.push_back({peer->socket().fd(), peer->events(), 0});
  poll_until(entries, next_deadline(begin));

  const double now = monotonic_seconds();
  const std::size_t known = peers_.size();  // the peers of this turn's entries; accept_all appends
  for (std::size_t i = 0; i < known; ++i) {
    if (entries[first_peer + i].revents != 0) step(*peers_[i], now);
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    if (entries[1 + i].revents != 0) accept_all(listeners_[i], now);
  }
  look_at_clocks(now);
  std::erase_if(peers_, [](const auto& peer) { return peer->phase() == Phase::kGone; });
  const bool told = std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) {
    return peer->phase() == Phase::kUnauthenticated;
  });
  if (decided_ && told) over_.store(true, std::memory_order_release);
  return !(decided_ && told && now >= linger_until_);
}

double RootServer::next_deadline(double now) const {
  double next = now + kFarSeconds;
  if (const double from = accept_time(); now < from) next = std::min(next, from);
  if (decided_ && linger_until_ > now) next = std::min(next, linger_until_);
  for (const auto& peer : peers_) {
    next = std::min(next, peer->deadline());
    if (peer->phase() == Phase::kJoined) next = std::min(next, next_note_);
  }
  return next;
}

void RootServer::accept_all(const Socket& listener, double now) {
  while (make_room(now)) {
    Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.is_open()) {
      peers_.push_back(
          std::make_unique<RootPeer>(std::move(socket), secret_, now, options_.handshake_s));
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) return;
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM)
      return out_of_descriptors(error, now);
    // Any other error is of one connection: it was reset before it was accepted, or its network
    // failed.
  }
}

// The oldest unauthenticated connection, if their number is at its limit. They are in the order of
// their arrival.
RootPeer* RootServer::oldest_of_too_many() const {
  const auto is_unauthenticated = [](const auto& peer) {
    return peer->phase() == Phase::kUnauthenticated;
  };
  const auto unauthenticated =
      static_cast<std::size_t>(std::count_if(peers_.begin(), peers_.end(), is_unauthenticated));
  return unauthenticated < options_.max_unauthenticated
             ? nullptr
             : std::find_if(peers_.begin(), peers_.end(), is_unauthenticated)->get();
}

double RootServer::accept_time() const {
  const RootPeer* oldest = oldest_of_too_many();
  return oldest == nullptr ? accept_from_
                           : std::max(accept_from_, oldest->born() + options_.evict_s);
}

// Whether one more unauthenticated connection may be accepted. The oldest is closed after its time.
bool RootServer::make_room(double now) {
  RootPeer* oldest = oldest_of_too_many();
  if (oldest == nullptr) return true;
  if (now - oldest->born() < options_.evict_s) return false;
  oldest->drop();
  return true;
}

void RootServer::out_of_descriptors(int error, double now) {
  accept_from_ = now + 0.1;
  const auto is_unauthenticated = [](const auto& peer) {
    return peer->phase() == Phase::kUnauthenticated;
  };
  const auto oldest = std::find_if(peers_.begin(), peers_.end(), is_unauthenticated);
  if (oldest != peers_.end()) {  // a young connection may be a rank
    if (now - (*oldest)->born() >= options_.evict_s) (*oldest)->drop();
    return;
  }
  if (decided_ || roll_.came() == 0) return;
  fail(Status(Code::kSystemError,
              fmt::format(
                  "the process that made the unique id has no descriptors left for the connections "
                  "of {} ranks ({} have come): {}; raise its limit (ulimit -n) to some {}",
                  roll_.nranks(), roll_.came(), error_text(error), roll_.nranks() + 256)),
       now);
}

void RootServer::step(RootPeer& peer, double now) {
  const bool waited = peer.phase() == Phase::kJoined;
  std::optional<Join> join = peer.step(now);
  if (join) return admit(peer, std::move(*join), now);
  if (!peer.refusal().ok()) return fail(peer.refusal(), now);
  if (waited && peer.phase() == Phase::kGone && !decided_) {
    fail(Status(Code::kRemoteError, fmt::format("{} ended, or gave up, while it waited for {}",
                                                peer.who(), roll_.missing())),
         now);
  }
}

void RootServer::admit(RootPeer& peer, Join join, double now) {
  if (decided_) return peer.answer(failure_payload(*decided_), now);
  if (roll_.came() == 0) {
    first_join_ = now;
    next_note_ = now + options_.note_s;
    next_word_ = now + options_.first_word_s;
  }
  log_debug("bootstrap: {} of {} has come, with {} bytes", join.who(), join.nranks,
            join.blob.size());
  if (const Status status = roll_.admit(std::move(join)); !status.ok()) return fail(status, now);
  if (roll_.is_complete()) give_table(now);
}

void RootServer::look_at_clocks(double now) {
  for (const auto& peer : peers_) {
    if (peer->phase() == Phase::kGone || now < peer->deadline()) continue;
    if (peer->phase() == Phase::kJoined && !decided_) {
      fail(Status(Code::kTimeout,
                  fmt::format("{} did not come within {:.3g} s of the first: each must be started, "
                              "with this unique id, and reach the process that made it. "
                              "SPARCL_TIMEOUT_S sets how long the others wait",
                              roll_.missing(), now - first_join_)),
           now);
    } else {
      peer->drop();
    }
  }
  if (!decided_ && roll_.came() > 0 && now >= next_note_) give_note(now);
}

void RootServer::give_note(double now) {
  next_note_ = now + options_.note_s;
  const Note note{static_cast<std::uint32_t>(roll_.came()),
                  static_cast<std::uint32_t>(roll_.nranks()), roll_.missing_numbers()};
  if (now >= next_word_) {
    log_info("ranks meet at this process for {:.0f} s: {}", now - first_join_, note.text());
    next_word_ = first_join_ + 2 * (now - first_join_);
  }
  const Result<RecordLine::Payload> payload =
      RecordLine::make_payload(RecordKind::kNote, encode_note(note));
  if (!payload.ok()) return;
  for (const auto& peer : peers_) peer->note(*payload);
}

void RootServer::give_table(double now) {
  Result<std::vector<std::byte>> table = roll_.table();
  if (!table.ok()) return fail(table.status(), now);
  const Result<RecordLine::Payload> payload =
      RecordLine::make_payload(RecordKind::kTable, std::move(*table));
  if (!payload.ok()) return fail(payload.status(), now);
  answer_all(*payload, now);
  decide(Status(Code::kInvalidUsage, fmt::format("the unique id has served a communicator of {} "
                                                 "ranks: each communicator needs an id of its own",
                                                 roll_.nranks())),
         now);
}

void RootServer::fail(const Status& failure, double now) {
  if (decided_) return;
  log_debug("bootstrap: {}", failure.message());
  answer_all(failure_payload(failure), now);
  decide(failure, now);
}

// The rank of this process is answered last: its process may end at once, and the other ranks would
// get no answer.
void RootServer::answer_all(const RecordLine::Payload& payload, double now) {
  for (const bool own : {false, true}) {
    for (const auto& peer : peers_) {
      if (peer->is_of_this_process() == own) peer->answer(payload, now);
    }
  }
}

void RootServer::decide(Status for_latecomers, double now) {
  decided_ = std::move(for_latecomers);
  linger_until_ = now + options_.linger_s;
}

}  // namespace sparcl::net
