// How updates come to a subscriber: what is offered, its bytes, and that it is whole.

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/replication/subscriber.hpp"

namespace sparcl::replication {
namespace {

constexpr std::uint64_t kBlocksCompared = 16;  // at once: a millisecond or so; heuristic
constexpr std::size_t kMaxAnnounced = 1024;
constexpr std::size_t kMaxStaged =
    3;  // a publisher sends no more than two before it hears that they are applied

// What an update of this state can be at most: all of it, with room for what frames it. More is a
// lie.
std::uint64_t max_stream_bytes(const codec::BlockMap& map) {
  return map.byte_count() + map.byte_count() / 8 + map.block_count() * 256 +
         (std::uint64_t{1} << 20);
}

}  // namespace

Status Subscriber::check_offer(const Offer& offer) const {
  const Commit& commit = offer.commit;
  if (trusted_) {
    if (!offer.signature)
      return Status(Code::kUnauthorized,
                    "the commit is not signed, and this replica trusts signed ones only");
    SPARCL_RETURN_IF_ERROR(
        trusted_->verify(serialise(commit), offer.signature->key, offer.signature->signature));
  }
  if (commit.model_id != options_.model_id || commit.schema_hash != state_.schema_hash) {
    return Status(Code::kMismatch, "the commit is for another model");
  }
  if (commit.stream_bytes > max_stream_bytes(*state_.map)) {
    return Status(
        Code::kCorrupt,
        fmt::format("the commit claims {} bytes; no update of this model has more than {}",
                    commit.stream_bytes, max_stream_bytes(*state_.map)));
  }
  if (staged_.size() >= kMaxStaged) {
    return Status(Code::kCorrupt,
                  fmt::format("{} updates wait to be applied already: no more were to be sent",
                              staged_.size()));
  }
  if (commit.epoch != publisher_epoch_) {
    return Status(Code::kUnauthorized,
                  fmt::format("the commit of version {} is of another publisher than the one that "
                              "this replica listens to",
                              commit.version));
  }
  const std::uint64_t epoch = staged_.empty() ? epoch_ : staged_.back()->commit().epoch;
  const HeldVersion last = tip();
  if (commit.epoch < latest_epoch_) {
    return Status(
        Code::kUnauthorized,
        fmt::format("the commit of version {} is of an earlier publisher, which was replaced since",
                    commit.version));
  }
  if (trusted_ && commit.epoch == latest_epoch_ && commit.version < latest_version_) {
    return Status(Code::kUnauthorized,
                  fmt::format("version {} is older than version {}, which this replica has held of "
                              "the same publisher: it is not gone back to",
                              commit.version, latest_version_));
  }
  const bool has_last = holds_published_ || !staged_.empty();
  const bool is_last =
      commit.stream_bytes == 0 &&
      HeldVersion{commit.version, commit.target_hash} == last;  // a label of it again
  if (has_last && !is_last && commit.epoch == epoch && commit.version <= last.version) {
    return Status(
        Code::kUnauthorized,
        fmt::format("the commit of version {} is an old one: version {} has been here already",
                    commit.version, last.version));
  }
  return {};
}

// The publisher's own connection, or a trusted key, says whether the update that a parent offers
// exists.
Status Subscriber::take_offer(double now) {
  SPARCL_ASSIGN_OR_RETURN(Offer offer, parse_offer(source().link().content()));
  is_requested_ = false;
  if (has_parent_ && !trusted_ && !is_announced(offer.commit)) {
    awaited_offer_ = {std::move(offer), now};
    return {};
  }
  return accept_offer(std::move(offer), now);
}

bool Subscriber::is_announced(const Commit& commit) const {
  return std::find(announced_.begin(), announced_.end(), commit) != announced_.end();
}

Status Subscriber::take_announce(double now) {
  SPARCL_ASSIGN_OR_RETURN(Offer announced, parse_offer(publisher_.link().content()));
  hear_of(publisher_, announced.commit.version);
  announced_.push_back(std::move(announced.commit));
  if (announced_.size() > kMaxAnnounced) announced_.pop_front();
  if (!awaited_offer_ || !is_announced(awaited_offer_->offer.commit)) return {};
  const Status status = accept_offer(std::exchange(awaited_offer_, std::nullopt)->offer, now);
  if (!status.ok() && has_parent_) parent_.part(status, now);
  return {};
}

// The announcement comes by itself, and soon; a publisher that is not heard any more says nothing
// against it.
void Subscriber::leave_parent_whose_offer_is_unknown(double now) {
  if (!awaited_offer_ || publisher_.heard() - awaited_offer_->since <= ParentProgress::kPatience)
    return;
  leave_parent(
      Status(
          Code::kUnauthorized,
          fmt::format("{}: it offers version {} by an update that the publisher has not announced",
                      parent_.who(), awaited_offer_->offer.commit.version)),
      now);
}

Status Subscriber::accept_offer(Offer offer, double now) {
  SPARCL_RETURN_IF_ERROR(check_offer(offer).with_prefix("an update is refused: "));
  if (offer.signature && !trusted_ && !std::exchange(has_told_of_signatures_, true)) {
    log_info(
        "replication: what {} publishes is signed, and nobody's signature is asked for here: name "
        "its public key to trust it alone (options.trust_path, --trust)",
        publisher_.who());
  }
  hear_of(source(), offer.commit.version);
  const bool is_resumed = incoming_ != nullptr && incoming_->commit() == offer.commit;
  if (!is_resumed) {
    if (incoming_ != nullptr) relay_.withdraw(incoming_->shared());
    incoming_ = nullptr;
    const UpdateName name{offer.commit.base_version, offer.commit.version};
    if (const Status fits = check_base(offer.commit); !fits.ok()) {
      refuse(name, fits, true);
      return {};
    }
    tell_why_all_bytes(offer.commit);
    incoming_ = std::make_unique<StagedUpdate>(std::move(offer.commit), offer.signature,
                                               way_back_.max_bytes());
    relay_.pass_on(incoming_->shared());
  }
  incoming_->change_sender(trusted_ || has_parent_ ? StagedUpdate::Leaf::kChecked
                                                   : StagedUpdate::Leaf::kBelieved);
  is_requested_ = true;
  source().link().queue(
      MessageType::kRequest,
      Request{incoming_->update().name(), incoming_->received_bytes(), incoming_->has_leaves()});
  relay_.publish(now);
  return {};
}

// The base of an update must be the publisher's bytes. A state hash alone does not tell: other
// bytes can have it.
Status Subscriber::check_base(const Commit& commit) const {
  if (commit.is_anchor) return {};
  if (commit.base_hash != tip().hash) {
    return Status(Code::kWrongBase, fmt::format("it is for the state {}, held is {}",
                                                to_hex(commit.base_hash), to_hex(tip().hash)));
  }
  const bool is_known =
      commit.is_repair() ? (trust_ == Trust::kDamaged && !has_parent_) || may_repair_unknown(commit)
                         : tip_is_vouched();
  if (is_known) return {};
  return Status(
      Code::kWrongBase,
      fmt::format("{}, and this replica came with bytes that the publisher has not vouched for: "
                  "all bytes are to be sent",
                  commit.is_repair() ? "it repairs some blocks" : "it leads on from what is held"));
}

// It is checked by SHA-256 once it is applied: the state hash says nothing of the blocks that it
// leaves alone.
bool Subscriber::may_repair_unknown(const Commit& commit) const {
  return trust_ == Trust::kUnknown && unlike_ != nullptr && staged_.empty() && !has_parent_ &&
         commit.version == unlike_->with.version.version &&
         commit.target_hash == unlike_->with.version.hash;
}

Status Subscriber::take_leaves(double now) {
  SPARCL_ASSIGN_OR_RETURN(const Leaves leaves, parse_leaves(source().link().content()));
  if (!is_requested_ || incoming_ == nullptr) return {};  // of an update that was refused meanwhile
  SPARCL_RETURN_IF_ERROR(incoming_->take_leaves(leaves));
  if (incoming_->has_leaves()) relay_.publish(now);
  return {};
}

Buffer Subscriber::place_of(const Upstream& from, const ChunkHead& chunk, std::size_t count) {
  const bool is_wanted = &from == &source() && is_requested_ && incoming_ != nullptr &&
                         chunk.version == incoming_->commit().version &&
                         chunk.first_byte == incoming_->next_byte();
  return is_wanted ? incoming_->place(count) : Buffer();
}

Status Subscriber::take_memory(Upstream& from, const Piece& piece, Buffer memory, double now) {
  const bool is_wanted = &from == &source() && is_requested_ && incoming_ != nullptr;
  if (!is_wanted) return {};  // of an update that was refused meanwhile
  if (piece.version != incoming_->commit().version) {
    return Status(Code::kCorrupt, fmt::format("a piece of version {} came, awaited is version {}",
                                              piece.version, incoming_->commit().version));
  }
  progress_.received(memory.size(), now);
  SPARCL_RETURN_IF_ERROR(incoming_->adopt(piece.first_byte, std::move(memory)));
  relay_.publish(now);
  SPARCL_FAILPOINT("subscriber.receiving");
  return {};
}

Status Subscriber::take_chunk(double now) {
  if (!is_requested_ || incoming_ == nullptr) return {};  // of an update that was refused meanwhile
  const ChunkHead& chunk = source().link().chunk();
  const std::size_t count = source().link().chunk_bytes();
  if (!source().link().chunk_is_placed() || chunk.version != incoming_->commit().version ||
      chunk.first_byte != incoming_->next_byte() || !incoming_->has_leaves() ||
      count > incoming_->commit().stream_bytes - incoming_->next_byte()) {
    return Status(
        Code::kCorrupt,
        fmt::format("bytes {} to {} of version {} are out of place: awaited is {} {} of version {}",
                    chunk.first_byte, chunk.first_byte + count, chunk.version,
                    incoming_->has_leaves() ? "byte" : "the list of digests before byte",
                    incoming_->next_byte(), incoming_->commit().version));
  }
  progress_.received(count, now);
  SPARCL_RETURN_IF_ERROR(incoming_->received(count));
  relay_.publish(now);
  SPARCL_FAILPOINT("subscriber.receiving");
  return {};
}

Status Subscriber::take_commit() {
  SPARCL_ASSIGN_OR_RETURN(const CommitNote note, parse_commit_note(source().link().content()));
  if (!is_requested_ || incoming_ == nullptr) return {};
  if (note.update != incoming_->update().name() || !incoming_->has_all_bytes()) {
    return Status(Code::kCorrupt,
                  fmt::format("version {} is committed with {} of {} bytes", note.update.version,
                              incoming_->received_bytes(), incoming_->commit().stream_bytes));
  }
  SPARCL_FAILPOINT("subscriber.staged");
  staged_.push_back(std::move(incoming_));
  came_.notify_all();  // it may have been checked before
  is_requested_ = false;
  progress_.begin();
  retry_s_ = kFirstRetry;
  tell(Ack{AckStage::kStaged, staged_.back()->update().target(), true});
  return {};
}

// --- what this replica came with ---

Status Subscriber::take_identity() {
  SPARCL_ASSIGN_OR_RETURN(Identity identity, parse_identity(publisher_.link().content()));
  if (identity.model_id != options_.model_id || identity.schema_hash != state_.schema_hash ||
      identity.epoch != publisher_epoch_) {
    return Status(Code::kMismatch,
                  "the digest that came is of another model, or of another publisher");
  }
  if (trusted_) {
    if (!identity.signature) {
      return Status(
          Code::kUnauthorized,
          "the digest of a version is not signed, and this replica trusts signed ones only");
    }
    SPARCL_RETURN_IF_ERROR(trusted_->verify(signed_bytes(identity), identity.signature->key,
                                            identity.signature->signature));
  }
  comparison_.reset(new Comparison{std::move(identity), StateDigest(state_.schema_hash)});
  return {};
}

bool Subscriber::may_compare() const {
  return comparison_ != nullptr && staged_.empty() && !is_applying_ && !is_going_back_;
}

void Subscriber::compare_on(double now) {
  if (!may_compare()) return;
  const HeldVersion version = comparison_->with.version;
  const auto is_another = [&](const std::string& why) {
    comparison_ = nullptr;
    const Status told(Code::kWrongBase, why);
    const std::uint64_t times = warnings_.count(why, now);
    if (times > 0) log_warn("replication: {}{}: all bytes are asked for", why, times_text(times));
    if (publisher_.is_ready())
      publisher_.link().queue(MessageType::kNack,
                              Nack{{0, version.version}, told.code(), true, why});
  };
  const bool is_like = held_.hash == version.hash;
  if (is_vouched() || (!is_like && !options_.holds_copy))
    return is_another("what is held has changed since it was to be compared");
  const Result<bool> whole =
      comparison_->digest.step(*state_.map, {state_.readable()}, kBlocksCompared);
  if (whole.ok() && !*whole) return;
  const Result<Digest256> digest =
      whole.ok() ? comparison_->digest.finish() : Result<Digest256>(whole.status());
  if (!digest.ok()) return is_another(digest.status().message());
  if (!is_like || *digest != comparison_->with.digest) {
    const std::string why = fmt::format(
        "this replica started with bytes that {} version {}, but their SHA-256 is another one",
        is_like ? "have the state hash of" : "may be a copy of", version.version);
    const bool can_ask = may_ask_for_blocks_ &&
                         comparison_->digest.of_blocks().size() <= kMaxDigestedBlocks &&
                         publisher_.is_ready();
    if (!can_ask) return is_another(why);
    log_warn("replication: {}: the blocks that differ are asked for", why);
    publisher_.link().queue(MessageType::kBlocks,
                            BlockDigests{version, comparison_->digest.of_blocks()});
    unlike_ = std::move(comparison_);
    return;
  }
  unlike_ = nullptr;
  log_info("replication: what this replica came with is version {}, byte for byte",
           version.version);
  comparison_ = nullptr;
  trust_ = Trust::kVouched;
  if (publisher_.is_ready())
    publisher_.link().queue(MessageType::kAck, Ack{AckStage::kHeld, held_, true});
}

// Of the state that a repair has made of what this replica came with: all of it is the version that
// the publisher vouches for.
Status Subscriber::check_repaired(const ReplicatedState& written, Swap& swap) const try {
  StateDigest now(state_.schema_hash);
  const Result<bool> whole = now.step(*written.map, {written.readable()}, UINT64_MAX);
  SPARCL_ASSIGN_OR_RETURN(const Digest256 digest,
                          whole.ok() ? now.finish() : Result<Digest256>(whole.status()));
  if (digest != unlike_->with.digest) {
    return Status(Code::kCorrupt,
                  fmt::format("the blocks that were sent anew have not led to version {} (SHA-256)",
                              unlike_->with.version.version));
  }
  for (std::size_t i = 0; i < now.of_blocks().size(); ++i) {
    if (now.of_blocks()[i] != unlike_->digest.of_blocks()[i]) ++swap.damaged_blocks;
  }
  return {};
} catch (const std::bad_alloc&) {  // the update is applied: it cannot be tried again
  return Status(Code::kSystemError, "there is no memory to compare what was repaired by SHA-256");
}

// Though this replica came with a version that may have been nearly the publisher's.
void Subscriber::tell_why_all_bytes(const Commit& commit) {
  if (!commit.is_anchor || !options_.holds_copy || trust_ != Trust::kUnknown || !staged_.empty())
    return;
  const char* why =
      "the publisher keeps no version with which the bytes that this replica started with can be "
      "compared";
  if (!may_ask_for_blocks_) why = "the blocks that differ could not be sent alone";
  if (unlike_ != nullptr)
    why =
        "more than half of the blocks that this replica came with differ, or new versions came too "
        "fast";
  log_warn("replication: version {} comes with all its bytes: {}", commit.version, why);
}

}  // namespace sparcl::replication
