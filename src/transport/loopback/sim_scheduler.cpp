#include "src/transport/loopback/sim_scheduler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace sparcl::transport {
namespace {

constexpr double kNoDeadline = std::numeric_limits<double>::infinity();

double deadline_of(const SimRank& rank) {
  return rank.next_deadline ? rank.next_deadline() : kNoDeadline;
}

}  // namespace

SimScheduler::SimScheduler(LoopbackWorld& world, std::uint64_t seed)
    : world_(world), random_(seed), policy_(static_cast<Policy>(random_.below(4))) {}

SimOutcome SimScheduler::run(std::uint64_t max_steps) {
  SimOutcome outcome;
  awake_.clear();
  is_awake_.assign(ranks_.size(), false);
  wake_all();
  bool stirred = true;  // all ranks were asked since the last progress
  for (;;) {
    if (outcome.steps + outcome.deliveries >= max_steps) {
      outcome.end = SimOutcome::End::kStepLimit;
      break;
    }
    if (move_something(outcome, max_steps)) {
      stirred = false;
      continue;
    }
    if (std::all_of(ranks_.begin(), ranks_.end(),
                    [](const SimRank& rank) { return rank.finished(); }))
      break;
    // A step may depend on more than messages and timers (for example another rank's memory): all
    // ranks are asked before time moves.
    if (!stirred) {
      stirred = true;
      wake_all();
    } else if (!advance_clock()) {
      outcome.end = SimOutcome::End::kDeadlock;
      break;
    }
  }
  outcome.seconds = world_.now();
  if (!outcome.ok()) outcome.report = describe_stuck();
  return outcome;
}

// True if a message was delivered or a rank's step did something.
bool SimScheduler::move_something(SimOutcome& outcome, std::uint64_t max_steps) {
  while (outcome.steps < max_steps) {
    wake_roused();
    const bool can_deliver = world_.in_flight_count() > 0;
    if (!can_deliver && awake_.empty()) return false;
    bool deliver = can_deliver;
    if (can_deliver && !awake_.empty()) {
      const double share = policy_ == Policy::kLazyNetwork    ? 0.02
                           : policy_ == Policy::kEagerNetwork ? 0.9
                                                              : 0.4;
      deliver = random_.chance(share);
    }
    if (deliver) {
      world_.deliver_one(random_);
      ++outcome.deliveries;
      return true;
    }
    if (step_someone(outcome)) return true;
  }
  return true;  // the caller sees the limit
}

bool SimScheduler::step_someone(SimOutcome& outcome) {
  const std::size_t at = pick_awake();
  const std::size_t index = awake_[at];
  SimRank& rank = ranks_[index];
  bool moved = false;
  if (!rank.finished()) {
    moved = rank.step();
    ++outcome.steps;
    world_.advance_to(world_.now() + step_seconds_);
  }
  // A rank whose deadline has passed stays awake until it has noticed, because engines read their
  // clock only now and then.
  if (!moved && !(deadline_of(rank) <= world_.now() && !rank.finished())) {
    awake_[at] = awake_.back();
    awake_.pop_back();
    is_awake_[index] = false;
  }
  return moved;
}

std::size_t SimScheduler::pick_awake() {
  if (policy_ != Policy::kUnfair) return random_.below(awake_.size());
  // Mostly the same rank until it sleeps: the others fall far behind.
  return random_.chance(0.95) ? awake_.size() - 1 : random_.below(awake_.size());
}

void SimScheduler::wake_roused() {
  roused_.clear();
  world_.take_roused(roused_);
  for (const int rank : roused_) {
    const auto index = static_cast<std::size_t>(rank);
    if (index >= ranks_.size() || is_awake_[index]) continue;
    is_awake_[index] = true;
    awake_.push_back(index);
  }
}

void SimScheduler::wake_all() {
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    if (is_awake_[index] || ranks_[index].finished()) continue;
    is_awake_[index] = true;
    awake_.push_back(index);
  }
}

bool SimScheduler::advance_clock() {
  double next = kNoDeadline;
  for (const SimRank& rank : ranks_) {
    if (!rank.finished()) next = std::min(next, deadline_of(rank));
  }
  if (next == kNoDeadline) return false;
  world_.advance_to(next);  // no effect if the deadline passed while the other ranks were asked
  wake_all();
  return true;
}

std::string SimScheduler::describe_stuck() const {
  std::string stuck;
  for (std::size_t index = 0; index < ranks_.size(); ++index) {
    if (ranks_[index].finished()) continue;
    stuck += fmt::format("{}{}", stuck.empty() ? "" : ", ", index);
    if (const double deadline = deadline_of(ranks_[index]); deadline != kNoDeadline)
      stuck += fmt::format(" (deadline {} s)", deadline);
  }
  return fmt::format("at {} s, with {} messages in flight, these ranks have not finished: {}",
                     world_.now(), world_.in_flight_count(), stuck);
}

}  // namespace sparcl::transport
