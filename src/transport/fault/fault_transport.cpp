#include "src/transport/fault/fault_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "src/transport/posting.hpp"

namespace sparcl::transport {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

std::uint64_t hash_of(int peer, Channel channel, std::uint64_t index) {
  const std::uint64_t line = (std::uint64_t{channel.call} << 32) |
                             (std::uint64_t{channel.lane} << 24) |
                             static_cast<std::uint32_t>(peer + 1);
  return mix64(mix64(line) ^ index);
}

}  // namespace

FaultTransport::FaultTransport(std::unique_ptr<Transport> inner, FaultPlan plan)
    : inner_(std::move(inner)), plan_(std::move(plan)), rank_(inner_->rank()) {}

// --- decisions ---

bool FaultTransport::strikes(const FaultRule& rule, std::uint64_t index,
                             SeededRandom& random) const {
  const bool by_chance = random.chance(rule.probability);  // drawn in any case, so that one rule
                                                           // does not shift the numbers of another
  return (rule.rank < 0 || rule.rank == rank_) && (by_chance || rule.at == index);
}

void FaultTransport::record(Fault fault, int peer, Channel channel) {
  trace_.push_back({fault, operations_, peer, channel});
}

// Kill and stop happen before the operation at which they are due.
void FaultTransport::count_operation(int peer, Channel channel) {
  for (std::size_t i = 0; i < plan_.rules.size() && !killed_; ++i) {
    const FaultRule& rule = plan_.rules[i];
    if (row_of(rule.fault).of != FaultOf::kRank) continue;
    SeededRandom random(mix64(plan_.seed + i) ^ hash_of(rank_, {}, operations_));
    if (!strikes(rule, operations_, random)) continue;
    record(rule.fault, peer, channel);
    if (rule.fault == Fault::kKill) {
      kill();
    } else if (!is_stopped()) {
      stopped_at_ = inner_->now();
      stopped_until_ = stopped_at_ + rule.seconds;
    }
  }
  ++operations_;
}

bool FaultTransport::apply_message_faults(int peer, Channel channel, Outgoing& outgoing) {
  const std::uint64_t on_line = line_messages_[{peer, channel}]++;
  bool touched = false;
  for (std::size_t i = 0; i < plan_.rules.size(); ++i) {
    const FaultRule& rule = plan_.rules[i];
    const FaultRow& row = row_of(rule.fault);
    if (row.apply == nullptr) continue;
    SeededRandom random(mix64(plan_.seed + i) ^ mix64(static_cast<std::uint64_t>(rank_)) ^
                        hash_of(peer, channel, on_line));
    const bool is_meant =
        (rule.peer < 0 || rule.peer == peer) && (rule.lane < 0 || rule.lane == channel.lane);
    if (!strikes(rule, messages_, random) || !is_meant) continue;
    row.apply(outgoing, rule, random);
    record(rule.fault, peer, channel);
    touched = true;
  }
  ++messages_;
  return touched;
}

const FaultRule* FaultTransport::cut_by(int peer) const {
  const auto is = [](int meant, int rank) { return meant < 0 || meant == rank; };
  for (const FaultRule& rule : plan_.rules) {
    if (row_of(rule.fault).of != FaultOf::kLink || peer == rank_) continue;
    const bool is_this_way = is(rule.rank, rank_) && is(rule.peer, peer);
    const bool is_other_way =
        rule.fault == Fault::kCut && is(rule.rank, peer) && is(rule.peer, rank_);
    if (!is_this_way && !is_other_way) continue;
    const bool by_count = rule.at != std::numeric_limits<std::uint64_t>::max();
    if (by_count ? operations_ > rule.at : inner_->now() >= rule.seconds) return &rule;
  }
  return nullptr;
}

