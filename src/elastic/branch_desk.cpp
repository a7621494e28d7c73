#include "src/elastic/branch_desk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/base/log.hpp"

namespace sparcl::elastic {

using aggregate::Answer;
using aggregate::ContributionId;
using replication::MessageLink;
using replication::MessageType;

namespace {

constexpr std::size_t kMaxCollected = std::size_t{1} << 20;  // spans of a round; clips
constexpr std::size_t kMaxWanted = 8;                        // rounds whose sums are asked for

}  // namespace

Result<std::unique_ptr<BranchDesk>> BranchDesk::create(const kernels::KernelSet& kernels,
                                                       DeskOptions options, UplinkOptions above,
                                                       replication::Listener listener) {
  std::unique_ptr<BranchDesk> made(new BranchDesk(kernels, std::move(options)));
  above.enroll = {kWorkerProtocol,
                  made->options_.model_id,
                  made->options_.schema_hash,
                  0,
                  replication::to_ms(made->options_.silence_s),
                  made->name_,
                  true,
                  0};
  above.silence_s = made->options_.silence_s;
  SPARCL_ASSIGN_OR_RETURN(made->uplink_, Uplink::create(std::move(above), *made));
  SPARCL_RETURN_IF_ERROR(made->start(std::move(listener)));
  SPARCL_RETURN_IF_ERROR(made->uplink_->start());
  return made;
}

BranchDesk::BranchDesk(const kernels::KernelSet& kernels, DeskOptions options)
    : ContributionDesk(kernels, std::move(options)) {}

BranchDesk::~BranchDesk() {
  if (uplink_ != nullptr) uplink_->stop();
  stop();
}

// --- the owner's thread ---

BranchDesk::Turn BranchDesk::wait(double seconds) {
  Lock lock(mutex_);
  (void)changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                          [&] { return !arrivals_.empty() || !wanted_.empty(); });
  Turn turn{life_, rules_.round, rules_.sums_weights, rules_.sums_at_once, take_arrivals(), {}, {}};
  if (!wanted_.empty()) {
    turn.collect = std::move(wanted_.front().collect);
    turn.listed = std::move(wanted_.front().listed);
    wanted_.pop_front();
  }
  return turn;
}

std::vector<BranchSum> BranchDesk::collect_sums(std::uint64_t life, const Collect& wanted) {
  Lock lock(mutex_);
  if (life != life_) return {};
  return collect(lock, wanted.round, &wanted.spans, wanted.clips,
                 std::min(wanted.wait_s, options_.round.deadline_s));
}

void BranchDesk::end() {
  uplink_->stop();
  stop();
}

void BranchDesk::deliver(std::uint64_t life, std::uint64_t round, std::vector<BranchSum> sums) {
  const std::lock_guard lock(mutex_);
  if (life != life_ || !is_connected_) return;
  book_.forget_round(round);  // from now on its contributions are the parent's
  for (BranchSum& each : sums)
    outbox_.push_back({MessageType::kSubtree, serialise(each.told), round, std::move(each.part)});
  say(MessageType::kCollected, Collected{round});
}

// --- the desk's thread ---

Status BranchDesk::check_open() const {
  if (is_connected_) return {};
  const Status why = uplink_->trouble();
  return Status(Code::kRemoteError, fmt::format("this branch has no connection to its parent{}{}",
                                                why.ok() ? "" : ": ", why.message()));
}

Enrolled BranchDesk::enrolled() const {
  Enrolled told = rules_;
  told.silence_ms = replication::to_ms(options_.silence_s);
  told.name = name_;
  return told;
}

// Which workers are contributors the root knows alone. But of one that takes part here a branch
// below must not take the place: that needs a newer JOIN by one of its keys.
Status BranchDesk::check_member(const Member& member) const {
  const auto known = members_.find(member.worker);
  if (known == members_.end() || known->second.said.signatures.empty()) return {};
  const Join& last = known->second.said;
  const bool is_same = known->second.peer == member.peer && member.said.count == last.count;
  const bool is_newer =
      member.said.count > last.count &&
      is_signed_alike({rules_.nonce, options_.model_id, options_.schema_hash, member.worker},
                      member.seat.number, member.said, last);
  return is_same || is_newer
             ? Status()
             : Status(Code::kRemoteError, "it takes part by a newer JOIN already: connect again");
}

Status BranchDesk::join(const Member& member) {
  say(MessageType::kMember, MemberTold{member.worker, MemberTold::State::kAwaited, member.seat,
                                       member.name, member.said});
  return {};
}

