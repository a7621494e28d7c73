// What a session offers its replica next, and how the bytes of it go.

#include <algorithm>
#include <utility>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/replication/session.hpp"

namespace sparcl::replication {
namespace {

// Of an update, in one message: small ones go in smaller pieces, so that those further down a chain
// need not wait. Heuristic.
constexpr std::size_t kLargePiece = std::size_t{256} << 10;
constexpr std::size_t kSmallPiece = std::size_t{64} << 10;
constexpr std::uint64_t kLargeUpdate = std::uint64_t{16} << 20;
constexpr std::size_t kQueuedBytes = std::size_t{2}
                                     << 20;  // of a replica that does not take them; heuristic
constexpr std::size_t kMinPiece = std::size_t{256}
                                  << 10;  // fewer bytes go over the connection; heuristic
constexpr std::size_t kMaxPiecesOut = 4;  // that a replica has not taken

}  // namespace

// The replica may take these updates from its parent, byte for byte. after: later versions only.
void Session::announce(double now, std::uint64_t after) {
  if (!is_placed_ || !store().newest() || link_.queued_bytes() >= kQueuedBytes) return;
  const std::deque<Offer>& made = store().made();
  const std::uint64_t end = store().first_made() + made.size();
  for (announced_ = std::max(announced_, store().first_made()); announced_ < end; ++announced_) {
    const Offer& each = made[announced_ - store().first_made()];
    if (each.commit.version <= after) continue;
    link_.queue(MessageType::kAnnounce, each);
    announced_version_ = std::max(announced_version_, each.commit.version);
    fan_out()->awaits(id_, each.commit.version, each.commit.stream_bytes, now);
  }
}

// True: what it came with is being compared with the version of the same state hash.
bool Session::identify() {
  if (tip_is_vouched_ || !source_->identify || identifying_ == Identifying::kIsAnother)
    return false;
  if (identifying_ == Identifying::kAwaitsWord) return true;
  const IdentityAnswer answer = source_->identify(identity_of_, nearly_);
  identifying_ = answer.is_coming ? Identifying::kAwaitsDigest : Identifying::kNot;
  if (answer.is_coming || answer.identity) identity_of_ = answer.of;
  nearly_.reset();  // no other one, if that cannot be made: all bytes are sent instead
  if (!answer.identity) return answer.is_coming;
  link_.queue(MessageType::kIdentity, *answer.identity);
  if (source_->request_repair)
    link_.allow(MessageType::kBlocks, block_digests_bytes(source_->block_count));
  identifying_ = Identifying::kAwaitsWord;
  return true;
}

// One that is at most a step behind may take that step, and those after it, from another replica.
// One that needs an anchor may take it from a replica that is being sent it.
bool Session::is_placed_elsewhere(const UpdateStore::Step& next, double now) {
  if (fan_out() == nullptr || !store().newest()) return false;
  const std::uint64_t newest = store().newest()->version;
  std::uint64_t anchor = next.needs_anchor ? newest : 0;
  if (next.update != nullptr) {
    const Commit& commit = next.update->commit;
    if (commit.stream_bytes == 0 || next.is_composed)
      return false;  // the publisher alone has such ones
    if (commit.is_anchor) anchor = commit.version;
    if (!commit.is_anchor && commit.version != newest) return false;
  }
  const std::optional<FanOut::Id> parent = fan_out()->place(id_, anchor, now);
  if (!parent) return false;
  const Session* other = context_.find_session(*parent);
  if (other == nullptr || !other->serves_at()) {
    fan_out()->come_back(id_, FanOut::Blame::kNobody, now);
    return false;
  }
  is_placed_ = true;
  needs_anchor_ = is_of_another_epoch_ = false;
  link_.queue(MessageType::kParent, Parent{++placements_, other->serves_at(), other->replica()});
  announced_ = 0;
  announce(now, anchor != 0 ? anchor - 1 : tip_.version);
  log_debug("replication: replica {} takes updates from {}", replica_, other->replica());
  return true;
}

UpdateStore::Step Session::next_step() const {
  const std::uint64_t before_oldest = oldest_taken_ > 0 ? oldest_taken_ - 1 : 0;
  if (!tip_is_vouched_) return store().step_by_anchor(before_oldest);
  if (!needs_anchor_ || !store().newest()) {
    if (is_of_another_epoch_ && store().newest() == tip_ && store().label() != nullptr)
      return {store().label()};
    const UpdateStore::Step step = store().step_from(tip_, pin_ == 0 ? UINT64_MAX : pin_);
    const bool is_too_old = step.update != nullptr && step.update->commit.version < oldest_taken_;
    return is_too_old ? store().step_by_anchor(before_oldest) : step;
  }
  // What it was sent here it does not take again. Another publisher's number may be anything.
  const bool is_ours = tip_is_ours_ || tip_.version < store().newest()->version;
  return store().step_by_anchor(std::max(is_ours ? tip_.version : 0, before_oldest));
}

void Session::offer_next(double now) {
  if (is_placed_ || update_ != nullptr || awaits_damage()) return;
  if (ahead_ >= kMaxAhead) {
    if (fan_out() == nullptr || !store().newest()) return;
    fan_out()->held_up(id_, store().newest()->version, now);
    if (store().newest()->version > std::max(said_newest_, tip_.version) &&
        link_.queued_bytes() < kQueuedBytes) {
      said_newest_ = store().newest()->version;
      link_.queue(MessageType::kAlive, Alive{said_newest_});
    }
    return;
  }
  if (link_.queued_bytes() >= kQueuedBytes) return;  // it does not read
  if (identify()) return;
  const UpdateStore::Step next = next_step();
  if (repair_ != nullptr && next.brings_all()) {
    if (!std::exchange(repair_is_asked_, true)) source_->request_repair(repair_);
    if (!repair_->is_over) return;
    const UpdateRef made = std::exchange(repair_, nullptr)->update;
    if (made != nullptr && store().knows(made->target())) return offer(made, now);
  }
  if (is_placed_elsewhere(next, now)) return;
  if (next.needs_anchor) {
    needs_anchor_ = store().newest().has_value();
    if (!source_->request_anchor) return end_without_way();  // the publisher will know one
    if (needs_anchor_) source_->request_anchor();
    return;
  }
  awaits_composed_ = next.may_be_composed && source_->request_composed;
  if (next.update == nullptr) return;
  if (awaits_composed_) return source_->request_composed(next.update->base());
  offer(next.update, now);
}

void Session::offer(UpdateRef update, double now) {
  needs_anchor_ = false;
  update_ = std::move(update);
  repair_ = nullptr;
  is_requested_ = false;
  progress_at_ = now;
  link_.queue(MessageType::kOffer, Offer{update_->commit, update_->signature});
  update_end_ = link_.bytes_sent() + link_.queued_bytes();
  SPARCL_FAILPOINT("publisher.offered");
}

// As memory: a whole segment, or the end. 0: what comes next goes over the connection.
std::size_t Session::next_piece() const {
  if (!shares_memory_ || next_byte_ % kMaxPieceBytes != 0) return 0;
  const std::uint64_t count =
      std::min<std::uint64_t>(kMaxPieceBytes, update_->commit.stream_bytes - next_byte_);
  return count < kMinPiece ? 0 : static_cast<std::size_t>(count);
}

// False: memory is shared no more.
bool Session::pass(std::size_t count, double now) {
  Result<SealedMemoryRef> memory = memory_.piece(update_, next_byte_, count, now);
  if (!memory.ok()) {
    log_debug("replication: {}: memory is shared no more: {}", replica_, memory.status().message());
    shares_memory_ = false;
    return false;
  }
  const Piece piece{update_->commit.version, next_byte_, static_cast<std::uint32_t>(count),
                    (*memory)->descriptor()};
  link_.queue(MessageType::kPiece, piece);
  update_end_ = link_.bytes_sent() + link_.queued_bytes();
  pieces_out_.push_back(std::move(*memory));
  bytes_shared_ += count;
  next_byte_ += count;
  (void)link_.flush();  // it takes this one while the next is made; an error is met again
  return true;
}

// The digests of all leaves, once they are known here. False: they are not, or their turn comes
// again.
bool Session::send_leaves() {
  const std::uint64_t count = leaf_count(update_->commit.stream_bytes);
  if (next_leaf_ == count) return true;
  if (!update_->has_leaves()) return false;
  while (next_leaf_ < count && link_.queued_bytes() < kQueuedBytes) {
    const std::uint64_t end = std::min<std::uint64_t>(count, next_leaf_ + kMaxLeavesAtOnce);
    const auto first = update_->leaves.begin() + static_cast<std::ptrdiff_t>(next_leaf_);
    link_.queue(MessageType::kLeaves,
                Leaves{update_->name(),
                       next_leaf_,
                       {first, update_->leaves.begin() + static_cast<std::ptrdiff_t>(end)}});
    next_leaf_ = end;
  }
  update_end_ = link_.bytes_sent() + link_.queued_bytes();
  return next_leaf_ == count;
}

void Session::send_ready(double now) {
  if (!send_leaves()) return;
  const std::uint64_t ready = update_->ready_bytes();
  const std::size_t chunk = update_->commit.stream_bytes < kLargeUpdate ? kSmallPiece : kLargePiece;
  while (next_byte_ < ready && link_.queued_bytes() < kQueuedBytes) {
    SPARCL_FAILPOINT("publisher.sending");
    if (const std::size_t piece = next_piece(); piece > 0) {
      if (next_byte_ + piece > ready || pieces_out_.size() >= kMaxPiecesOut) return;
      if (pass(piece, now)) continue;
    }
    const std::uint64_t left_in_chunk = chunk - next_byte_ % chunk;
    const auto count = static_cast<std::size_t>(std::min(left_in_chunk, ready - next_byte_));
    link_.queue_chunk({update_->commit.version, next_byte_},
                      update_->bytes.slice(next_byte_, count));
    update_end_ = link_.bytes_sent() + link_.queued_bytes();
    next_byte_ += count;
  }
}

void Session::send_on(double now) {
  if (update_ == nullptr || !is_requested_) return;
  send_ready(now);
  if (next_byte_ < update_->commit.stream_bytes) return;
  link_.queue(MessageType::kCommit, CommitNote{update_->name()});
  update_end_ = link_.bytes_sent() + link_.queued_bytes();
  tip_ = update_->target();
  tip_is_ours_ = true;
  is_of_another_epoch_ = false;
  note_given({tip_.version, update_->commit.stream_bytes > 0 && is_asked_whole_});
  tip_is_vouched_ = true;  // of an update that led on from there, or brought all
  ++ahead_;
  let_go();
  is_requested_ = false;
  if (fan_out() != nullptr) fan_out()->sent(id_, now);
  offer_next(now);
}

}  // namespace sparcl::replication