std::string FaultTransport::describe_trace() const {
  std::string text = fmt::format("rank {} under {}:", rank_, describe());
  for (const FaultEvent& event : trace_) {
    text +=
        fmt::format(" [operation {}: {}, rank {}, call {} lane {}]", event.operation,
                    row_of(event.fault).name, event.peer, event.channel.call, event.channel.lane);
  }
  return text;
}

// --- a rank that is dead or stopped ---

void FaultTransport::kill() {
  killed_ = true;
  held_.clear();
  held_signals_.clear();
  finished_.clear();
  if (on_kill_) on_kill_();
}

Status FaultTransport::killed_error() const {
  return Status(Code::kSystemError,
                fmt::format("rank {} was killed by its fault plan ({})", rank_, describe()),
                Scope::kComm);
}

bool FaultTransport::is_stopped() {
  if (!stopped_until_) return false;
  if (inner_->now() < *stopped_until_) return true;
  stopped_until_.reset();
  for (const auto& [peer, signal] : held_signals_) pass_signal(peer, signal);
  held_signals_.clear();
  return false;
}

double FaultTransport::now() {
  if (!killed_ && is_stopped()) return stopped_at_;
  return inner_->now();
}

double FaultTransport::next_wake(double own_deadline) const {
  if (killed_) return kNever;
  if (stopped_until_) return *stopped_until_;
  double next = own_deadline;
  for (const auto& [line, queue] : held_) next = std::min(next, queue.front().release_at);
  return next;
}

// --- posting ---

OperationRef FaultTransport::refused(Operation::Kind kind, int peer, Channel channel,
                                     Buffer buffer) const {
  const HeldRef operation = make_operation<HeldOperation>(kind, peer, channel, std::move(buffer));
  transport::refused(*operation, killed_error());
  return operation;
}

OperationRef FaultTransport::send(int peer, Channel channel, Buffer message) {
  count_operation(peer, channel);
  if (killed_) return refused(Operation::Kind::kSend, peer, channel, std::move(message));
  if (peer < 0 || peer >= size())
    return inner_->send(peer, channel, std::move(message));  // which refuses it
  Outgoing outgoing{message};
  const bool touched = apply_message_faults(peer, channel, outgoing);
  const Line line{peer, channel};
  if (!touched && !is_stopped() && !held_.contains(line) && cut_by(peer) == nullptr) {
    OperationRef operation = inner_->send(peer, channel, std::move(message));
    release_due();
    return operation;
  }

  const HeldRef operation =
      make_operation<HeldOperation>(Operation::Kind::kSend, peer, channel, std::move(message));
  const double release_at = inner_->now() + outgoing.held_seconds;
  const std::uint64_t release_at_message =
      outgoing.held_sends > 0 ? messages_ + outgoing.held_sends : 0;
  held_[line].push_back({std::move(outgoing), operation, release_at, release_at_message});
  release_due();
  if (const auto over = find_finished(operation);
      over != finished_.end()) {  // done at once: then progress() does not report it
    operation->status = std::move(over->status);
    operation->done = true;
    finished_.erase(over);
  }
  return operation;
}

OperationRef FaultTransport::receive(int peer, Channel channel, Buffer space) {
  count_operation(peer, channel);
  if (killed_) return refused(Operation::Kind::kReceive, peer, channel, std::move(space));
  return inner_->receive(peer, channel, std::move(space));
}

void FaultTransport::release_due() {
  if (held_.empty() || killed_ || is_stopped()) return;
  const double time = inner_->now();
  for (auto line = held_.begin(); line != held_.end();) {
    std::deque<Held>& queue = line->second;
    while (!queue.empty()) {
      const Held& front = queue.front();
      const bool by_count = front.release_at_message != 0 && messages_ >= front.release_at_message;
      if (!by_count && time < front.release_at) break;
      post(line->first, front);
      queue.pop_front();
    }
    line = queue.empty() ? held_.erase(line) : std::next(line);
  }
}