void BranchDesk::leave(const Member& member, bool is_gone) {
  if (!is_connected_) return;
  const auto state = is_gone ? MemberTold::State::kGone : MemberTold::State::kResting;
  say(MessageType::kMember, MemberTold{member.worker, state, member.seat, member.name});
}

// A contribution that waits for its verdict is not taken a second time.
std::optional<FateTold> BranchDesk::find(const ContributionId& id) const {
  if (parked_.contains(id)) return FateTold{id.round, Answer::Kind::kEarly, rules_.round, {}};
  const std::optional<BranchBook::Where> where = book_.find(id);
  if (!where) return std::nullopt;
  return FateTold{id.round, Answer::Kind::kListed, where->round, {}};
}

void BranchDesk::take(Given given) {
  const ContributionId id = given.id();
  if (const std::optional<FateTold> known = find(id))
    return answer(given, Verdict{id.worker, false, 0, 1, 1, *known});
  say(MessageType::kGiven, GivenTold{given.worker, given.facts, given.entries, given.offered});
  const std::size_t bytes = given.part.size();
  parked_.emplace(id, std::move(given));  // if memory runs out here, the verdict withdraws it
  held_bytes_ += bytes;
}

void BranchDesk::withdraw(const ContributionId& id) {
  if (is_connected_) say(MessageType::kWithdrawn, Withdrawn{id});
}

bool BranchDesk::has_come(const Member& member) const {
  const ContributionId id{member.worker, rules_.round};
  return parked_.contains(id) || book_.find(id).has_value();
}

void BranchDesk::turned(double /*now*/) {
  if (!arrivals_.empty() || !wanted_.empty()) changed_.notify_all();
}

replication::ReportFields BranchDesk::report() const {
  const Status why = uplink_->trouble();
  return {{"aggregator", name_},
          {"model_id", options_.model_id},
          {"address", address_},
          {"results", rules_.results},
          {"round", rules_.round},
          {"listed", book_.listed(rules_.round).size()},
          {"committed", counts_.committed},
          {"late", counts_.late},
          {"refused", counts_.refused},
          {"parent", is_connected_ ? rules_.name : ""},
          {"trouble", is_connected_ ? "" : why.message()}};
}

// --- the thread of the connection to the parent ---

void BranchDesk::connected(const Enrolled& enrolled, const std::string& results) {
  const std::lock_guard lock(mutex_);
  begin_anew();
  drop_all(
      Status(Code::kRemoteError, "the branch has connected to its parent again: connect again"));
  is_connected_ = true;
  rules_ = enrolled;
  rules_.results = results;
}

void BranchDesk::opened(std::uint64_t round) {
  const std::lock_guard lock(mutex_);
  note_open(round);
}

// Entries of rounds that have ended are not kept. The parent answers if such a contribution is
// offered again.
void BranchDesk::note_open(std::uint64_t round) {
  rules_.round = std::max(rules_.round, round);
  book_.forget_before(rules_.round);
}

void BranchDesk::speak(MessageLink& link) {
  const std::lock_guard lock(mutex_);
  for (const Said& each : outbox_) {
    link.queue(each.type, std::span<const std::byte>(each.content));
    for (std::uint64_t at = 0; at < each.bytes.size(); at += replication::kMaxChunkBytes)
      link.queue_chunk({each.round, at},
                       each.bytes.slice(at, std::min<std::uint64_t>(replication::kMaxChunkBytes,
                                                                    each.bytes.size() - at)));
  }
  outbox_.clear();
}

Status BranchDesk::hear(MessageLink& link) {
  const std::lock_guard lock(mutex_);
  wake_.wake();  // what follows for the workers leaves in the desk's thread
  switch (link.type()) {
    case MessageType::kTurnedAway:
      return take_turned_away(link.content());
    case MessageType::kVerdict:
      return take_verdict(link.content());
    case MessageType::kCollect:
      return take_collect(link.content());
    default:
      return replication::out_of_place(link.type());
  }
}

void BranchDesk::lost(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (!is_connected_) return;
  begin_anew();
  drop_all(
      Status(Code::kRemoteError, fmt::format("the branch has lost its parent: {}", why.message())));
  changed_.notify_all();
}

// Forgets the state of the last connection.
void BranchDesk::begin_anew() {
  is_connected_ = false;
  ++life_;
  for (const auto& [id, given] : parked_) held_bytes_ -= given.part.size();
  parked_.clear();
  (void)take_arrivals();
  book_.clear();
  outbox_.clear();
  coming_ = {};
  wanted_.clear();
  changed_.notify_all();
}

