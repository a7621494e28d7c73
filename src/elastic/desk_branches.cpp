// Messages between a desk and its branches.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/base/log.hpp"
#include "src/elastic/contribution_desk.hpp"

namespace sparcl::elastic {

using replication::MessageType;

WorkerPeer* ContributionDesk::branch(BranchId id) {
  const auto found = std::ranges::find_if(
      peers_, [&](const auto& peer) { return peer->branch == id && !peer->is_over(); });
  return found == peers_.end() ? nullptr : found->get();
}

Status ContributionDesk::handle_branch(WorkerPeer& peer, MessageType type, double now) {
  switch (type) {
    case MessageType::kMember:
      return take_member(peer);
    case MessageType::kGiven:
      return take_given(peer);
    case MessageType::kSubtree:
      return take_subtree(peer, now);
    case MessageType::kChunk:
      return take_subtree_bytes(peer, now);
    case MessageType::kCollected:
      return take_collected(peer);
    case MessageType::kWithdrawn:
      return take_withdrawn(peer);
    default:
      return replication::out_of_place(type);
  }
}

// --- whom branches have ---

Status ContributionDesk::take_member(WorkerPeer& peer) {
  SPARCL_ASSIGN_OR_RETURN(MemberTold told, parse_member(peer.content()));
  if (told.state == MemberTold::State::kAwaited) {
    const std::uint64_t path[] = {peer.branch, told.seat.group};
    told.seat.group = xxh3_64(std::as_bytes(std::span(path)));
    const Status added =
        add_member({told.worker, told.seat, std::move(told.name), &peer, std::move(told.join)});
    if (added.ok()) return {};
    note_refusal(fmt::format("{}, behind {},", shown_worker(told.worker), peer.who()), added);
    if (const Member* const before = member_of(peer, told.worker); before != nullptr) {
      leave(*before, true);
      members_.erase(told.worker);
    }
    peer.send(MessageType::kTurnedAway, TurnedAway{told.worker, added.code(), added.message()});
    return {};
  }
  if (told.state == MemberTold::State::kResting) {
    rest(peer, told.worker);
  } else if (member_of(peer, told.worker) != nullptr) {
    const Member member = std::move(members_.extract(told.worker).mapped());
    leave(member, true);
  }
  return {};
}

// --- what branches have ---

Status ContributionDesk::take_given(WorkerPeer& peer) {
  SPARCL_ASSIGN_OR_RETURN(GivenTold told, parse_given(peer.content()));
  if (told.entries > options_.count)
    return corrupt(fmt::format("a contribution has {} entries, and the model {} elements",
                               told.entries, options_.count));
  Member* const member = member_of(peer, told.worker);
  if (member == nullptr) return {};  // its worker is elsewhere, as the branch has been told
  if (const Status checked = check_offer(told.worker, told.offered); !checked.ok()) {
    note_refusal(fmt::format("{}, behind {},", shown_worker(told.worker), peer.who()), checked);
    expel(told.worker, checked);
    return {};
  }
  if (!std::exchange(member->is_awaited, true)) {
    if (const Status joined = join(*member); !joined.ok()) {
      turn_away(told.worker, joined);
      return {};
    }
  }
  take({told.worker, std::move(told.offered), told.facts, told.entries, {}, peer.branch});
  return {};
}

Status ContributionDesk::take_subtree(WorkerPeer& peer, double now) {
  SPARCL_ASSIGN_OR_RETURN(const SubtreeTold told, parse_subtree(peer.content()));
  if (!peer.asked || peer.asked->is_over || told.round != peer.asked->round || peer.incoming)
    return corrupt(fmt::format("a sum of round {} is not wanted now", told.round));
  const bool is_asked = std::ranges::any_of(peer.asked->spans, [&](const Collect::Span& span) {
    return span.rounds_late == told.rounds_late && span.slots.holds(told.subtree);
  });
  // A branch sends at most as many sums as it has contributions, and none over those of others.
  const bool has_some = book_.has_some(told.round, peer.branch, told.rounds_late, told.subtree);
  const std::uint64_t most = max_contribution_bytes(options_.run, options_.count);
  if (!is_asked || !has_some || told.bytes == 0 || told.bytes > most ||
      (told.is_of_weights && !enrolled().sums_weights))
    return corrupt(fmt::format("a sum of slots {} to {} with {} bytes was not asked for",
                               told.subtree.first, told.subtree.end() - 1, told.bytes));
  const bool is_double = std::ranges::any_of(peer.asked->sums, [&](const BranchSum& sum) {
    return sum.told.is_of_weights == told.is_of_weights &&
           sum.told.rounds_late == told.rounds_late &&
           sum.told.subtree.first < told.subtree.end() &&
           told.subtree.first < sum.told.subtree.end();
  });
  if (is_double)
    return corrupt(fmt::format("a sum of slots {} to {} has come already", told.subtree.first,
                               told.subtree.end() - 1));
  peer.asked->coming = told;
  Incoming& coming = peer.incoming.emplace();
  coming.offered.round = told.round;
  coming.offered.bytes = told.bytes;
  coming.offered.digest = told.digest;
  peer.begin_incoming(now);
  return {};
}

Status ContributionDesk::take_subtree_bytes(WorkerPeer& peer, double now) {
  if (!peer.incoming) return corrupt("bytes of a sum came that was not named");
  SPARCL_ASSIGN_OR_RETURN(Buffer part, take_part(peer, now));
  const bool is_there = part.size() > 0;
  if (is_there && peer.asked) peer.asked->sums.push_back({peer.asked->coming, std::move(part)});
  return {};
}

Status ContributionDesk::take_collected(WorkerPeer& peer) {
  SPARCL_ASSIGN_OR_RETURN(const Collected told, parse_collected(peer.content()));
  if (peer.asked && told.round < peer.asked->round) return {};  // its round has ended without it
  if (!peer.asked || peer.asked->is_over || told.round != peer.asked->round || peer.incoming)
    return corrupt(fmt::format("the end of the sums of round {} is not awaited", told.round));
  if (!has_all_sums(peer))
    return corrupt(fmt::format(
        "the sums of round {} are over, but contributions of this branch are in none of "
        "them",
        told.round));
  peer.asked->is_over = true;
  changed_.notify_all();
  return {};
}

bool ContributionDesk::has_all_sums(const WorkerPeer& peer) const {
  const auto has = [&](const BranchBook::Place& place, bool is_of_weights) {
    return std::ranges::any_of(peer.asked->sums, [&](const BranchSum& sum) {
      const aggregate::Subtree& subtree = sum.told.subtree;
      return sum.told.is_of_weights == is_of_weights && sum.told.rounds_late == place.first &&
             subtree.first <= place.second && place.second < subtree.end();
    });
  };
  const bool needs_weights = enrolled().sums_weights;
  return std::ranges::all_of(book_.places_of(peer.asked->round, peer.branch),
                             [&](const BranchBook::Place& place) {
                               return has(place, false) && (!needs_weights || has(place, true));
                             });
}

Status ContributionDesk::take_withdrawn(WorkerPeer& peer) {
  SPARCL_ASSIGN_OR_RETURN(const Withdrawn told, parse_withdrawn(peer.content()));
  const std::optional<BranchBook::Where> where = book_.find(told.id);
  if (!where || where->branch != peer.branch) return {};
  if (peer.asked && peer.asked->round == where->round &&
      (peer.incoming || !peer.asked->sums.empty()))
    return corrupt(
        fmt::format("a contribution to round {} is withdrawn among its sums", where->round));
  take_back(where->listed);
  call_back(told.id.worker, peer.branch);
  return {};
}

// All contributions first: a round must not end with some of them.
void ContributionDesk::lose(BranchId branch) {
  const std::vector<aggregate::Listed> lost = book_.all_of(branch);
  for (const aggregate::Listed& each : lost) take_back(each);
  for (const aggregate::Listed& each : lost) call_back(each.id.worker, branch);
  changed_.notify_all();
}

void ContributionDesk::take_back(const aggregate::Listed& lost) {
  withdraw(lost.id);
  book_.forget(lost);
}

// If the worker is connected elsewhere, it does not know that a contribution is lost. It offers all
// that it keeps again over its next connection.
void ContributionDesk::call_back(aggregate::WorkerId worker, BranchId branch) {
  const auto member = members_.find(worker);
  if (member != members_.end() && member->second.peer->branch != branch)
    expel(worker, Status(Code::kRemoteError, "a branch has lost its contribution: connect again"));
}

// --- sums of branches ---

std::vector<BranchSum> ContributionDesk::collect(Lock& lock, std::uint64_t round,
                                                 const std::vector<Collect::Span>* outer,
                                                 std::span<const Collect::Clip> clips,
                                                 double wait_s) {
  for (const BranchId id : book_.branches_of(round)) {
    WorkerPeer* const peer = branch(id);
    if (peer == nullptr) continue;  // its end comes with the thread's next turn
    if (peer->incoming) {
      peer->drop(corrupt("a sum of an earlier round is not whole yet"));
      continue;
    }
    peer->asked.emplace();
    peer->asked->round = round;
    peer->asked->spans =
        outer == nullptr ? book_.spans_of(round, id) : book_.spans_of(round, id, *outer);
    ask_for_sums(*peer, round, clips, wait_s);
  }
  wake_.wake();
  const std::uint64_t life = life_;
  const auto is_done = [&] {
    return life != life_ || book_.branches_of(round).empty() || !is_collecting(round);
  };
  (void)changed_.wait_for(lock, std::chrono::duration<double>(wait_s), is_done);
  std::vector<BranchSum> sums;
  if (life != life_) return sums;  // all is void, and the branches are other ones
  for (const BranchId id : book_.branches_of(round)) {
    WorkerPeer* const peer = branch(id);
    if (peer == nullptr || !peer->asked || !peer->asked->is_over) {
      if (peer != nullptr)
        peer->drop(Status(
            Code::kTimeout,
            fmt::format("it has not sent its sums of round {} within {:g} s", round, wait_s)));
      lose(id);
      continue;
    }
    for (BranchSum& each : peer->asked->sums) sums.push_back(std::move(each));
    peer->asked.reset();
    book_.delivered(round, id);
  }
  return sums;
}

// Some of the branches that have entries of the round have not sent their sums.
bool ContributionDesk::is_collecting(std::uint64_t round) {
  return std::ranges::any_of(book_.branches_of(round), [&](BranchId id) {
    const WorkerPeer* const peer = branch(id);
    return peer == nullptr || !peer->asked || !peer->asked->is_over;
  });
}

// The branch waits for its own branches somewhat shorter than this desk waits for it.
void ContributionDesk::ask_for_sums(WorkerPeer& peer, std::uint64_t round,
                                    std::span<const Collect::Clip> clips, double wait_s) {
  constexpr double kShare = 0.8;
  const std::vector<Collect::Span>& spans = peer.asked->spans;
  const auto some = [](const auto& all, std::size_t from) {
    using Item = typename std::decay_t<decltype(all)>::value_type;
    const std::size_t begin = std::min(from, all.size());
    const std::size_t end = std::min(from + kMaxCollectItems, all.size());
    return std::vector<std::remove_const_t<Item>>(all.begin() + begin, all.begin() + end);
  };
  const std::size_t items = std::max<std::size_t>({spans.size(), clips.size(), 1});
  for (std::size_t from = 0; from < items; from += kMaxCollectItems)
    peer.send(MessageType::kCollect,
              Collect{round, true, from + kMaxCollectItems >= items, kShare * wait_s,
                      some(spans, from), some(clips, from)});
}

void ContributionDesk::discard(std::uint64_t round) {
  for (const BranchId id : book_.branches_of(round)) {
    WorkerPeer* const peer = branch(id);
    if (peer != nullptr) peer->send(MessageType::kCollect, Collect{round, false, true, 0, {}, {}});
  }
  book_.forget_round(round);
  wake_.wake();
}

}  // namespace sparcl::elastic
