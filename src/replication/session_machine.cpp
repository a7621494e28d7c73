#include "src/replication/session_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"

namespace sparcl::replication {
namespace {

constexpr double kStalledSeconds = 1;  // without any progress of an update
constexpr double kMinPatience = 10;    // seconds, with a replica that takes nothing it is sent
constexpr double kAnswerPause = 0.1;   // seconds between two answers to challenges; heuristic
constexpr std::size_t kKeptActions = 8;

// The update that is offered or being sent; nullptr: none.
const UpdateRef* update_of(const session_stage::Any& at) {
  if (const auto* offered = std::get_if<session_stage::Offered>(&at)) return &offered->update;
  if (const auto* sending = std::get_if<session_stage::Sending>(&at)) return &sending->update;
  return nullptr;
}

const RepairRef* repair_of(const session_stage::Any& at) {
  if (const auto* waits = std::get_if<session_stage::AwaitsRepair>(&at)) return &waits->repair;
  if (const auto* waits = std::get_if<session_stage::AwaitsDigest>(&at); waits && waits->instead)
    return &waits->instead->repair;
  return nullptr;
}

std::uint64_t action_bytes(const session_action::Any& each) {
  if (const auto* send = std::get_if<session_action::Send>(&each))
    return kHeadBytes + send->content.size();
  if (const auto* whole = std::get_if<session_action::SendWhole>(&each))
    return kHeadBytes + whole->message.content.size();
  if (const auto* chunk = std::get_if<session_action::SendChunk>(&each))
    return kHeadBytes + kChunkHeadBytes + chunk->bytes.size();
  return 0;
}

}  // namespace

Status no_room(const PeerBudget& budget) {
  return Status(
      Code::kRemoteError,
      fmt::format("there is no room for what it sends: peers take {} of {} bytes here, peers that "
                  "have proven nothing {} of {}",
                  budget.used(), budget.limit(), budget.unproven(), budget.unproven_limit()));
}

SessionMachine::SessionMachine(const Peer& peer, const SessionContext& context,
                               MemoryPieces& memory, SessionCounts& counts, double now)
    : peer_(peer),
      context_(context),
      memory_(memory),
      counts_(counts),
      replica_(peer.from ? to_text(*peer.from) : "?"),
      born_(now),
      heard_(now),
      spoke_(now),
      moved_at_(now) {
  actions_.reserve(kKeptActions);  // so that a session can end without memory
}

// --- actions ---

void SessionMachine::act(session_action::Any each) {
  const std::uint64_t bytes = action_bytes(each);
  actions_.push_back(std::move(each));
  queued_ += bytes;  // if there is no memory for it, the link never sends them
}

void SessionMachine::send(MessageType type, std::vector<std::byte> content) {
  act(session_action::Send{type, std::move(content)});
}

void SessionMachine::send_of_update(MessageType type, std::vector<std::byte> content) {
  send(type, std::move(content));
  update_end_ = queued_;
}

// --- what it is at ---

const std::vector<std::byte>* SessionMachine::list() const {
  const auto* has = std::get_if<session_phase::HasList>(&phase_);
  return has != nullptr ? &has->list : nullptr;
}

const Hash128& SessionMachine::list_hash() const {
  return std::get<session_phase::HasList>(phase_).hello.schema_hash;
}

std::uint64_t SessionMachine::own_bytes() const {
  const std::uint64_t tensors = list() != nullptr ? list()->capacity() : 0;
  const RepairRef* repair = is_replica() ? repair_of(serving()->stage) : nullptr;
  const bool keeps_files = side_files_ && side_files_->last != nullptr &&
                           sent_ < side_files_->end &&
                           side_files_->last != context_.side_files;  // for this replica alone
  const std::uint64_t files = keeps_files ? side_files_->last->all.content.size() : 0;
  if (repair == nullptr) return tensors + files;
  return tensors + files + (*repair)->block_hashes.size() * sizeof(Hash128) +
         (*repair)->digests.size() * sizeof(Digest256);
}

bool SessionMachine::keeps_update(bool is_lost) const {
  const auto is_kept = [&](const UpdateRef& update) {
    return update->charge != nullptr && !(is_lost && store().keeps(update));
  };
  const UpdateRef* update = is_replica() ? update_of(serving()->stage) : nullptr;
  return (update != nullptr && is_kept(*update)) ||
         std::ranges::any_of(in_flight_, is_kept, &InFlight::update);
}

bool SessionMachine::is_sent_copy() const {
  const auto* sending =
      is_replica() ? std::get_if<session_stage::Sending>(&serving()->stage) : nullptr;
  return sending != nullptr && sending->update->commit.is_anchor;
}

std::uint64_t SessionMachine::held_version() const {
  return is_replica() ? serving()->held.version.version : 0;
}

bool SessionMachine::is_held_known() const {
  return held_version() == 0 || serving()->held.is_ours;
}

std::uint64_t SessionMachine::staged_version() const {
  return is_replica() ? serving()->staged_version : 0;
}

bool SessionMachine::is_vouched() const { return is_replica() && serving()->held.is_vouched; }

HeldVersion SessionMachine::held() const {
  return is_replica() ? serving()->held.version : HeldVersion();
}

std::uint64_t SessionMachine::acknowledged_version() const {
  if (!is_replica()) return 0;
  const ReplicaBytes& held = serving()->held;
  const bool was_given = serving()->only_told || held.version.version <= given_.version;
  const bool counts = held.is_ours && held.is_vouched && was_given;
  return counts ? held.version.version : 0;
}

std::uint64_t SessionMachine::received_version() const {
  return staged_version() <= given_.version ? staged_version() : 0;
}

const char* SessionMachine::state() const {
  if (is_unauthenticated()) return "connecting";
  if (!is_replica()) return "leaving";
  const Serving& at = *serving();
  if (std::holds_alternative<session_stage::Sending>(at.stage)) return "receiving";
  if (std::holds_alternative<session_stage::Offered>(at.stage)) return "offered";
  if (std::holds_alternative<session_stage::AwaitsDamage>(at.stage) ||
      repair_of(at.stage) != nullptr)
    return "waits for a repair";
  if (std::holds_alternative<session_stage::AwaitsDigest>(at.stage) ||
      std::holds_alternative<session_stage::AwaitsAnswer>(at.stage))
    return "is compared";
  if (at.needs_anchor) return "waits for an anchor";
  if (std::holds_alternative<session_stage::AwaitsComposed>(at.stage))
    return "waits for a composed update";
  if (store().newest() && at.held.version == *store().newest()) return "current";
  return at.ahead > 0 ? "staged" : "behind";
}

// --- the clock ---

void SessionMachine::on_sent(std::uint64_t bytes, double now) {
  if (waiting_bytes() > 0) spoke_ = now;
  Serving* at = serving();
  auto* sending = at != nullptr ? std::get_if<session_stage::Sending>(&at->stage) : nullptr;
  if (sending != nullptr && bytes > sent_) sending->progress_at = now;
  sent_ = bytes;
  while (!in_flight_.empty() && in_flight_.front().end <= sent_) in_flight_.pop_front();
  if (is_leaving() && waiting_bytes() == 0) phase_ = session_phase::Over{};
}

void SessionMachine::on_pause(double now) {
  moved_at_ = now;
  Serving* at = serving();
  auto* sending = at != nullptr ? std::get_if<session_stage::Sending>(&at->stage) : nullptr;
  if (sending != nullptr) sending->progress_at = now;
}

bool SessionMachine::on_tick(std::uint64_t taken, double now) {
  if (is_over()) return false;
  if (is_unauthenticated()) {
    if (now - born_ > context_.handshake_s && list() == nullptr)
      on_broken(Status(Code::kTimeout, "it did not say who it is in time"), RefusalReason::kSlow,
                now);
    return false;
  }
  if (is_leaving()) {
    if (now - heard_ > context_.silence_s) phase_ = session_phase::Over{};
    return false;
  }
  if (now - heard_ > context_.silence_s) {
    drop(Status(Code::kTimeout, fmt::format("silent for {:g} s: it is stopped, or its link is cut",
                                            context_.silence_s)));
    return false;
  }
  Serving& at = *serving();
  drop_if_nothing_moves(at, taken, now);
  if (is_over()) return false;
  note_given_by_parent();
  tell_side_files();  // before a word of a newer version
  const bool has_vouched = vouch_for_giver(at);
  const bool has_answered = answer_challenge(now) || has_vouched;
  if (const UpdateRef* update = update_of(at.stage); update != nullptr && fan_out() != nullptr) {
    const auto* sending = std::get_if<session_stage::Sending>(&at.stage);
    const double moved = sending != nullptr
                             ? sending->progress_at
                             : std::get<session_stage::Offered>(at.stage).progress_at;
    if (now - moved > kStalledSeconds) fan_out()->held_up(id(), (*update)->commit.version, moved);
  }
  if (now - spoke_ <= at.alive_period_s) return has_answered;
  send(MessageType::kAlive, Alive{store().newest() ? store().newest()->version : 0});
  return true;
}

// A signature takes time: not as often as a peer likes.
bool SessionMachine::answer_challenge(double now) {
  if (!challenge_ || !store().newest() || now - answered_at_ < kAnswerPause) return false;
  Fresh fresh{context_.model_id,  context_.epoch, *store().newest(),
              feed_->schema_hash, *challenge_,    {}};
  fresh.signatures = context_.sign(signed_bytes(fresh));
  send(MessageType::kFresh, fresh);
  challenge_.reset();
  answered_at_ = now;
  return true;
}

// Something that it has not taken keeps memory here.
bool SessionMachine::owes(const Serving& at) const {
  return taken_ < update_end_ || !pieces_out_.empty() ||
         std::holds_alternative<session_stage::Offered>(at.stage);
}

// Signs of life are not enough. A replica whose user does not apply what it has is offered nothing.
void SessionMachine::drop_if_nothing_moves(const Serving& at, std::uint64_t taken, double now) {
  const std::uint64_t before = std::exchange(taken_, taken);
  if (!owes(at) || (before < update_end_ && taken_ > before)) moved_at_ = now;
  const double patience = std::max(kMinPatience, 2 * context_.silence_s);
  if (now - moved_at_ <= patience) return;
  const auto* offered = std::get_if<session_stage::Offered>(&at.stage);
  const std::string text = offered != nullptr && taken_ >= update_end_
                               ? fmt::format("it does not ask for version {}, which it was offered",
                                             offered->update->commit.version)
                               : "it takes nothing of what it is sent";
  on_broken(Status(Code::kTimeout,
                   fmt::format("{} for {:g} s, though it says that it is alive", text, patience)),
            RefusalReason::kSlow, now);
}

// --- what it is known to hold ---

void SessionMachine::on_news(double now) {
  Serving* at = serving();
  if (at == nullptr) return;
  tell_side_files();
  confirm(*at, now);
  announce(*at, now, 0);
}

// The bytes that it came with may be a version that was published later.
void SessionMachine::confirm(Serving& at, double now) {
  const bool is_confirmed = at.held.is_ours && at.held.is_vouched;
  if (is_confirmed || !at.held.is_vouched || !store().knows(at.held.version)) return;
  at.held.is_ours = true;
  at.staged_version = std::max(at.staged_version, at.held.version.version);
  if (fan_out() != nullptr) {
    fan_out()->staged(id(), at.staged_version, now);
    fan_out()->holds(id(), acknowledged_version());
  }
}

void SessionMachine::note_given(const ReceiptBook::Given& given) {
  const bool is_news = given.version > given_.version || (given.has_bytes && !given_.has_bytes);
  if (!is_news) return;
  given_ = {std::max(given.version, given_.version), given.has_bytes || given_.has_bytes};
  context_.receipts->note(receipt_, given_);
}

// An announced version counts as given once its parent was given it. If the parent is gone, it
// counts because it was announced.
void SessionMachine::note_given_by_parent() {
  const Serving& at = *serving();
  const bool has_parent = std::holds_alternative<session_stage::HasParent>(at.stage);
  if (!has_parent || fan_out() == nullptr || at.announced_version <= given_.version) return;
  const SessionMachine* parent = context_.find_session(fan_out()->parent(id()));
  const std::uint64_t by_parent = parent == nullptr
                                      ? at.announced_version
                                      : std::min(at.announced_version, parent->given_.version);
  note_given({by_parent, by_parent > given_.version});
}

void SessionMachine::on_call_back() {
  Serving* at = serving();
  if (at == nullptr || !std::holds_alternative<session_stage::HasParent>(at->stage)) return;
  send(MessageType::kParent, Parent{++at->placements, {}, context_.name});
}

// --- the end ---

void SessionMachine::on_withdrawal(const UpdateRef& update) {
  const UpdateRef* own = is_replica() ? update_of(serving()->stage) : nullptr;
  if (own != nullptr && *own == update)
    refuse(Status(Code::kRemoteError, "the update has not come whole"));
}

void SessionMachine::on_leave() {
  if (!is_replica()) return drop(Status());
  send(MessageType::kBye, Bye());
  act(session_action::Flush{});
  phase_ = session_phase::Over{};
}

void SessionMachine::drop(Status why) {
  if (is_over()) return;
  const bool was_replica = is_replica(), was_unauthenticated = is_unauthenticated();
  phase_ = session_phase::Over{};
  in_flight_.clear();
  pieces_out_.clear();
  actions_.clear();
  actions_.emplace_back(session_action::Close{});
  wants_turn_ = false;
  if (why.ok()) return;
  try {
    if (was_replica) tell_of_loss(why);
    if (was_unauthenticated) log_debug("replication: {}: {}", replica_, why.message());
  } catch (const std::bad_alloc&) {  // it ends all the same: its memory is needed
  }
}

void SessionMachine::tell_of_loss(const Status& why) {
  const bool is_gone = why.code() == Code::kRemoteError;
  const bool tells_publisher = fan_out() == nullptr && is_gone;  // which says so itself
  if (!tells_publisher) ++context_.counts->lost;                 // also if the text finds no memory
  const std::string text =
      fmt::format("replica {} {}: {}", replica_,
                  is_gone ? "has gone without a goodbye" : "is given up", why.message());
  if (tells_publisher) return log_info("replication: {}", text);
  warn(text, is_gone ? "replicas have gone without a goodbye" : "replicas are given up");
}

// Whatever port it comes from. Before its HELLO, all connections of one address are one peer.
std::string SessionMachine::identity() const {
  net::NetAddress from = peer_.from.value_or(net::NetAddress());
  from.port = 0;
  return process_.empty() ? to_text(from) : fmt::format("{} ({})", process_, to_text(from));
}

void SessionMachine::warn(const std::string& text, const std::string& kind) {
  context_.warnings->say(kind, identity(), text);
}

std::string SessionMachine::score_key() const {
  return process_.empty() ? PeerScores::key_of(peer_.from)
                          : PeerScores::key_of(peer_.from, process_);
}

void SessionMachine::on_no_room() { refuse(no_room(*context_.budget), RefusalReason::kBudget); }

void SessionMachine::on_broken(Status why, RefusalReason reason, double now) {
  context_.counts->count(reason);
  if (reason == RefusalReason::kHandshake)
    context_.scores->note(score_key(), Offence::kHandshake, now);
  if (reason == RefusalReason::kMalformed)
    context_.scores->note(score_key(), Offence::kMalformed, now);
  drop(std::move(why));
}

RefusalReason SessionMachine::reason_of(Code code) const {
  switch (code) {
    case Code::kCorrupt:
      return RefusalReason::kMalformed;
    case Code::kUnauthorized:
      return role_ && *role_ < trust::Role::kReplicate ? RefusalReason::kRole
                                                       : RefusalReason::kMismatch;
    case Code::kMismatch:
    case Code::kUnsupported:
      return RefusalReason::kMismatch;
    case Code::kRemoteError:  // for its list of tensors there is no room
      return is<session_phase::AwaitsList>() ? RefusalReason::kBudget : RefusalReason::kRetry;
    default:
      return RefusalReason::kOther;
  }
}

// True: it has misbehaved, and is refused. Whoever has held a version that it was sent here is not:
// another peer may say its name, and no other peer knows its receipt.
bool SessionMachine::refuse_backed_off(double now) {
  const double seconds = context_.scores->backed_off_s(score_key(), now);
  if (seconds <= 0 || given_.has_bytes) return false;
  refuse(Status(Code::kRemoteError,
                fmt::format("it has sent what no replica sends, several times: it may come again "
                            "in {:.0f} s",
                            std::max(seconds, 1.0))),
         RefusalReason::kBackedOff);
  return true;
}

void SessionMachine::refuse(Status why) {
  const RefusalReason reason = reason_of(why.code());
  refuse(std::move(why), reason);
}

void SessionMachine::refuse(Status why, RefusalReason reason) {
  // Nothing is published here yet: the peer comes again, and says so itself.
  if (!context_.closed.empty() && why.code() == Code::kRemoteError) {
    log_info("replication: {} is told to come again: {}", replica_, why.message());
  } else {
    ++context_.counts->refused;
    context_.counts->count(reason);
    if (reason == RefusalReason::kMalformed)
      context_.scores->note(score_key(), Offence::kMalformed, heard_);
    if (reason == RefusalReason::kRole) context_.scores->note(score_key(), Offence::kRole, heard_);
    warn(fmt::format("{} is refused: {}", replica_, why.message()),
         fmt::format("peers are refused ({})", code_name(why.code())));
  }
  send(MessageType::kRefusal, Refusal{why.code(), why.message()});
  if (Serving* at = serving()) let_go(*at);
  phase_ = session_phase::Leaving{};
}

// The publisher will know a path.
void SessionMachine::end_without_path(const Serving& at) {
  const std::string text =
      fmt::format("there is no way from version {} here", at.tip.version.version);
  log_debug("replication: {}: {}", replica_, text);
  send(MessageType::kRefusal, Refusal{Code::kWrongBase, text});
  phase_ = session_phase::Leaving{};
}

}  // namespace sparcl::replication
