// The next update for a session's replica, and the sending of its bytes.

#include <algorithm>
#include <utility>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/replication/session_machine.hpp"

namespace sparcl::replication {
namespace {

// Bytes of an update in one message. Small updates go in smaller pieces, so that replicas further
// down a chain need not wait. Heuristic.
constexpr std::size_t kLargePiece = std::size_t{256} << 10;
constexpr std::size_t kSmallPiece = std::size_t{64} << 10;
constexpr std::uint64_t kLargeUpdate = std::uint64_t{16} << 20;
constexpr std::size_t kQueuedBytes = std::size_t{2}
                                     << 20;  // of a replica that does not take them; heuristic
constexpr std::size_t kMinPiece = std::size_t{256}
                                  << 10;  // fewer bytes go over the connection; heuristic
// Of the model's bytes, in updates up to a PIN beside an anchor: the chain keeps one. Heuristic.
constexpr std::uint64_t kAheadParts = 2;
constexpr std::size_t kMaxPiecesOut = 4;  // that a replica has not taken

// Nothing is offered in these stages.
bool is_busy(const session_stage::Any& at) {
  return std::holds_alternative<session_stage::HasParent>(at) ||
         std::holds_alternative<session_stage::Offered>(at) ||
         std::holds_alternative<session_stage::Sending>(at) ||
         std::holds_alternative<session_stage::AwaitsDamage>(at);
}

}  // namespace

void SessionMachine::serve(double now) {
  if (Serving* at = serving()) {
    tell_side_files();
    (void)vouch_for_giver(*at);
    offer_next(*at, now);
  }
  send_on(now);
}

// The replica may take these updates from its parent, byte for byte. after: later versions only.
void SessionMachine::announce(Serving& at, double now, std::uint64_t after) {
  auto* parent = std::get_if<session_stage::HasParent>(&at.stage);
  if (parent == nullptr || !store().newest()) return;
  const std::uint64_t after_files = side_files_ ? std::max(sent_, side_files_->end) : sent_;
  if (queued_ - after_files >= kQueuedBytes) return;
  const std::deque<Offer>& made = store().made();
  const std::uint64_t first = store().first_made(), end = first + made.size();
  for (std::uint64_t& next = parent->announced = std::max(parent->announced, first); next < end;
       ++next) {
    const Offer& each = made[next - first];
    if (each.commit.version <= after) continue;
    send(MessageType::kAnnounce, each);
    at.announced_version = std::max(at.announced_version, each.commit.version);
    fan_out()->awaits(id(), each.commit.version, each.commit.stream_bytes, now);
  }
}

// Before anything else is said of the version that they belong to. One set at a time.
void SessionMachine::tell_side_files() {
  if (!side_files_ || side_files_->last == context_.side_files || sent_ < side_files_->end) return;
  const SideFilesRef& next = context_.side_files;
  act(session_action::SendWhole{next->digest == side_files_->digest ? next->none : next->all});
  side_files_ = SideFilesTold{next->digest, next, queued_};
  update_end_ = queued_;
}

// True: what it came with is being compared with the version of the same state hash.
bool SessionMachine::compare(Serving& at) {
  if (at.tip.is_vouched || !feed_->identify || at.is_compared) return false;
  if (std::holds_alternative<session_stage::AwaitsAnswer>(at.stage)) return true;
  std::optional<session_stage::AwaitsRepair> instead;
  if (const auto* repair = std::get_if<session_stage::AwaitsRepair>(&at.stage)) instead = *repair;
  if (const auto* digest = std::get_if<session_stage::AwaitsDigest>(&at.stage)) {
    instead = digest->instead;
    at.stage = session_stage::Idle{};
    if (instead) at.stage = *instead;
  }
  const IdentityAnswer answer = feed_->identify(at.brought_hash, at.nearly);
  if (answer.is_coming || answer.identity) at.brought_hash = answer.of;
  at.nearly.reset();  // no other one, if that cannot be made: all bytes are sent instead
  if (!answer.identity) {
    if (answer.is_coming) at.stage = session_stage::AwaitsDigest{std::move(instead)};
    return answer.is_coming;
  }
  send(MessageType::kIdentity, *answer.identity);
  if (feed_->request_repair)
    act(session_action::Expect{MessageType::kBlocks, block_digests_bytes(feed_->block_count)});
  at.stage = session_stage::AwaitsAnswer{};
  return true;
}

UpdateStore::Step SessionMachine::next_step(const Serving& at) const {
  const std::uint64_t before_oldest = at.oldest_taken > 0 ? at.oldest_taken - 1 : 0;
  if (!at.tip.is_vouched) return store().step_by_anchor(before_oldest);
  const HeldVersion& tip = at.tip.version;
  if (!at.needs_anchor || !store().newest()) {
    if (at.is_of_another_epoch && store().newest() == tip && store().label() != nullptr)
      return {store().label()};
    const UpdateStore::Step step = store().step_from(tip, at.pin == 0 ? UINT64_MAX : at.pin);
    const bool is_too_old = step.update != nullptr && step.update->commit.version < at.oldest_taken;
    return is_too_old ? store().step_by_anchor(before_oldest) : step;
  }
  // It does not take again what it was sent here. Another publisher's number may be anything.
  const bool is_ours = at.tip.is_ours || tip.version < store().newest()->version;
  return store().step_by_anchor(std::max(is_ours ? tip.version : 0, before_oldest));
}

// It may have this many updates before it applies one. A replica that names a version by a PIN may
// have all up to there, within a budget of bytes.
bool SessionMachine::is_full(const Serving& at) const {
  if (at.ahead < kMaxAhead) return false;
  const bool is_led_to_pin = at.pin != 0 && at.tip.version.version < at.pin;
  return !is_led_to_pin || at.ahead >= kMaxAheadToPin ||
         at.ahead_bytes >= kAheadParts * feed_->tensor_bytes;
}

// It has all updates that it may have before it applies one: it is told of the newest version.
void SessionMachine::note_full(Serving& at, double now) {
  if (fan_out() == nullptr || !store().newest()) return;
  fan_out()->held_up(id(), store().newest()->version, now);
  tell_newest(at, at.tip.version.version);
}

// It knows of the versions up to this one.
void SessionMachine::tell_newest(Serving& at, std::uint64_t known) {
  const std::uint64_t newest = store().newest() ? store().newest()->version : 0;
  if (newest <= std::max(at.told_newest, known) || waiting_bytes() >= kQueuedBytes) return;
  at.told_newest = newest;
  send(MessageType::kAlive, Alive{newest});
}

// True: a repair is made, or was offered.
bool SessionMachine::offer_repair(Serving& at, double now) {
  auto* waits = std::get_if<session_stage::AwaitsRepair>(&at.stage);
  if (waits == nullptr) return false;
  if (!std::exchange(waits->is_requested, true)) feed_->request_repair(waits->repair);
  if (!waits->repair->is_over) return true;
  const UpdateRef made = waits->repair->update;
  at.stage = session_stage::Idle{};
  if (made == nullptr || !store().knows(made->target())) return false;
  offer(at, made, now);
  return true;
}

void SessionMachine::offer_next(Serving& at, double now) {
  if (is_busy(at.stage)) return;
  if (at.only_told) return tell_newest(at, 0);
  if (is_full(at)) return note_full(at, now);
  if (waiting_bytes() >= kQueuedBytes) return;  // it does not read
  if (fan_out() == nullptr && at.takes_bytes && !at.tip.is_vouched) return offer_given(at, now);
  if (compare(at)) return;
  const UpdateStore::Step next = next_step(at);
  if (next.brings_all() && offer_repair(at, now)) return;
  if (hand_over(at, next, now)) return;
  if (next.needs_anchor) {
    at.needs_anchor = store().newest().has_value();
    if (!feed_->request_anchor) return end_without_path(at);
    if (at.needs_anchor) feed_->request_anchor();
    return;
  }
  const bool awaits_composed = next.may_be_composed && feed_->request_composed;
  if (std::holds_alternative<session_stage::AwaitsComposed>(at.stage))
    at.stage = session_stage::Idle{};
  if (awaits_composed && std::holds_alternative<session_stage::Idle>(at.stage))
    at.stage = session_stage::AwaitsComposed{};
  if (next.update == nullptr) return;
  if (awaits_composed) return feed_->request_composed(next.update->base());
  offer(at, next.update, now);
}

void SessionMachine::offer(Serving& at, UpdateRef update, double now) {
  at.needs_anchor = false;
  send_of_update(MessageType::kOffer, serialise(Offer{update->commit, update->signatures}));
  at.stage = session_stage::Offered{std::move(update), now};
  SPARCL_FAILPOINT("publisher.offered");
}

// The bytes that are queued still go out. Nothing else is offered, or waited for.
void SessionMachine::let_go(Serving& at) {
  UpdateRef update;
  if (auto* offered = std::get_if<session_stage::Offered>(&at.stage))
    update = std::move(offered->update);
  if (auto* sending = std::get_if<session_stage::Sending>(&at.stage))
    update = std::move(sending->update);
  if (update != nullptr && waiting_bytes() > 0)
    in_flight_.push_back({std::move(update), update_end_});
  if (!std::holds_alternative<session_stage::HasParent>(at.stage)) at.stage = session_stage::Idle{};
}

// As memory: a whole segment, or the end. 0: what comes next goes over the connection.
std::size_t SessionMachine::next_piece(const session_stage::Sending& at) const {
  if (memory_state_ != Memory::kShared || at.next_byte % kMaxPieceBytes != 0) return 0;
  const std::uint64_t count =
      std::min<std::uint64_t>(kMaxPieceBytes, at.update->commit.stream_bytes - at.next_byte);
  return count < kMinPiece ? 0 : static_cast<std::size_t>(count);
}

// False: memory is shared no more.
bool SessionMachine::send_piece(session_stage::Sending& at, std::size_t count, double now) {
  Result<SealedMemoryRef> memory = memory_.piece(at.update, at.next_byte, count, now);
  if (!memory.ok()) {
    log_debug("replication: {}: memory is shared no more: {}", replica_, memory.status().message());
    memory_state_ = Memory::kInvited;
    return false;
  }
  const Piece piece{at.update->commit.version, at.next_byte, static_cast<std::uint32_t>(count),
                    (*memory)->descriptor()};
  send_of_update(MessageType::kPiece, serialise(piece));
  pieces_out_.push_back(std::move(*memory));
  bytes_shared_ += count;
  at.next_byte += count;
  act(session_action::Flush{});  // the replica takes this piece while the next one is made
  wants_turn_ = true;
  return true;
}

// The digests of all leaves, once they are known here. False: they are not, or their turn comes
// again.
bool SessionMachine::send_leaves(session_stage::Sending& at) {
  const Update& update = *at.update;
  const std::uint64_t count = leaf_count(update.commit.stream_bytes);
  if (at.next_leaf == count) return true;
  if (!update.has_leaves()) return false;
  while (at.next_leaf < count && waiting_bytes() < kQueuedBytes) {
    const std::uint64_t end = std::min<std::uint64_t>(count, at.next_leaf + kMaxLeavesAtOnce);
    const auto first = update.leaves.begin() + static_cast<std::ptrdiff_t>(at.next_leaf);
    const auto last = update.leaves.begin() + static_cast<std::ptrdiff_t>(end);
    send_of_update(MessageType::kLeaves,
                   serialise(Leaves{update.name(), at.next_leaf, {first, last}}));
    at.next_leaf = end;
  }
  return at.next_leaf == count;
}

void SessionMachine::send_ready(session_stage::Sending& at, double now) {
  if (!send_leaves(at)) return;
  const Update& update = *at.update;
  const std::uint64_t ready = update.ready_bytes();
  const std::size_t chunk = update.commit.stream_bytes < kLargeUpdate ? kSmallPiece : kLargePiece;
  while (at.next_byte < ready && waiting_bytes() < kQueuedBytes) {
    SPARCL_FAILPOINT("publisher.sending");
    if (const std::size_t piece = next_piece(at); piece > 0) {
      if (at.next_byte + piece > ready || pieces_out_.size() >= kMaxPiecesOut) return;
      if (send_piece(at, piece, now)) return;
    }
    const std::uint64_t left_in_chunk = chunk - at.next_byte % chunk;
    const auto count = static_cast<std::size_t>(std::min(left_in_chunk, ready - at.next_byte));
    act(session_action::SendChunk{{update.commit.version, at.next_byte},
                                  update.bytes.slice(at.next_byte, count)});
    update_end_ = queued_;
    at.next_byte += count;
  }
}

void SessionMachine::send_on(double now) {
  wants_turn_ = false;
  Serving* at = serving();
  auto* sending = at != nullptr ? std::get_if<session_stage::Sending>(&at->stage) : nullptr;
  if (sending == nullptr) return;
  send_ready(*sending, now);
  const UpdateRef update = sending->update;
  if (sending->next_byte < update->commit.stream_bytes) return;
  wants_turn_ = false;
  send_of_update(MessageType::kCommit, serialise(CommitNote{update->name()}));
  at->is_of_another_epoch = false;
  note_given({update->commit.version, update->commit.stream_bytes > 0 && sending->is_whole});
  at->tip = {update->target(), true, true};  // it led on from there, or brought all bytes
  ++at->ahead;
  if (!update->commit.has_no_base()) at->ahead_bytes += update->commit.stream_bytes;
  let_go(*at);
  if (fan_out() != nullptr) fan_out()->sent(id(), now);
  offer_next(*at, now);
}

}  // namespace sparcl::replication
