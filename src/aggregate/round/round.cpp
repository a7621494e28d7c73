#include "src/aggregate/round/round.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace sparcl::aggregate {
namespace {

constexpr std::ptrdiff_t kMaxInRound = 16;  // contributions of one worker: a bound on memory

// The factor for each round that a contribution is late, by repeated products: the same bits on
// every machine.
double late_product(double factor, std::uint64_t rounds) {
  double product = 1;
  for (std::uint64_t i = 0; i < rounds && product != 0 && factor != 1; ++i) product *= factor;
  return product;
}

}  // namespace

Status check_round_options(const RoundOptions& options) {
  const auto refuse = [](const std::string& what) { return Status(Code::kInvalidArgument, what); };
  if (options.mode != RoundMode::kSynchronous && options.quorum == 0)
    return refuse("quorum is 0: give at least 1");
  if (!(options.deadline_s > 0 && options.deadline_s <= kMaxWaitS))
    return refuse(fmt::format("deadline_s is {}: give a positive number, at most {:g}",
                              options.deadline_s, kMaxWaitS));
  const GraceOptions& grace = options.grace;
  if (!(grace.shortest_s >= 0) || !(grace.longest_s >= grace.shortest_s) ||
      !(grace.longest_s <= kMaxWaitS))
    return refuse(
        fmt::format("the grace window is {} to {} s: give 0 <= shortest <= longest <= "
                    "{:g}",
                    grace.shortest_s, grace.longest_s, kMaxWaitS));
  if (options.max_rounds_late > kMaxRoundsLate)
    return refuse(
        fmt::format("max_rounds_late is {}: at most {}", options.max_rounds_late, kMaxRoundsLate));
  if (!(options.late_factor >= 0 && options.late_factor <= 1))
    return refuse(fmt::format("late_factor is {}: give 0 to 1", options.late_factor));
  return {};
}

Round::Round(const RoundOptions& options, std::uint64_t first)
    : options_(options), number_(first) {}

std::optional<std::uint32_t> Round::join(WorkerId worker, const Seat& seat) {
  const std::optional<std::uint32_t> slot = membership_.join(worker, seat);
  if (!slot || is_closed_ || !listed_.empty()) return slot;
  // No contribution has come yet: the round may as well begin with it. A worker that has connected
  // again after a refusal is not awaited.
  active_.insert(worker);
  if (!fates_.find({worker, number_})) missing_.insert(worker);
  return slot;
}

void Round::leave(WorkerId worker) {
  if (!membership_.leave(worker)) return;
  missing_.erase(worker);
  tail_.awaited.erase(worker);
  close_if_over();
}

// --- contributions ---

std::optional<Answer> Round::find(const ContributionId& id) const {
  if (const auto note = fates_.find(id)) return known(id, *note);
  if (id.round + kMaxRoundsLate < number_)
    return Answer{Answer::Kind::kForgotten, id.round, false, {}};
  if (id.round > number_) return Answer{Answer::Kind::kEarly, number_, false, {}};
  return std::nullopt;
}

Answer Round::offer(const Contribution& given, double now) {
  if (std::optional<Answer> before = find(given.id)) return std::move(*before);
  if (std::string reason = why_refused(given); !reason.empty()) {
    fates_.note(given.id, {Fate::kRefused, number_});
    reasons_[given.id] = reason;
    note_refused(given.id, now);
    return {Answer::Kind::kRefused, number_, false, std::move(reason)};
  }
  learn_grace(given.id, now);
  const std::uint64_t in_round = number_ + (is_closed_ ? 1 : 0);
  fates_.note(given.id, {Fate::kListed, in_round});  // first: withdraw() undoes all that follows
  const Listed listed = list(given, now);
  close_if_full();
  return {Answer::Kind::kListed, in_round, true, {}, listed};
}

// Its worker is awaited no more: it contributes to the next round.
void Round::note_refused(const ContributionId& id, double now) {
  if (is_closed_ || id.round != number_) return;
  missing_.erase(id.worker);
  has_refused_ = true;
  if (deadline_ == kNever) deadline_ = now + options_.deadline_s;
  close_if_over();
}