void BranchDesk::unpark(const ContributionId& id) {
  const auto parked = parked_.find(id);
  if (parked == parked_.end()) return;
  held_bytes_ -= parked->second.part.size();
  parked_.erase(parked);
}

Status BranchDesk::take_turned_away(std::span<const std::byte> content) {
  SPARCL_ASSIGN_OR_RETURN(const TurnedAway away, parse_turned_away(content));
  const Status why(away.code, away.text);
  if (away.code != Code::kRemoteError)  // else it connects again
    note_refusal(fmt::format("worker {}", shown_worker(away.worker)), why);
  while (true) {
    const auto parked = parked_.lower_bound({away.worker, 0});
    if (parked == parked_.end() || parked->first.worker != away.worker) break;
    unpark(parked->first);
  }
  if (!members_.contains(away.worker)) return {};
  turn_away(away.worker, why);
  // If it has come back meanwhile, the parent awaits it.
  say(MessageType::kMember, MemberTold{away.worker, MemberTold::State::kGone, {}, {}});
  return {};
}

Status BranchDesk::take_verdict(std::span<const std::byte> content) {
  SPARCL_ASSIGN_OR_RETURN(const Verdict verdict, parse_verdict(content));
  const ContributionId id{verdict.worker, verdict.fate.round};
  const auto parked = parked_.find(id);
  if (verdict.is_new) {
    if (parked == parked_.end()) {  // its worker was turned away meanwhile
      withdraw(id);
      return {};
    }
    note_open(verdict.fate.in_round - 1);  // it is open, or has just ended
    SPARCL_RETURN_IF_ERROR(list(parked->second, verdict));
    parked_.erase(parked);
    return {};
  }
  note_end(id, verdict.fate, parked != parked_.end());
  if (parked == parked_.end()) {
    tell(verdict.worker, verdict.fate);
    return {};
  }
  const Given given = std::move(parked->second);
  held_bytes_ -= given.part.size();
  parked_.erase(parked);
  answer(given, verdict);
  return {};
}

// Committed and refused ones need no entries any more. is_offered: it was offered just now, and one
// that is committed had been before.
void BranchDesk::note_end(const ContributionId& id, const FateTold& fate, bool is_offered) {
  if (fate.kind != Answer::Kind::kCommitted && fate.kind != Answer::Kind::kRefused) return;
  book_.forget(id);
  note_open(fate.in_round);
  const bool is_committed = fate.kind == Answer::Kind::kCommitted;
  if (is_committed && is_offered) return;
  ++(is_committed ? counts_.committed : counts_.refused);
  counts_.late += is_committed && fate.in_round > id.round ? 1 : 0;
}

// Its part is counted as held until the owner takes it. Memory that runs out leaves it parked, and
// ends the connection.
Status BranchDesk::list(Given& given, const Verdict& verdict) {
  if (given.branch != kNoBranch && branch(given.branch) == nullptr) {
    withdraw(given.id());
    return {};
  }
  const aggregate::Listed listed{given.id(), verdict.slot,
                                 verdict.fate.in_round - verdict.fate.round, verdict.weight};
  if (book_.is_taken(listed))
    return corrupt(fmt::format("slot {} of round {} is given to two contributions", listed.slot,
                               verdict.fate.in_round));
  answer(given, verdict);
  book_.note(listed, given.branch);
  Arrival& arrival = arrivals_.emplace_back();
  arrival = {listed,
             given.facts,
             verdict.clip,
             std::move(given.part),
             value_type(given.offered),
             given.bytes_here()};
  changed_.notify_all();
  return {};
}

Status BranchDesk::take_collect(std::span<const std::byte> content) {
  SPARCL_ASSIGN_OR_RETURN(Collect piece, parse_collect(content));
  if (coming_.round != piece.round) coming_ = {piece.round, true, true, 0, {}, {}};
  coming_.is_wanted = piece.is_wanted;
  coming_.wait_s = piece.wait_s;
  if (coming_.spans.size() > kMaxCollected || coming_.clips.size() > kMaxCollected)
    return corrupt(
        fmt::format("the sums of round {} are asked for in too many pieces", piece.round));
  std::ranges::copy(piece.spans, std::back_inserter(coming_.spans));
  std::ranges::copy(piece.clips, std::back_inserter(coming_.clips));
  if (!piece.is_last) return {};
  if (wanted_.size() >= kMaxWanted)
    return corrupt(fmt::format("the sums of {} rounds are asked for at once", wanted_.size() + 1));
  wanted_.push_back({std::exchange(coming_, {}), book_.listed(piece.round)});
  if (!piece.is_wanted) discard(piece.round);
  changed_.notify_all();
  return {};
}

}  // namespace sparcl::elastic
