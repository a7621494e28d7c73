// Reactions of a UCX transport to peers that end, and the errors of its operations.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "src/base/log.hpp"
#include "src/transport/ucx/ucx_error.hpp"
#include "src/transport/ucx/ucx_transport.hpp"

namespace sparcl::transport {

// UCX reports ends in any order, and some only by a send that fails. The heartbeat knows the first.
// Its message takes a moment, and is waited for once.
void UcxTransport::find_first_lost(const Peer& lost) {
  constexpr double kWordSeconds = 0.3;
  if (heartbeat_ == nullptr || first_lost_ >= 0 || lost.has_departed) return;
  const double since =
      lost.endpoint != nullptr && lost.endpoint->trouble_at > 0 ? lost.endpoint->trouble_at : now();
  const double until = std::exchange(has_awaited_word_, true)
                           ? 0
                           : since + kWordSeconds;  // all communicators wait at once
  while (heartbeat_->deaths() == 0 && now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (net::Heartbeat::Obituary& each : heartbeat_->obituaries()) {
    Peer& peer = peers_[static_cast<std::size_t>(each.rank)];
    if (peer.has_departed) continue;
    if (peer.lost.ok()) newly_lost_.push_back(peer.rank);
    peer.lost = std::move(each.status);
    first_lost_ = peer.rank;
    return;
  }
}

Status UcxTransport::describe_end(const UcxOperation& operation) const {
  const ucs_status_t status = operation.outcome;
  const bool is_send = operation.kind == Operation::Kind::kSend;
  if (status == UCS_ERR_MESSAGE_TRUNCATED) {
    return Status(
        Code::kCorrupt,
        fmt::format(
            "a message from rank {} ({}) on call {} lane {} is larger than the {} bytes awaited",
            operation.peer, describe_peer(operation.peer), operation.channel.call,
            operation.channel.lane, operation.buffer.size()));
  }
  return Status(
      status == UCS_ERR_NO_MEMORY ? Code::kOutOfMemory : Code::kRemoteError,
      fmt::format("rank {} ({}): {} failed (UCX: {})", operation.peer,
                  describe_peer(operation.peer), is_send ? "the send to it" : "the receive from it",
                  ucs_status_string(status)));
}

void UcxTransport::take_losses() {
  if (std::exchange(losses_seen_, mailbox_->losses) == mailbox_->losses) return;
  for (Peer& peer : peers_) {
    if (!peer.lost.ok() || peer.endpoint == nullptr || peer.endpoint->lost == UCS_OK) continue;
    const char* how =
        peer.has_departed ? "has left the communicator" : "was killed or ended, or its link is cut";
    peer.lost = Status(Code::kRemoteError,
                       fmt::format("rank {} ({}) {} (UCX: {})", peer.rank, describe(peer.card), how,
                                   ucs_status_string(peer.endpoint->lost)));
    newly_lost_.push_back(peer.rank);
  }
}

void UcxTransport::look_for_deaths() {
  deaths_seen_ = heartbeat_->deaths();
  for (net::Heartbeat::Obituary& each : heartbeat_->obituaries()) {
    Peer& peer = peers_[static_cast<std::size_t>(each.rank)];
    if (!peer.lost.ok()) continue;
    peer.lost = std::move(each.status);
    newly_lost_.push_back(peer.rank);
  }
}

void UcxTransport::watch_waited_for() {
  if (heartbeat_ == nullptr) return;
  for (const UcxOperationRef& each : worker().open_operations()) {
    if (each->mailbox == mailbox_.get() && !each->done) heartbeat_->watch(each->peer);
  }
}

// A peer that ended later may have ended because of the first.
Status UcxTransport::why_lost(const Peer& peer) const {
  return first_lost_ >= 0 ? peers_[static_cast<std::size_t>(first_lost_)].lost : peer.lost;
}

// Operations that wait for it end; UCX releases the buffers when it can.
void UcxTransport::lose(Peer& peer) {
  log_debug("rank {}: {}", rank_, peer.lost.message());
  if (first_lost_ < 0 && !peer.has_departed) first_lost_ = peer.rank;
  if (heartbeat_ != nullptr && !peer.has_departed) heartbeat_->give_up(peer.rank);
  if (!peer.has_departed) worker().retire();
  if (peer.endpoint != nullptr) peer.endpoint->is_lost = true;
  std::vector<UcxOperationRef> its;
  std::copy_if(worker().open_operations().begin(), worker().open_operations().end(),
               std::back_inserter(its), [&](const UcxOperationRef& each) {
                 return each->mailbox == mailbox_.get() && each->peer == peer.rank;
               });
  for (const UcxOperationRef& each : its) {
    if (finish(*each, why_lost(peer))) completed_.push_back(each);
    if (each->request != nullptr && each->kind == Operation::Kind::kReceive)
      ucp_request_cancel(worker().handle(), each->request);
  }
}

void UcxTransport::go_on_without(int peer) {
  Peer& out = peers_[static_cast<std::size_t>(peer)];
  if (peer == rank_ || out.has_departed) return;
  out.is_left_out = true;
  if (heartbeat_ != nullptr) heartbeat_->go_on_without(peer);
  if (!out.lost.ok()) return;
  const Lock held = worker().lock();
  out.lost = Status(Code::kRemoteError,
                    fmt::format("rank {} ({}) was given up by others", peer, describe(out.card)));
  lose(out);
}

// A rank that says goodbye continues nowhere, or only with this rank: it says none to a rank that
// it excludes.
Transport::PeerEnd UcxTransport::end_of(int peer) {
  if (peers_[static_cast<std::size_t>(peer)].has_departed) return PeerEnd::kSure;
  if (heartbeat_ == nullptr) return PeerEnd::kMayGoOn;
  for (const net::Heartbeat::Obituary& each : heartbeat_->obituaries()) {
    if (each.rank == peer) return each.is_sure ? PeerEnd::kSure : PeerEnd::kMayGoOn;
  }
  heartbeat_->watch(peer);
  return PeerEnd::kUnknown;
}

}  // namespace sparcl::transport