Answer Round::known(const ContributionId& id, const FateNote& note) const {
  switch (note.fate) {
    case Fate::kListed:
      return {Answer::Kind::kListed, note.in_round, false, {}};
    case Fate::kCommitted:
      return {Answer::Kind::kCommitted, note.in_round, false, {}};
    case Fate::kRefused:
      break;
  }
  const auto reason = reasons_.find(id);
  return {Answer::Kind::kRefused, note.in_round, false,
          reason == reasons_.end() ? std::string() : reason->second};
}

// Empty: it is not refused.
std::string Round::why_refused(const Contribution& given) const {
  if (!given.fault.empty()) return given.fault;
  if (!(given.weight >= 0 && given.weight <= std::numeric_limits<float>::max()))
    return fmt::format("its weight is {}: a weight is a number from 0 to 3.4e38", given.weight);
  const std::uint64_t rounds_late = number_ + (is_closed_ ? 1 : 0) - given.id.round;
  if (rounds_late > options_.max_rounds_late)
    return fmt::format("it is {} rounds late, at most {} are allowed", rounds_late,
                       options_.max_rounds_late);
  const auto member = membership_.slot_of(given.id.worker);
  if (member && rounds_late == 0 && *member != given.slot)
    return fmt::format("it names slot {}, but its worker has slot {}", given.slot, *member);
  if (!member && rounds_late == 0) return fmt::format("worker {} has not joined", given.id.worker);
  const auto has_slot = [&](const auto& each) { return each.second.contains(given.slot); };
  if (std::ranges::count_if(listed_, has_slot) >= kMaxInRound)
    return fmt::format("its worker has {} contributions in this round already", kMaxInRound);
  const auto late = listed_.find(rounds_late);
  if (late == listed_.end() || !late->second.contains(given.slot)) return {};
  const std::string whose = given.slot < kNumberedSlots
                                ? "its slot"
                                : fmt::format("number {}", given.slot - kNumberedSlots + 1);
  return fmt::format("a worker with {} has contributed to round {} already: it counts once a round",
                     whose, given.id.round);
}

Listed Round::list(const Contribution& given, double now) {
  const std::uint64_t in_round = number_ + (is_closed_ ? 1 : 0);
  const std::uint64_t rounds_late = in_round - given.id.round;
  const double weight = given.weight * late_product(options_.late_factor, rounds_late);
  const Listed listed{given.id, given.slot, rounds_late, static_cast<float>(weight)};
  listed_[rounds_late][given.slot] = listed;
  if (deadline_ == kNever) deadline_ = now + options_.deadline_s;
  if (rounds_late > 0 && options_.mode != RoundMode::kAsynchronous) return listed;
  ++on_time_;
  missing_.erase(given.id.worker);
  if (options_.mode == RoundMode::kQuorum && on_time_ == options_.quorum) note_quorum(now);
  return listed;
}

void Round::withdraw(const ContributionId& id) {
  const std::optional<FateNote> note = fates_.find(id);
  if (!note || note->fate != Fate::kListed) return;
  fates_.erase(id);
  if (is_closed_ && note->in_round == number_)
    withdraw_closed(id);
  else
    withdraw_open(id, note->in_round);
}

void Round::withdraw_closed(const ContributionId& id) {
  std::erase_if(closing_.listed, [&](const Listed& each) { return each.id == id; });
  const auto counts = [&](const Listed& each) { return each.rounds_late == 0; };
  const auto on_time = std::ranges::count_if(closing_.listed, counts);
  closing_.is_short =
      closing_.is_short || closing_.listed.empty() ||
      (options_.mode == RoundMode::kQuorum && on_time > 0 && on_time < options_.quorum);
}

void Round::withdraw_open(const ContributionId& id, std::uint64_t in_round) {
  const auto slots = listed_.find(in_round - id.round);
  if (slots == listed_.end()) return;
  const std::size_t erased =
      std::erase_if(slots->second, [&](const auto& each) { return each.second.id == id; });
  if (slots->second.empty()) listed_.erase(slots);
  if (erased == 0) return;
  if (listed_.empty() && !has_refused_) deadline_ = kNever;
  if (in_round != id.round && options_.mode != RoundMode::kAsynchronous) return;
  --on_time_;
  if (options_.mode == RoundMode::kQuorum && on_time_ < options_.quorum) grace_ends_ = kNever;
  if (membership_.slot_of(id.worker)) missing_.insert(id.worker);
  close_if_over();
}

