// How updates come to a subscriber: what is offered, its bytes, and that it is whole.

#include <fmt/format.h>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/replication/subscriber.hpp"

namespace sparcl::replication {
namespace {

constexpr std::size_t kMostStaged = 3;  // a publisher sends no more than two before it hears that they are applied

// What an update of this state can be at most: all of it, with room for what frames it. More is a lie.
std::uint64_t most_stream_bytes(const codec::BlockMap& map) {
  return map.byte_count() + map.byte_count() / 8 + map.block_count() * 256 + (std::uint64_t{1} << 20);
}

}  // namespace

Status Subscriber::check_offer(const Offer& offer) const {
  const Commit& commit = offer.commit;
  if (trusted_) {
    if (!offer.signature) return Status(Code::kUnauthorized, "the commit is not signed, and this replica trusts signed ones only");
    SPARCL_RETURN_IF_ERROR(trusted_->verify(serialise(commit), offer.signature->key, offer.signature->signature));
  }
  if (commit.model_id != options_.model_id || commit.schema_hash != state_.schema_hash) {
    return Status(Code::kMismatch, "the commit is for another model");
  }
  if (commit.stream_bytes > most_stream_bytes(*state_.map)) {
    return Status(Code::kCorrupt, fmt::format("the commit claims {} bytes; no update of this model has more than {}",
                                              commit.stream_bytes, most_stream_bytes(*state_.map)));
  }
  if (staged_.size() >= kMostStaged) {
    return Status(Code::kCorrupt, fmt::format("{} updates wait to be applied already: no more were to be sent", staged_.size()));
  }
  if (commit.epoch != publisher_epoch_) {
    return Status(
        Code::kUnauthorized,
        fmt::format("the commit of version {} is of another publisher than the one that this replica listens to", commit.version));
  }
  const std::uint64_t epoch = staged_.empty() ? epoch_ : staged_.back()->commit().epoch;
  const HeldVersion last = tip();
  if (commit.epoch < latest_epoch_) {
    return Status(Code::kUnauthorized,
                  fmt::format("the commit of version {} is of an earlier publisher, which was replaced since", commit.version));
  }
  if (trusted_ && commit.epoch == latest_epoch_ && commit.version < latest_version_) {
    return Status(Code::kUnauthorized, fmt::format("version {} is older than version {}, which this replica has held of the same "
                                                   "publisher: it is not gone back to",
                                                   commit.version, latest_version_));
  }
  const bool has_last = holds_published_ || !staged_.empty();
  if (has_last && commit.epoch == epoch && commit.version <= last.version) {
    return Status(Code::kUnauthorized, fmt::format("the commit of version {} is an old one: version {} has been here already",
                                                   commit.version, last.version));
  }
  return {};
}

Status Subscriber::take_offer(double now) {
  MessageLink& link = source().link();
  Result<Offer> offer = parse_offer(link.content());
  if (!offer.ok()) return offer.status();
  SPARCL_RETURN_IF_ERROR(check_offer(*offer).with_prefix("an update is refused: "));
  if (offer->signature && !trusted_ && !std::exchange(has_told_of_signatures_, true)) {
    log_info(
        "replication: what {} publishes is signed, and nobody's signature is asked for here: name its public key to trust it "
        "alone (options.trust_path, --trust)",
        publisher_.who());
  }
  hear_of(source(), offer->commit.version);
  is_requested_ = false;
  const bool is_resumed = incoming_ != nullptr && incoming_->commit() == offer->commit;
  if (!is_resumed) {
    if (incoming_ != nullptr) relay_.withdraw(incoming_->shared());
    incoming_ = std::make_unique<StagedUpdate>(std::move(offer->commit), offer->signature, way_back_.most_bytes());
    if (!incoming_->commit().is_anchor && incoming_->commit().base_hash != tip().hash) {
      const std::string text =
          fmt::format("it is for the state {}, held is {}", to_hex(incoming_->commit().base_hash), to_hex(tip().hash));
      const UpdateName name = incoming_->update().name();
      incoming_ = nullptr;
      refuse(name, Status(Code::kWrongBase, text), true);
      return {};
    }
    if (has_parent_ && !trusted_) incoming_->doubted_since = now;
    relay_.pass_on(incoming_->shared());
  }
  if (!has_parent_) incoming_->doubted_since.reset();  // the publisher says so
  is_requested_ = true;
  link.queue(MessageType::kRequest, Request{incoming_->update().name(), incoming_->received_bytes()});
  relay_.publish(now);
  return {};
}

Buffer Subscriber::place_of(const Upstream& from, const ChunkHead& chunk, std::size_t count) {
  const bool is_wanted = &from == &source() && is_requested_ && incoming_ != nullptr &&
                         chunk.version == incoming_->commit().version && chunk.first_byte == incoming_->received_bytes();
  return is_wanted ? incoming_->place(count) : Buffer();
}

Status Subscriber::take_memory(Upstream& from, const Piece& piece, Buffer memory, double now) {
  const bool is_wanted = &from == &source() && is_requested_ && incoming_ != nullptr;
  if (!is_wanted) return {};  // of an update that was refused meanwhile
  const std::size_t count = memory.size();
  if (piece.version != incoming_->commit().version || !incoming_->adopt(piece.first_byte, std::move(memory))) {
    return Status(Code::kCorrupt,
                  fmt::format("a piece of {} bytes at byte {} of version {} is out of place: awaited is byte {} of version {}",
                              count, piece.first_byte, piece.version, incoming_->received_bytes(), incoming_->commit().version));
  }
  relay_.publish(now);
  SPARCL_FAILPOINT("subscriber.receiving");
  return {};
}

Status Subscriber::take_chunk(double now) {
  if (!is_requested_ || incoming_ == nullptr) return {};  // of an update that was refused meanwhile
  const ChunkHead& chunk = source().link().chunk();
  const std::size_t count = source().link().chunk_bytes();
  if (chunk.version != incoming_->commit().version || chunk.first_byte != incoming_->received_bytes() ||
      count > incoming_->commit().stream_bytes - incoming_->received_bytes()) {
    return Status(Code::kCorrupt,
                  fmt::format("bytes {} to {} of version {} are out of place: awaited is byte {} of version {}", chunk.first_byte,
                              chunk.first_byte + count, chunk.version, incoming_->received_bytes(), incoming_->commit().version));
  }
  incoming_->received(count);
  relay_.publish(now);
  SPARCL_FAILPOINT("subscriber.receiving");
  return {};
}

Status Subscriber::take_commit() {
  const Result<CommitNote> note = parse_commit_note(source().link().content());
  if (!note.ok()) return note.status();
  if (!is_requested_ || incoming_ == nullptr) return {};
  if (note->update != incoming_->update().name() || !incoming_->has_all_bytes()) {
    return Status(Code::kCorrupt, fmt::format("version {} is committed with {} of {} bytes", note->update.version,
                                              incoming_->received_bytes(), incoming_->commit().stream_bytes));
  }
  if (trusted_) {
    if (Status status = incoming_->check_digest(); !status.ok()) {
      const UpdateName name = incoming_->update().name();
      refuse(name, status, true);
      return status;
    }
  }
  SPARCL_FAILPOINT("subscriber.staged");
  staged_.push_back(std::move(incoming_));
  came_.notify_all();  // it may have been checked before
  is_requested_ = false;
  retry_s_ = kFirstRetry;
  tell(Ack{AckStage::kStaged, staged_.back()->update().target()});
  return {};
}

}  // namespace sparcl::replication
