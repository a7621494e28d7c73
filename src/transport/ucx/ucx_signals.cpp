// Active messages of the UCX body: signals, the first and the last words of a rank.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "src/transport/ucx/ucx_error.hpp"
#include "src/transport/ucx/ucx_operation.hpp"

namespace sparcl {
namespace {

constexpr unsigned kSignalId = 1;  // of active messages
constexpr std::size_t kMostSignals = 1024;
// A peer may be gone because another one cannot begin, which that one is telling everybody: its word names the right rank. It
// takes milliseconds. Heuristic
constexpr double kExplanationSeconds = 0.25;
constexpr double kLastWordsSeconds = 2;  // for peers that connect just then: milliseconds. Heuristic
constexpr int kMostConnected = 64;       // ranks that connect before the first call; heuristic: a connection costs a millisecond

// The header of an active message; only signals have a content.
struct ActiveHeader {
  std::int32_t from;
  std::int32_t kind;  // UcxTransport::Active
};

}  // namespace

Status UcxTransport::listen_for_signals() {
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kSignalId;
  handler.cb = on_signal;
  handler.arg = this;
  return ucx_status(ucp_worker_set_am_recv_handler(worker_->handle(), &handler), "ucp_worker_set_am_recv_handler");
}

void UcxTransport::signal(int peer, const Signal& signal) {
  if (peer < 0 || peer >= size()) return;
  Peer& to = peers_[static_cast<std::size_t>(peer)];
  if (!to.lost.ok()) return;
  if (signal.culprit == peer) to.was_told = true;
  send_active(to, Active::kSignal, &signal);
}

// Who has lost a peer cannot tell it so, and it may go on: whoever hears of it does. Not where that would need a connection, which
// UCX 1.13 may abort at where the peer is dead.
void UcxTransport::pass_on(const Signal& signal) {
  if (signal.culprit < 0 || signal.culprit >= size() || signal.culprit == rank_ || signal.culprit == signal.from) return;
  Peer& culprit = peers_[static_cast<std::size_t>(signal.culprit)];
  if (culprit.was_told || culprit.said_farewell || !culprit.lost.ok() || culprit.endpoint == nullptr) return;
  culprit.was_told = true;
  send_active(culprit, Active::kSignal, &signal);
}

void UcxTransport::send_active(Peer& peer, Active kind, const Signal* signal) {
  const Result<ucp_ep_h> way = endpoint(peer);
  if (!way.ok()) return;  // best effort
  const ActiveHeader header{rank_, static_cast<std::int32_t>(kind)};
  Buffer content = Buffer::allocate(sizeof header + (signal == nullptr ? 0 : sizeof *signal));
  std::memcpy(content.data(), &header, sizeof header);
  if (signal != nullptr) std::memcpy(content.data() + sizeof header, signal, sizeof *signal);
  const UcxOperationRef operation = make(Operation::Kind::kSend, peer.rank, {}, std::move(content));
  sent_signals_.push_back(operation);
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = on_sent;
  param.user_data = operation.get();
  operation->done = true;  // nobody waits for it
  std::byte* content_bytes = operation->buffer.data() + sizeof header;
  post(operation, [&] {
    return ucp_am_send_nbx(*way, kSignalId, operation->buffer.data(), sizeof header, content_bytes,
                           operation->buffer.size() - sizeof header, &param);
  });
}

ucs_status_t UcxTransport::on_signal(void* transport, const void* header, std::size_t header_bytes, void* data, std::size_t bytes,
                                     const ucp_am_recv_param_t* param) {
  auto& own = *static_cast<UcxTransport*>(transport);
  ActiveHeader read;
  if (header_bytes != sizeof read || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  std::memcpy(&read, header, sizeof read);
  if (read.from < 0 || read.from >= own.size()) return UCS_OK;
  Peer& peer = own.peers_[static_cast<std::size_t>(read.from)];
  if (read.kind == static_cast<std::int32_t>(Active::kHello)) {
    peer.said_hello = true;
  } else if (read.kind == static_cast<std::int32_t>(Active::kFarewell)) {
    peer.said_farewell = true;
  } else if (bytes == sizeof(Signal) && own.signals_.size() < kMostSignals) {
    Signal& signal = own.signals_.emplace_back();
    std::memcpy(&signal, data, sizeof signal);
    signal.from = read.from;
    signal.text.back() = '\0';
  }
  return UCS_OK;
}

void UcxTransport::flush_signals(double seconds) {
  const double deadline = now() + seconds;
  for (;;) {
    std::erase_if(sent_signals_, [](const UcxOperationRef& each) { return !each->is_open; });
    if (sent_signals_.empty() || now() >= deadline) return;
    if (ucp_worker_progress(worker_->handle()) == 0) worker_->sleep(std::min(deadline - now(), 0.01), -1);
  }
}

bool UcxTransport::poll_signal(Signal& signal) {
  if (signals_.empty()) return false;
  signal = signals_.front();
  signals_.pop_front();
  pass_on(signal);
  return true;
}

Status UcxTransport::connect(double timeout_s) {
  if (size() > kMostConnected) return {};
  Status status = say_hello_to_all(timeout_s);
  if (!status.ok()) finish_hellos();
  return status;
}

void UcxTransport::finish_hellos() {
  const double until = now() + kLastWordsSeconds;
  std::vector<OperationRef> completed;
  for (;;) {
    (void)progress(completed);
    std::erase_if(sent_signals_, [](const UcxOperationRef& each) { return !each->is_open; });
    bool waits = !sent_signals_.empty();
    for (const Peer& peer : peers_) {
      if (peer.rank == rank_ || peer.said_hello || !peer.lost.ok() || size() > kMostConnected) continue;
      waits = true;
      if (heartbeat_ != nullptr) heartbeat_->watch(peer.rank);
    }
    if (!waits || now() >= until) return;
    sleep(0.01);
  }
}

Status UcxTransport::say_hello_to_all(double timeout_s) {
  for (int step = 1; step < size(); ++step) {
    Peer& peer = peers_[static_cast<std::size_t>((rank_ + step) % size())];
    if (peer.lost.ok()) peer.lost = endpoint(peer).status();
    if (peer.lost.ok()) send_active(peer, Active::kHello);
  }
  const double deadline = now() + timeout_s;
  double give_up_at = deadline;
  std::vector<OperationRef> completed;
  for (;;) {
    SPARCL_RETURN_IF_ERROR(progress(completed));
    // Of one that has begun it is about its first call, and stays for ours.
    const auto said = std::find_if(signals_.begin(), signals_.end(),
                                   [&](const Signal& each) { return !peers_[static_cast<std::size_t>(each.from)].said_hello; });
    if (said != signals_.end()) {
      return Status(Code::kRemoteError,
                    fmt::format("rank {} ({}) could not begin: {}", said->from, describe_peer(said->from), said->text.data()));
    }
    std::erase_if(sent_signals_, [](const UcxOperationRef& each) { return !each->is_open; });
    const auto silent =
        std::find_if(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.rank != rank_ && !peer.said_hello; });
    if (silent == peers_.end() && sent_signals_.empty()) return {};
    const Peer* lost = nullptr;
    for (const Peer& peer : peers_) {
      if (peer.rank == rank_ || peer.said_hello) continue;
      if (!peer.lost.ok()) lost = &peer;
      if (peer.lost.ok() && heartbeat_ != nullptr) heartbeat_->watch(peer.rank);
    }
    give_up_at = lost != nullptr ? std::min(give_up_at, now() + kExplanationSeconds) : deadline;
    if (lost != nullptr && now() >= give_up_at) return why_lost(*lost);
    if (now() >= deadline) {
      const int rank = silent != peers_.end() ? silent->rank : sent_signals_.front()->peer;
      return Status(Code::kTimeout,
                    fmt::format("rank {} ({}) is not connected after {:g} s", rank, describe_peer(rank), timeout_s));
    }
    sleep(0.01);
  }
}

// --- posting ---

}  // namespace sparcl
