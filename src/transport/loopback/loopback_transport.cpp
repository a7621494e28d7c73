#include "src/transport/loopback/loopback_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "src/base/caught_error.hpp"
#include "src/transport/posting.hpp"

namespace sparcl::transport {

using loopback::Completion;
using loopback::Endpoint;
using loopback::Letter;
using loopback::LocalOperation;
using loopback::LoopbackOperation;

namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

LoopbackTransport::~LoopbackTransport() { core_->leave(rank_, LoopbackCore::Leave::kOrderly); }

std::string LoopbackTransport::describe_peer(int peer) const {
  return peer >= 0 && peer < size() ? core_->describe(peer) : fmt::format("no rank {}", peer);
}

Status LoopbackTransport::health() const {
  if (killed_) return Status(Code::kSystemError, "this rank was killed", Scope::kComm);
  if (!core_->endpoint(rank_).has_lost.load(std::memory_order_acquire)) return {};
  return status_or_no_memory(Code::kSystemError,
                             "out of memory: another rank has ended, or has left in error, and "
                             "there was no memory to say why",
                             Scope::kComm);
}

bool LoopbackTransport::refuse(Operation& operation) const {
  return refused(operation, killed_ ? health() : check_posted(operation, *this));
}

OperationRef LoopbackTransport::send(int peer, Channel channel, Buffer message) {
  LocalOperation operation =
      make_operation<LoopbackOperation>(Operation::Kind::kSend, peer, channel, std::move(message));
  if (refuse(*operation)) return operation;
  if (core_->knows_dead(rank_, peer)) {
    refused(*operation, core_->dead_peer_error(peer));
    return operation;
  }
  const std::size_t bytes = operation->buffer.size();
  const bool eager = core_->sends_eagerly(bytes);
  core_->submit({rank_, peer, channel, operation->buffer, eager ? nullptr : operation});
  if (eager && core_->reports_later()) {
    core_->complete(rank_, {operation, bytes, {}});
  } else {
    operation->done = eager;
  }
  return operation;
}

OperationRef LoopbackTransport::receive(int peer, Channel channel, Buffer space) {
  LocalOperation operation =
      make_operation<LoopbackOperation>(Operation::Kind::kReceive, peer, channel, std::move(space));
  if (!refuse(*operation)) core_->post_receive(rank_, operation);
  return operation;
}

// A cancelled send may still arrive: its removal would shift the messages behind it to other
// receives.
void LoopbackTransport::cancel(const OperationRef& operation) {
  if (operation == nullptr || operation->done) return;
  const auto own = std::static_pointer_cast<LoopbackOperation>(operation);
  own->cancelled = true;
  own->done = true;
  own->status = Status(Code::kInProgress, "cancelled before it was over", Scope::kRequest);
  if (own->kind == Operation::Kind::kReceive) core_->withdraw_receive(rank_, own);
}

Status LoopbackTransport::progress(std::vector<OperationRef>& completed) {
  Endpoint& own = core_->endpoint(rank_);
  if (!killed_ && scratch_.empty() && own.news.load(std::memory_order_acquire)) {
    const std::lock_guard lock(own.mutex);
    own.news.store(false, std::memory_order_relaxed);
    scratch_.swap(own.inbox);
    killed_ = !own.alive;
  }
  if (!scratch_.empty())
    completed.reserve(completed.size() +
                      scratch_.size());  // all or none: those taken out would be lost
  for (Completion& completion : scratch_) {
    LoopbackOperation& operation = *completion.operation;
    if (operation.cancelled) continue;
    operation.done = true;
    operation.bytes = completion.bytes;
    operation.status = std::move(completion.status);
    completed.push_back(std::move(completion.operation));
  }
  scratch_.clear();
  return health();
}

void LoopbackTransport::idle(std::uint64_t turns, double until_seconds) {
  if (core_->options().deterministic) {
    if (core_->deliver_one(core_->own_random())) return;
    if (until_seconds < 1e18) core_->advance_to(until_seconds);
    return;
  }
  // Heuristic: with a core for each rank some 20 us of spinning are worth it; without, other ranks
  // need the core.
  const std::uint64_t spins = core_->oversubscribed() ? 0 : 500;
  if (turns < spins) return relax();
  if (turns < spins + 4) return std::this_thread::yield();
  sleep(core_->endpoint(rank_), until_seconds);
}

void LoopbackTransport::sleep(Endpoint& own, double until_seconds) {
  // The longest sleep limits only how late a caller sees events from outside this transport.
  constexpr double kLongestNap = 0.05;
  const double nap = std::min(until_seconds - now(), kLongestNap);
  if (!(nap > 0)) return;
  std::unique_lock lock(own.mutex);
  own.sleeping = true;
  own.roused.wait_for(lock, std::chrono::duration<double>(nap),
                      [&] { return own.news.load(std::memory_order_relaxed); });
  own.sleeping = false;
}

void LoopbackTransport::signal(int peer, const Signal& signal) {
  if (killed_ || peer < 0 || peer >= size()) return;
  Signal sent = signal;
  sent.from = rank_;
  sent.text.back() = '\0';
  core_->submit(peer, sent);
}

bool LoopbackTransport::poll_signal(Signal& signal) {
  Endpoint& own = core_->endpoint(rank_);
  if (killed_ || !own.has_signals.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(own.mutex);
  if (own.signals.empty()) return false;
  signal = own.signals.front();
  own.signals.pop_front();
  own.has_signals.store(!own.signals.empty(), std::memory_order_relaxed);
  return true;
}

}  // namespace sparcl::transport