// The first copy stands for the operation; further copies belong to no operation.
void FaultTransport::post(Line line, const Held& held) {
  if (const FaultRule* cut = cut_by(line.first)) {
    record(cut->fault, line.first, line.second);
    // As with a socket: a small message is done once it is in the system's buffer, and a large one
    // waits there for ever.
    if (SeededRandom(mix64(plan_.seed) ^ hash_of(line.first, line.second, lost_on_cut_++))
            .chance(0.5))
      finish(held.operation, {});
    return;
  }
  if (held.outgoing.copies == 0) finish(held.operation, {});
  for (int copy = 0; copy < held.outgoing.copies; ++copy) {
    const OperationRef inner = inner_->send(line.first, line.second, held.outgoing.message);
    const HeldRef outer = copy == 0 ? held.operation : nullptr;
    if (!inner->done) {
      posted_[inner.get()] = {inner, outer};
    } else if (outer) {
      finish(outer, inner->status);
    }
  }
}

void FaultTransport::finish(const HeldRef& held, Status status) {
  if (!held->done) finished_.push_back({held, std::move(status)});  // else it was cancelled
}

auto FaultTransport::find_finished(const OperationRef& operation)
    -> std::vector<Finished>::iterator {
  return std::find_if(finished_.begin(), finished_.end(),
                      [&](const Finished& each) { return each.operation == operation; });
}

// A message that is held back still leaves: a cancelled send may arrive.
void FaultTransport::cancel(const OperationRef& operation) {
  if (killed_ || operation == nullptr || operation->done) return;
  const auto held = std::dynamic_pointer_cast<HeldOperation>(operation);
  if (!held) return inner_->cancel(operation);
  held->done = true;
  held->status = Status(Code::kInProgress, "cancelled before it was over", Scope::kRequest);
  if (const auto over = find_finished(operation); over != finished_.end()) finished_.erase(over);
  const auto posted = std::find_if(posted_.begin(), posted_.end(),
                                   [&](const auto& each) { return each.second.second == held; });
  if (posted == posted_.end()) return;
  const OperationRef inner = posted->second.first;
  posted_.erase(posted);
  inner_->cancel(inner);
}

// --- progress ---

Status FaultTransport::progress(std::vector<OperationRef>& completed) {
  if (killed_) return killed_error();
  if (is_stopped()) return {};
  release_due();
  inner_completed_.clear();
  Status status = inner_->progress(inner_completed_);
  for (OperationRef& inner : inner_completed_) {
    const auto posted = posted_.find(inner.get());
    if (posted == posted_.end()) {
      completed.push_back(std::move(inner));
      continue;
    }
    if (posted->second.second) finish(posted->second.second, inner->status);
    posted_.erase(posted);
  }
  for (Finished& each : finished_) {
    each.operation->status = std::move(each.status);
    each.operation->done = true;
    completed.push_back(std::move(each.operation));
  }
  finished_.clear();
  return status;
}

void FaultTransport::idle(std::uint64_t turns, double until_seconds) {
  if (killed_) return;
  inner_->idle(turns, next_wake(until_seconds));
  // A stopped rank does not take the inner transport's news, so that its idle() returns at once.
  // The sleep keeps the core free meanwhile.
  if (is_stopped()) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

void FaultTransport::signal(int peer, const Signal& signal) {
  if (killed_) return;
  if (is_stopped()) {
    held_signals_.emplace_back(peer, signal);
  } else {
    pass_signal(peer, signal);
  }
}

void FaultTransport::pass_signal(int peer, const Signal& signal) {
  if (cut_by(peer) == nullptr) inner_->signal(peer, signal);
}

bool FaultTransport::poll_signal(Signal& signal) {
  return !killed_ && !is_stopped() && inner_->poll_signal(signal);
}

void FaultTransport::close(Channel channel) {
  if (killed_) return;
  std::erase_if(line_messages_, [&](const auto& each) { return each.first.second == channel; });
  inner_->close(channel);
}

}  // namespace sparcl::transport
