// Which replica a session's replica takes its updates from, or all bytes of a version.

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "src/replication/session_machine.hpp"

namespace sparcl::replication {
namespace {

constexpr std::size_t kMaxVouches = 4;  // versions that one giver may come to hold meanwhile

FanOut::Blame blame_of(Code why) {
  switch (why) {
    case Code::kSuccess:
      return FanOut::Blame::kNobody;
    case Code::kWrongBase:  // it is too far behind for its parent
      return FanOut::Blame::kReplica;
    case Code::kTimeout:
      return FanOut::Blame::kIdleParent;
    case Code::kCorrupt:
    case Code::kUnauthorized:
      return FanOut::Blame::kFalseParent;
    default:
      return FanOut::Blame::kParent;
  }
}

}  // namespace

// The version of the anchor that the step needs, or 0. Nothing: the publisher alone has this step.
std::optional<std::uint64_t> SessionMachine::anchor_for(const UpdateStore::Step& next) const {
  const std::uint64_t newest = store().newest()->version;
  if (next.update == nullptr) return next.needs_anchor ? newest : 0;
  const Commit& commit = next.update->commit;
  if (commit.stream_bytes == 0 || next.is_composed) return {};
  if (commit.is_anchor) return commit.version;
  return commit.version == newest ? std::optional<std::uint64_t>(0) : std::nullopt;
}

Result<RelayTicket> SessionMachine::ticket_of(const SessionMachine* parent) const {
  if (parent == nullptr || !parent->serves_at() ||
      role_.has_value() != parent->relay_key().has_value())
    return Status(Code::kRemoteError, "the replica cannot be reached");
  return role_ ? new_ticket(*parent->relay_key()) : Result<RelayTicket>(RelayTicket());
}

// A replica that is at most a step behind may take that step, and those after it, from another
// replica. A replica that needs an anchor may take it from a replica that is being sent it, or that
// makes it of what it holds.
bool SessionMachine::hand_over(Serving& at, const UpdateStore::Step& next, double now) {
  if (fan_out() == nullptr || !store().newest()) return false;
  const std::optional<std::uint64_t> anchor = anchor_for(next);
  if (!anchor) return false;
  const std::optional<FanOut::Id> parent =
      fan_out()->assign_parent(id(), *anchor, now, givable(at, next));
  if (!parent) return false;
  const SessionMachine* other = context_.find_session(*parent);
  Result<RelayTicket> ticket = ticket_of(other);
  const bool is_given = fan_out()->given(id()) != 0;
  if (!ticket.ok() || (is_given && !begin_giving(at, *other, now))) {
    fan_out()->come_back(id(), FanOut::Blame::kNobody, now);
    return false;
  }
  at.needs_anchor = at.is_of_another_epoch = false;
  send(MessageType::kParent, Parent{++at.placements, other->serves_at(), other->replica(),
                                    role_ ? std::optional(*ticket) : std::nullopt, is_given});
  if (!is_given) at.stage = session_stage::HasParent{};
  const std::uint64_t before = *anchor != 0 ? *anchor - 1 : at.tip.version.version;
  announce(at, now, is_given ? other->held_version() : before);
  (void)vouch_for_giver(at);
  log_debug("replication: replica {} takes {} from {}", replica_,
            is_given ? "all bytes" : "updates", other->replica());
  return true;
}

Status SessionMachine::take_orphan(Serving& at, const Orphan& orphan, double now) {
  const bool has_parent = std::holds_alternative<session_stage::HasParent>(at.stage);
  if (!has_parent || orphan.number != at.placements) return {};  // another PARENT has crossed it
  const FanOut::Blame blame = blame_of(orphan.code);
  if (blame == FanOut::Blame::kParent) ++context_.counts->blamed;
  if (orphan.code != Code::kSuccess)
    log_info("replication: replica {} comes back: {}", replica_, orphan.text);
  note_given_by_parent();
  at.stage = session_stage::Idle{};
  at.tip = {orphan.tip, orphan.tip_is_vouched, store().knows(orphan.tip)};
  at.ahead = orphan.ahead;
  const std::optional<FanOut::Id> expelled = fan_out()->come_back(id(), blame, now);
  const SessionMachine* const parent = expelled ? context_.find_session(*expelled) : nullptr;
  if (parent == nullptr) return {};
  log_warn(
      "replication: replica {} passes nothing on any more in this connection: replica {} reports: "
      "{}",
      parent->replica(), replica_, orphan.text);
  return {};
}

// --- all bytes of what another replica holds ---

// In a replica, to a child that the publisher has sent here for that.
void SessionMachine::offer_given(Serving& at, double now) {
  const std::optional<UpdateRef> given = feed_->give ? feed_->give() : std::nullopt;
  if (!given) return end_without_path(at);
  if (*given != nullptr) offer(at, *given, now);
}

// Versions that the chain leads on from, if a replica may give all bytes of them to this one: it
// has nothing that a wrong gift would cost.
std::vector<std::uint64_t> SessionMachine::givable(const Serving& at,
                                                   const UpdateStore::Step& next) const {
  const bool may_be = at.takes_bytes && feed_->identify && next.brings_all() &&
                      !at.tip.is_vouched && !at.held.is_vouched && at.ahead == 0;
  if (!may_be) return {};
  std::vector<std::uint64_t> versions{store().newest()->version};
  if (const std::optional<HeldVersion> before = store().before_newest())
    versions.push_back(before->version);
  std::erase_if(versions, [&](std::uint64_t version) {
    return version < at.oldest_taken || (at.pin != 0 && version > at.pin);
  });
  return versions;
}

// The giver makes the bytes while the publisher makes their SHA-256. False: there will be none.
bool SessionMachine::begin_giving(Serving& at, const SessionMachine& giver, double now) {
  const HeldVersion of = giver.held();
  const IdentityAnswer answer = feed_->identify(of.hash, {});
  const bool may_come = answer.identity ? answer.identity->version == of : answer.is_coming;
  if (!may_come) return false;
  at.takes_bytes = false;  // once: if it fails, the publisher gives them
  at.stage = session_stage::HasParent{0, {{of, false}}};
  fan_out()->expect_given(id(), feed_->tensor_bytes, now);
  return true;
}

// Tells the replica the SHA-256 of what its parent holds, once it is made. The parent may hold a
// later version when it gives. True: something was said.
bool SessionMachine::vouch_for_giver(Serving& at) {
  auto* stage = std::get_if<session_stage::HasParent>(&at.stage);
  if (stage == nullptr || stage->vouches.empty() || fan_out()->given(id()) == 0) return false;
  std::vector<session_stage::Vouch>& vouches = stage->vouches;
  const SessionMachine* giver = context_.find_session(fan_out()->parent(id()));
  if (giver != nullptr && giver->acknowledged_version() > vouches.back().of.version &&
      vouches.size() < kMaxVouches)
    vouches.push_back({giver->held()});
  bool says = false, may_come = false;
  for (session_stage::Vouch& each : vouches) {
    if (!each.is_told) {
      IdentityAnswer answer = feed_->identify(each.of.hash, {});
      may_come = may_come || answer.is_coming;
      if (!answer.identity || answer.identity->version != each.of) continue;
      answer.identity->placement = at.placements;
      send(MessageType::kIdentity, *answer.identity);
      at.announced_version = std::max(at.announced_version, each.of.version);
      each.is_told = says = true;
    }
    may_come = true;
  }
  if (may_come) return says;
  vouches.clear();
  on_call_back();
  return true;
}

}  // namespace sparcl::replication
