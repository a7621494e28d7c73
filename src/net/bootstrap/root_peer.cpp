#include "src/net/bootstrap/root_peer.hpp"

#include <unistd.h>

#include "src/net/network_interfaces.hpp"

namespace sparcl::net {
namespace {

constexpr double kLeaveSeconds =
    60;  // to send the answer: a table may be large, and its reader slow

}  // namespace

RootPeer::RootPeer(Socket socket, const Secret& secret, double now, double handshake_s)
    : secret_(secret), born_(now), deadline_(now + handshake_s), hello_(std::move(socket)) {
  send_at_once(hello_.socket());
  hello_.expect(kHelloBytes);
}

short RootPeer::events() const {
  const int reading = phase_ == Phase::kLeaving ? 0 : POLLIN;  // POLLHUP and POLLERR come unasked
  return static_cast<short>(reading | (line().has_queued() ? POLLOUT : 0));
}

std::optional<Join> RootPeer::step(double now) {
  if (phase_ == Phase::kGone) return std::nullopt;
  flush();
  if (phase_ == Phase::kUnauthenticated && !records_) greet();
  if ((phase_ == Phase::kUnauthenticated || phase_ == Phase::kJoined) && records_)
    return receive(now);
  return std::nullopt;
}

void RootPeer::greet() {
  const ByteLine::Progress progress = hello_.read();
  if (progress == ByteLine::Progress::kMore) return;
  Nonce of_rank{}, of_root{};
  if (progress == ByteLine::Progress::kClosed || !decode_hello(hello_.received(), of_rank) ||
      !trust::fill_random(of_root).ok())
    return drop();
  const Result<BootstrapSession> session = BootstrapSession::agree(secret_, of_rank, of_root);
  if (!session.ok()) return drop();
  const auto challenge = session->encode_challenge(of_root);
  if (!challenge.ok()) return drop();
  records_.emplace(std::move(hello_), *session, Side::kRoot, kMaxJoinBytes);
  line().queue(*challenge);
  flush();
}

// After a join only the end of the stream may come.
std::optional<Join> RootPeer::receive(double now) {
  const RecordLine::Progress progress = records_->receive();
  if (progress == RecordLine::Progress::kMore) return std::nullopt;
  if (progress == RecordLine::Progress::kRecord && phase_ == Phase::kUnauthenticated &&
      records_->kind() == RecordKind::kFailure) {
    refusal_ = decode_failure(records_->payload());
    drop();
    return std::nullopt;
  }
  if (progress != RecordLine::Progress::kRecord || phase_ == Phase::kJoined ||
      records_->kind() != RecordKind::kJoin) {
    drop();
    return std::nullopt;
  }
  Result<Join> join = decode_join(records_->payload());
  if (!join.ok()) {
    drop();
    return std::nullopt;
  }
  phase_ = Phase::kJoined;
  deadline_ = now + static_cast<double>(join->patience_ms) * 1e-3;
  rank_ = join->rank;
  is_own_ = join->pid == static_cast<std::uint32_t>(::getpid()) && join->host == own_host_name();
  who_ = join->who();
  return *join;
}

void RootPeer::flush() {
  if (line().write() == ByteLine::Progress::kClosed ||
      (phase_ == Phase::kLeaving && !line().has_queued()))
    drop();
}

void RootPeer::note(const RecordLine::Payload& payload) {
  if (phase_ != Phase::kJoined || line().has_queued()) return;
  if (!records_->queue(payload).ok()) return drop();
  flush();
}

void RootPeer::answer(const RecordLine::Payload& payload, double now) {
  if (phase_ != Phase::kJoined) return;
  if (!records_->queue(payload).ok()) return drop();
  phase_ = Phase::kLeaving;
  deadline_ = now + kLeaveSeconds;
  flush();
}

void RootPeer::drop() {
  line().close();
  phase_ = Phase::kGone;
}

}  // namespace sparcl::net
