// Active messages of the UCX transport: signals, and the first and last messages of a rank.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "src/transport/ucx/ucx_error.hpp"
#include "src/transport/ucx/ucx_transport.hpp"

namespace sparcl::transport {
namespace {

constexpr std::size_t kMaxSignals = 1024;
// A peer may end because another peer cannot begin. That peer's message to all ranks names the
// right culprit. It takes milliseconds. Heuristic
constexpr double kExplanationSeconds = 0.25;
constexpr double kLastWordsSeconds =
    2;  // for peers that connect just then: milliseconds. Heuristic
constexpr int kMaxConnected =
    64;  // ranks that connect before the first call; heuristic: a connection costs a millisecond

}  // namespace

void UcxTransport::signal(int peer, const Signal& signal) {
  if (peer < 0 || peer >= size()) return;
  const Lock held = worker().lock();
  Peer& to = peers_[static_cast<std::size_t>(peer)];
  if (!to.lost.ok()) return;
  if (signal.culprit == peer) to.was_told = true;
  send_word(to, UcxWord::Kind::kSignal, &signal);
}

// A rank that has lost a peer cannot tell it so, and the peer may continue: a rank that hears of it
// passes it on. Not if it needs a connection, because UCX 1.13 may abort when it connects to a dead
// peer.
void UcxTransport::pass_on(const Signal& signal) {
  if (signal.culprit < 0 || signal.culprit >= size() || signal.culprit == rank_ ||
      signal.culprit == signal.from)
    return;
  Peer& culprit = peers_[static_cast<std::size_t>(signal.culprit)];
  if (culprit.was_told || culprit.has_departed || !culprit.lost.ok() || culprit.endpoint == nullptr)
    return;
  culprit.was_told = true;
  const Lock held = worker().lock();
  send_word(culprit, UcxWord::Kind::kSignal, &signal);
}

void UcxTransport::send_word(Peer& peer, UcxWord::Kind kind, const Signal* signal) {
  const Result<UcxEndpoint*> way = endpoint(peer);
  if (!way.ok()) return;  // best effort
  const std::uint32_t to = peer.card.first_id + static_cast<std::uint32_t>(rank_);
  sent_words_.push_back(worker().send_word(**way, to, kind, signal));
  sent_words_.back()->peer = peer.rank;
}

void UcxTransport::take_words() {
  mailbox_->forget_news();
  for (; !mailbox_->words.empty(); mailbox_->words.pop_front()) {
    UcxWord& word = mailbox_->words.front();
    Peer& peer = peers_[static_cast<std::size_t>(word.from)];
    if (word.kind == UcxWord::Kind::kHello) {
      peer.said_hello = true;
    } else if (word.kind == UcxWord::Kind::kDeparture) {
      peer.has_departed = true;
    } else if (signals_.size() < kMaxSignals) {
      word.signal.from = word.from;
      word.signal.text.back() = '\0';
      signals_.push_back(word.signal);
    }
  }
}

bool UcxTransport::has_sent_all_words() {
  const Lock held = worker().lock();
  std::erase_if(sent_words_, [](const UcxOperationRef& each) { return !each->is_open; });
  return sent_words_.empty();
}

void UcxTransport::flush_signals(double seconds) {
  const double deadline = now() + seconds;
  while (!has_sent_all_words() && now() < deadline) {
    Lock held = worker().lock();
    if (worker().progress() == 0) sleep(held, std::min(deadline - now(), 0.01));
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
  if (size() > kMaxConnected) return {};
  Status status = say_hello_to_all(timeout_s);
  if (!status.ok()) finish_hellos();
  return status;
}

void UcxTransport::finish_hellos() {
  const double until = now() + kLastWordsSeconds;
  std::vector<OperationRef> completed;
  for (;;) {
    (void)progress(completed);
    bool waits = !has_sent_all_words();
    for (const Peer& peer : peers_) {
      if (peer.rank == rank_ || peer.said_hello || !peer.lost.ok() || size() > kMaxConnected)
        continue;
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
    const Lock held = worker().lock();
    if (peer.lost.ok()) peer.lost = endpoint(peer).status();
    if (peer.lost.ok()) send_word(peer, UcxWord::Kind::kHello);
  }
  const double deadline = now() + timeout_s;
  double give_up_at = deadline;
  std::vector<OperationRef> completed;
  for (;;) {
    SPARCL_RETURN_IF_ERROR(progress(completed));
    // A signal of a peer that has begun is about its first call, and stays for ours.
    const auto said = std::find_if(signals_.begin(), signals_.end(), [&](const Signal& each) {
      return !peers_[static_cast<std::size_t>(each.from)].said_hello;
    });
    if (said != signals_.end()) {
      return Status(Code::kRemoteError, fmt::format("rank {} ({}) could not begin: {}", said->from,
                                                    describe_peer(said->from), said->text.data()));
    }
    const bool has_sent = has_sent_all_words();
    const auto silent = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& peer) {
      return peer.rank != rank_ && !peer.said_hello;
    });
    if (silent == peers_.end() && has_sent) return {};
    const Peer* lost = nullptr;
    for (const Peer& peer : peers_) {
      if (peer.rank == rank_ || peer.said_hello) continue;
      if (!peer.lost.ok()) lost = &peer;
      if (peer.lost.ok() && heartbeat_ != nullptr) heartbeat_->watch(peer.rank);
    }
    give_up_at = lost != nullptr ? std::min(give_up_at, now() + kExplanationSeconds) : deadline;
    if (lost != nullptr && now() >= give_up_at) return why_lost(*lost);
    if (now() >= deadline) {
      const int rank = silent != peers_.end() ? silent->rank : sent_words_.front()->peer;
      return Status(Code::kTimeout, fmt::format("rank {} ({}) is not connected after {:g} s", rank,
                                                describe_peer(rank), timeout_s));
    }
    sleep(0.01);
  }
}

}  // namespace sparcl::transport