// --- grace ---

double Round::grace_s() const {
  // Heuristic: a quarter more than usual, as arrivals spread.
  const double wanted = usual_tail_s_ < 0 ? options_.grace.longest_s : 1.25 * usual_tail_s_;
  return std::clamp(wanted, options_.grace.shortest_s, options_.grace.longest_s);
}

void Round::note_quorum(double now) {
  grace_ends_ = now + grace_s();
  tail_ = {number_, now, missing_};
}

// How long after its quorum the last awaited contribution of a round came, also if it came too
// late for it.
void Round::learn_grace(const ContributionId& id, double now) {
  if (tail_.quorum_at == kNever || id.round != tail_.round) return;
  if (tail_.awaited.erase(id.worker) == 0 || !tail_.awaited.empty()) return;
  const double tail = now - tail_.quorum_at;
  usual_tail_s_ = usual_tail_s_ < 0 ? tail : 0.75 * usual_tail_s_ + 0.25 * tail;
}

// --- time ---

void Round::advance(double now) {
  if (is_closed_ || now < wakes_at()) return;
  if (now >= grace_ends_) return close(false);
  const bool is_short =
      listed_.empty() ||  // all that came was refused
      (options_.mode == RoundMode::kQuorum && on_time_ > 0 && on_time_ < options_.quorum);
  if (options_.mode != RoundMode::kSynchronous) return close(is_short);
  std::vector<WorkerId> expelled(missing_.begin(), missing_.end());
  close(is_short);
  closing_.expelled = std::move(expelled);
  for (const WorkerId worker : closing_.expelled) membership_.leave(worker);
  missing_.clear();
}

double Round::wakes_at() const { return is_closed_ ? kNever : std::min(deadline_, grace_ends_); }

// --- the end of a round ---

bool Round::is_full() const {
  if (options_.mode == RoundMode::kAsynchronous) return on_time_ >= options_.quorum;
  if (listed_.empty() || !missing_.empty()) return false;
  if (on_time_ == 0) return true;  // nobody is awaited: late ones end the round
  return options_.mode == RoundMode::kSynchronous || on_time_ >= options_.quorum;
}

void Round::close_if_full() {
  if (!is_closed_ && is_full()) close(false);
}

// Also closes a round in which all contributions were refused and no worker is awaited.
void Round::close_if_over() {
  close_if_full();
  if (!is_closed_ && missing_.empty() && listed_.empty() && has_refused_) close(true);
}

void Round::close(bool is_short) {
  closing_.listed.clear();
  for (const auto& [rounds_late, slots] : listed_) {
    for (const auto& [slot, listed] : slots) closing_.listed.push_back(listed);
  }
  is_closed_ = true;  // from here on no memory is needed
  has_refused_ = false;
  closing_.round = number_;
  closing_.active = static_cast<std::uint32_t>(active_.size());
  closing_.is_short = is_short;
  listed_.clear();
  on_time_ = 0;
  deadline_ = grace_ends_ = kNever;
}

void Round::committed() {
  for (const Listed& each : closing_.listed) fates_.note(each.id, {Fate::kCommitted, number_});
  begin(number_ + 1);
}

void Round::failed(const std::string& reason) {
  for (const Listed& each : closing_.listed) {
    fates_.note(each.id, {Fate::kRefused, number_});
    reasons_[each.id] = reason;
  }
  begin(number_ + 1);
}

void Round::begin(std::uint64_t number) {
  number_ = number;
  is_closed_ = false;
  closing_ = {};
  membership_.end_round();
  const std::vector<WorkerId> members = membership_.members();
  missing_ = {members.begin(), members.end()};
  active_ = missing_;
  if (number_ > kMaxRoundsLate) {
    const std::uint64_t oldest = number_ - kMaxRoundsLate;
    fates_.forget_before(oldest);
    std::erase_if(reasons_, [&](const auto& each) { return each.first.round < oldest; });
  }
  close_if_full();  // asynchronous: enough may have come while the last round was closed
}

}  // namespace sparcl::aggregate
