#include "src/elastic/root_desk.hpp"

#include <fmt/format.h>

#include <chrono>
#include <new>
#include <utility>

#include "src/base/log.hpp"
#include "src/trust/keyed_hash.hpp"

namespace sparcl::elastic {

using aggregate::Answer;

namespace {

Status no_slot(const aggregate::Seat& seat) {
  if (seat.number == 0)
    return Status(Code::kRemoteError,
                  "all slots for workers without a number are taken in this round: connect again "
                  "in the next");
  return Status(
      Code::kInvalidUsage,
      fmt::format("another worker has number {}: give each worker its own number", seat.number));
}

}  // namespace

Result<std::unique_ptr<RootDesk>> RootDesk::create(const kernels::KernelSet& kernels,
                                                   DeskOptions options,
                                                   replication::Listener listener,
                                                   std::span<const Remembered> past) {
  std::unique_ptr<RootDesk> made(new RootDesk(kernels, std::move(options)));
  SPARCL_RETURN_IF_ERROR(trust::fill_random(made->nonce_));
  for (const Remembered& each : past) made->round_.remember(each.id, each.in_round);
  SPARCL_RETURN_IF_ERROR(made->start(std::move(listener)));
  return made;
}

RootDesk::RootDesk(const kernels::KernelSet& kernels, DeskOptions options)
    : ContributionDesk(kernels, std::move(options)),
      contributors_(options_.contributors),
      round_(options_.round, options_.first_round) {}

// --- the owner's thread ---

RootDesk::Turn RootDesk::wait(double seconds) {
  Lock lock(mutex_);
  const auto is_new = [&] {
    return !arrivals_.empty() || (round_.is_closed() && told_closing_ != round_.number());
  };
  (void)changed_.wait_for(lock, std::chrono::duration<double>(seconds), is_new);
  Turn turn{take_arrivals(), round_.is_closed(), {}};
  if (turn.is_closed) {
    turn.closing = round_.closing();
    told_closing_ = round_.number();
  }
  return turn;
}

RootDesk::Sums RootDesk::collect_sums(std::span<const Collect::Clip> clips) {
  Lock lock(mutex_);
  std::vector<BranchSum> sums =
      collect(lock, round_.number(), nullptr, clips, options_.round.deadline_s);
  return {std::move(sums), round_.closing()};
}

void RootDesk::committed() {
  const std::lock_guard lock(mutex_);
  const aggregate::Closing closing = round_.closing();
  round_.committed();
  counts_.committed += closing.listed.size();
  for (const aggregate::Listed& each : closing.listed) counts_.late += each.rounds_late > 0 ? 1 : 0;
  tell_closing(closing, {Answer::Kind::kCommitted, closing.round, false, {}, {}});
}

void RootDesk::failed(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  const aggregate::Closing closing = round_.closing();
  round_.failed(reason);
  counts_.refused += closing.listed.size();
  tell_closing(closing, {Answer::Kind::kRefused, closing.round, false, reason, {}});
}

void RootDesk::tell_closing(const aggregate::Closing& closing, const Answer& answer) {
  discard(closing.round);
  counts_.expelled += closing.expelled.size();
  for (const aggregate::WorkerId worker : closing.expelled)
    log_warn("aggregate: worker {} did not contribute to round {} by the deadline",
             shown_worker(worker), closing.round);
  for (const aggregate::Listed& each : closing.listed)
    tell(each.id.worker, FateTold{each.id.round, answer.kind, answer.round, answer.reason});
  // One that was awaited and is still there is awaited again.
  for (const auto& [worker, member] : members_) {
    if (member.is_awaited) (void)round_.join(worker, member.seat);
  }
  changed_.notify_all();
  wake_.wake();
}

std::uint32_t RootDesk::listed() const {
  const std::lock_guard lock(mutex_);
  return round_.listed();
}

// --- the service's thread ---

Enrolled RootDesk::enrolled() const {
  return {kWorkerProtocol,
          round_.number(),
          replication::to_ms(options_.silence_s),
          name_,
          options_.results,
          options_.sums_at_once,
          options_.sums_weights,
          nonce_};
}

// A JOIN that was heard before counts only for the member that it made: a branch says it again when
// the worker is awaited again.
Status RootDesk::check_member(const Member& member) const {
  SPARCL_RETURN_IF_ERROR(
      contributors_.check({nonce_, options_.model_id, options_.schema_hash, member.worker},
                          member.seat.number, member.said));
  const auto known = members_.find(member.worker);
  const bool is_there = known != members_.end();
  const bool is_same = is_there && known->second.peer == member.peer &&
                       known->second.said.count == member.said.count;
  // Keys that came into the list since have signed what it takes part by, too.
  const bool is_older = is_there && member.said.count <= known->second.said.count &&
                        contributors_.are_by_one_key(member.said, known->second.said);
  if (is_same || (!is_older && contributors_.is_newer(member.worker, member.said))) return {};
  return Status(Code::kRemoteError, "its JOIN is a repeated one: connect again");
}

Status RootDesk::check_offer(aggregate::WorkerId worker, const Offered& offered) const {
  return contributors_.check({nonce_, options_.model_id, options_.schema_hash, worker}, offered);
}

Status RootDesk::join(const Member& member) {
  contributors_.note(member.worker, member.said,
                     [this](aggregate::WorkerId worker) { return members_.contains(worker); });
  return round_.join(member.worker, member.seat) ? Status() : no_slot(member.seat);
}

std::optional<FateTold> RootDesk::find(const aggregate::ContributionId& id) const {
  const std::optional<Answer> known = round_.find(id);
  if (!known) return std::nullopt;
  return FateTold{id.round, known->kind, known->round, known->reason};
}

std::string RootDesk::fault_of(const Given& given) const {
  if (options_.screen.non_finite != aggregate::NonFinite::kRefuse || given.facts.not_finite == 0)
    return {};
  return fmt::format("{} of its {} values are NaN or infinite", given.facts.not_finite,
                     given.entries);
}

// If memory runs out, the contribution is not listed.
Answer RootDesk::offer(const Given& given, std::uint32_t slot, std::string fault) try {
  Answer answered =
      round_.offer({given.id(), slot, given.offered.weight, std::move(fault)}, clock_.now());
  if (answered.is_new) book_.note(answered.listed, given.branch);
  return answered;
} catch (const std::bad_alloc&) {
  if (!book_.find(given.id())) round_.withdraw(given.id());  // else it was listed before
  arrivals_.pop_back();
  throw;
}

void RootDesk::take(Given given) {
  const Member& member = members_.at(given.worker);
  const std::optional<std::uint32_t> slot = round_.join(member.worker, member.seat);
  std::string fault = fault_of(given);
  if (!slot && fault.empty()) fault = "its worker has no slot in this round";
  const bool is_known = round_.find(given.id()).has_value();
  const float clip =
      options_.sums_at_once
          ? aggregate::screen(options_.screen, std::span(&given.facts, 1)).clip.front()
          : 1;
  // It has its place before it is listed: what is listed is summed, whatever memory runs out.
  arrivals_.push_back({{},
                       given.facts,
                       clip,
                       std::move(given.part),
                       value_type(given.offered),
                       given.bytes_here()});
  const Answer answered = offer(given, slot.value_or(0), std::move(fault));
  if (answered.kind == Answer::Kind::kRefused && !is_known) ++counts_.refused;
  Verdict verdict{given.worker,
                  answered.is_new,
                  0,
                  1,
                  1,
                  {given.offered.round, answered.kind, answered.round, answered.reason}};
  if (!answered.is_new) {
    arrivals_.pop_back();
    return answer(given, verdict);
  }
  Arrival& arrival = arrivals_.back();
  arrival.listed = answered.listed;
  held_bytes_ += arrival.part.size();
  verdict.slot = arrival.listed.slot;
  verdict.weight = arrival.listed.weight;
  verdict.clip = arrival.clip;
  answer(given, verdict);
}

bool RootDesk::has_come(const Member& member) const {
  return round_.find({member.worker, round_.number()}).has_value();
}

void RootDesk::turned(double now) {
  round_.advance(now);
  if (!arrivals_.empty() || round_.is_closed()) changed_.notify_all();
}

replication::ReportFields RootDesk::report() const {
  return {{"aggregator", name_},
          {"model_id", options_.model_id},
          {"address", address_},
          {"results", options_.results},
          {"round", round_.number()},
          {"listed", round_.listed()},
          {"committed", counts_.committed},
          {"late", counts_.late},
          {"refused", counts_.refused},
          {"expelled", counts_.expelled}};
}

}  // namespace sparcl::elastic
