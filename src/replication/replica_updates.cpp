// How an update comes to a replica: the offer, the bytes, and the commit.

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/replication/replica_machine.hpp"

namespace sparcl::replication {
namespace {

Status unauthorized(std::string text) { return Status(Code::kUnauthorized, std::move(text)); }

}  // namespace

// --- an offer ---

// is_given: its signed IDENTITY stands for a signature.
Status ReplicaMachine::check_offer(const Offer& offer, bool is_given) const {
  const Commit& commit = offer.commit;
  if (options_.trusted && !is_given) {
    if (offer.signatures.empty())
      return unauthorized("the commit is not signed, and this replica trusts signed ones only");
    SPARCL_RETURN_IF_ERROR(options_.trusted->verify(serialise(commit), offer.signatures));
  }
  if (commit.model_id != options_.model_id || commit.schema_hash != options_.schema_hash) {
    return Status(Code::kMismatch, "the commit is for another model");
  }
  if (commit.stream_bytes > options_.max_stream_bytes) {
    return Status(
        Code::kCorrupt,
        fmt::format("the commit claims {} bytes; no update of this model has more than {}",
                    commit.stream_bytes, options_.max_stream_bytes));
  }
  if (!has_room(commit.stream_bytes)) {
    return Status(Code::kCorrupt,
                  fmt::format("{} updates wait to be applied already: no more were to be sent",
                              chain_length()));
  }
  return check_order(commit);
}

// Versions of one epoch only rise, and so do epochs.
Status ReplicaMachine::check_order(const Commit& commit) const {
  if (commit.epoch != publisher_epoch_) {
    return unauthorized(
        fmt::format("the commit of version {} is of another publisher than the one that this "
                    "replica listens to",
                    commit.version));
  }
  if (commit.epoch < latest_epoch_) {
    return unauthorized(
        fmt::format("the commit of version {} is of an earlier publisher, which was replaced since",
                    commit.version));
  }
  if (options_.trusted && commit.epoch == latest_epoch_ && commit.version < latest_version_) {
    return unauthorized(
        fmt::format("version {} is older than version {}, which this replica has held of the same "
                    "publisher: it is not gone back to",
                    commit.version, latest_version_));
  }
  if (options_.only_told && holds_published() && commit.version < held_.version) {
    return unauthorized(
        fmt::format("version {} is older than version {}, which is held: numbers decide where "
                    "versions come from a store",
                    commit.version, held_.version));
  }
  const StagedUpdate* staged = last_staged();
  const std::uint64_t epoch = staged != nullptr ? staged->commit().epoch : epoch_;
  const HeldVersion last = tip();
  const bool has_last = holds_published() || staged != nullptr;
  const bool is_label_of_last =
      commit.stream_bytes == 0 && HeldVersion{commit.version, commit.target_hash} == last;
  if (has_last && !is_label_of_last && commit.epoch == epoch && commit.version <= last.version) {
    return unauthorized(
        fmt::format("the commit of version {} is an old one: version {} has been here already",
                    commit.version, last.version));
  }
  return {};
}

// The publisher's own connection, or a trusted key, says whether the update that a parent offers
// exists.
Status ReplicaMachine::on_plan(UpstreamKind from, Offer offer, double now) {
  if (from != sender() || only_told_) return out_of_place(MessageType::kOffer);
  // A parent that replaces an offer before it was announced would never be found out.
  if (std::holds_alternative<replica_phase::AwaitsAnnouncement>(transfer_) && parent() != nullptr)
    return out_of_place(MessageType::kOffer);
  interrupt();
  const bool is_published = options_.trusted
                                ? !offer.signatures.empty()
                                : std::ranges::find(announced_, offer.commit) != announced_.end();
  if (parent() == nullptr || is_published) return accept_offer(std::move(offer), nullptr, now);
  if (const IdentityRef identity = identity_of(offer.commit))
    return accept_offer(std::move(offer), identity, now);
  if (options_.trusted && !parent()->giver) return accept_offer(std::move(offer), nullptr, now);
  std::unique_ptr<StagedUpdate> partial = take_partial();
  transfer_ = replica_phase::AwaitsAnnouncement{std::move(offer), now, std::move(partial)};
  return {};
}

// What came of the same update. Nothing has checked the bytes of another replica's own anchor: they
// go on only as such.
std::unique_ptr<StagedUpdate> ReplicaMachine::take_partial_of(const Offer& offer,
                                                              const IdentityRef& identity) {
  std::unique_ptr<StagedUpdate> update = take_partial();
  if (update == nullptr) return update;
  const bool was_given = update->identity() != nullptr;
  if (update->commit() == offer.commit && was_given == (identity != nullptr)) return update;
  if (!was_given) act(replica_action::Withdraw{update->shared()});
  return nullptr;
}

Status ReplicaMachine::accept_offer(Offer offer, const IdentityRef& identity, double now) {
  SPARCL_RETURN_IF_ERROR(
      check_offer(offer, identity != nullptr).with_prefix("an update is refused: "));
  if (identity != nullptr) offer.signatures.clear();  // whatever they are, they prove nothing
  if (!offer.signatures.empty() && !options_.trusted &&
      !std::exchange(has_told_of_signatures_, true)) {
    log_info(
        "replication: what {} publishes is signed, but this replica checks no signature: name its "
        "public key to trust it alone (options.trust_path, --trust)",
        publisher_.who());
  }
  on_newest(sender(), offer.commit.version);
  std::unique_ptr<StagedUpdate> update = take_partial_of(offer, identity);
  if (update == nullptr) {
    const UpdateName name{offer.commit.base_version, offer.commit.version};
    if (const Status fits = check_base(offer.commit); !fits.ok()) {
      refuse(name, fits, true, now);
      return {};
    }
    tell_why_all_bytes(offer.commit);
    update = std::make_unique<StagedUpdate>(std::move(offer.commit), std::move(offer.signatures),
                                            options_.max_replaced_bytes);
    // An anchor that another replica has made is passed on to none: it is checked only once it is
    // applied.
    if (identity != nullptr) update->set_identity(identity);
    if (identity == nullptr) act(replica_action::PassOn{update->shared()});
  }
  const bool is_believed =
      identity != nullptr ||
      ((!options_.trusted || options_.is_publisher_proven) && parent() == nullptr);
  update->change_sender(is_believed ? StagedUpdate::Leaf::kBelieved : StagedUpdate::Leaf::kChecked);
  const Request request{update->update().name(), update->received_bytes(), update->has_leaves()};
  transfer_ = replica_phase::Receiving{std::move(update)};
  act(replica_action::Chunks{sender(), request});
  act(replica_action::PassBytesOn{});
  return {};
}

// The base of an update must be the publisher's bytes. A state hash alone does not tell: other
// bytes can have it.
Status ReplicaMachine::check_base(const Commit& commit) const {
  if (commit.is_anchor) return {};
  if (commit.base_hash != tip().hash) {
    return Status(Code::kWrongBase, fmt::format("it is for the state {}, held is {}",
                                                to_hex(commit.base_hash), to_hex(tip().hash)));
  }
  const bool may_repair =
      (is<replica_phase::Damaged>(bytes_) && parent() == nullptr) || may_repair_brought(commit);
  if (commit.is_repair() ? may_repair : tip_is_vouched()) return {};
  return Status(
      Code::kWrongBase,
      fmt::format("{}, and this replica came with bytes that the publisher has not vouched for: "
                  "all bytes are to be sent",
                  commit.is_repair() ? "it repairs some blocks" : "it leads on from what is held"));
}

// It is checked by SHA-256 once it is applied: the state hash says nothing of the blocks that it
// leaves alone.
bool ReplicaMachine::may_repair_brought(const Commit& commit) const {
  const auto* brought = std::get_if<replica_phase::Brought>(&bytes_);
  if (brought == nullptr || !brought->asked || chain_length() > 0 || parent() != nullptr)
    return false;
  return HeldVersion{commit.version, commit.target_hash} == brought->asked->with.version;
}

// Though this replica came with a version that may have been nearly the publisher's.
void ReplicaMachine::tell_why_all_bytes(const Commit& commit) {
  const auto* brought = std::get_if<replica_phase::Brought>(&bytes_);
  if (!commit.is_anchor || !options_.holds_copy || brought == nullptr || chain_length() > 0) return;
  const char* why =
      "the publisher keeps no version with which the bytes that this replica started with can be "
      "compared";
  if (!brought->may_ask_for_blocks) why = "the blocks that differ could not be sent alone";
  if (brought->asked)
    why =
        "more than half of the blocks that this replica came with differ, or new versions came too "
        "fast";
  log_warn("replication: version {} comes with all its bytes: {}", commit.version, why);
}

// The update is of no use, and so is what came after it.
void ReplicaMachine::refuse(const UpdateName& update, const Status& why, bool wants_anchor,
                            double now) try {
  act(replica_action::StopPassingOn{});
  staged_.clear();
  transfer_ = replica_phase::NoUpdate{};
  const Status told = why.with_prefix(fmt::format("version {} is refused: ", update.version));
  const std::uint64_t times = warnings_.count(told.message(), now);
  if (times > 0) log_error("replication: {}{}", told.message(), times_text(times));
  // The parent's fault: the publisher will know another path.
  if (parent() != nullptr) return leave_parent(told);
  trouble_ = told;
  if (publisher_.is_ready())
    act(replica_action::Refuse{UpstreamKind::kPublisher,
                               {update, why.code(), wants_anchor, why.message()}});
} catch (const std::bad_alloc&) {
  must_begin_anew_ = true;  // a peer that could not be told learns it by a new HELLO
}

// --- its bytes ---

// The update that `from` sends; nullptr: it was refused meanwhile.
StagedUpdate* ReplicaMachine::received_from(UpstreamKind from) const {
  const auto* at = std::get_if<replica_phase::Receiving>(&transfer_);
  return at != nullptr && from == sender() ? at->update.get() : nullptr;
}

Status ReplicaMachine::on_digests(UpstreamKind from, const Leaves& leaves) {
  if (from != sender()) return out_of_place(MessageType::kLeaves);
  StagedUpdate* update = received_from(from);
  if (update == nullptr) return {};
  SPARCL_RETURN_IF_ERROR(update->take_leaves(leaves));
  if (update->has_leaves()) act(replica_action::PassBytesOn{});
  return {};
}

Buffer ReplicaMachine::destination(UpstreamKind from, const ChunkHead& chunk,
                                   std::size_t count) const {
  StagedUpdate* update = received_from(from);
  const bool is_wanted = update != nullptr && chunk.version == update->commit().version &&
                         chunk.first_byte == update->next_byte();
  return is_wanted ? update->destination(count) : Buffer();
}

Status ReplicaMachine::on_memory(UpstreamKind from, const ChunkHead& at, Buffer memory,
                                 double now) {
  StagedUpdate* update = received_from(from);
  if (update == nullptr) return {};
  if (at.version != update->commit().version) {
    return Status(Code::kCorrupt, fmt::format("a piece of version {} came, awaited is version {}",
                                              at.version, update->commit().version));
  }
  if (parent() != nullptr) parent()->progress.received(memory.size(), now);
  SPARCL_RETURN_IF_ERROR(update->adopt(at.first_byte, std::move(memory)));
  act(replica_action::PassBytesOn{});
  SPARCL_FAILPOINT("subscriber.receiving");
  return {};
}

Status ReplicaMachine::on_chunk(UpstreamKind from, const ChunkHead& chunk, std::size_t count,
                                bool has_destination, double now) {
  if (from != sender()) return out_of_place(MessageType::kChunk);
  StagedUpdate* update = received_from(from);
  if (update == nullptr) return {};
  const Commit& commit = update->commit();
  if (!has_destination || chunk.version != commit.version ||
      chunk.first_byte != update->next_byte() || !update->has_leaves() ||
      count > commit.stream_bytes - update->next_byte()) {
    return Status(
        Code::kCorrupt,
        fmt::format("bytes {} to {} of version {} are out of place: awaited is {} {} of version {}",
                    chunk.first_byte, chunk.first_byte + count, chunk.version,
                    update->has_leaves() ? "byte" : "the list of digests before byte",
                    update->next_byte(), commit.version));
  }
  if (parent() != nullptr) parent()->progress.received(count, now);
  SPARCL_RETURN_IF_ERROR(update->received(count));
  act(replica_action::PassBytesOn{});
  SPARCL_FAILPOINT("subscriber.receiving");
  return {};
}

Status ReplicaMachine::on_end(UpstreamKind from, const UpdateName& name) {
  if (from != sender()) return out_of_place(MessageType::kCommit);
  StagedUpdate* update = received_from(from);
  if (update == nullptr) return {};
  if (name != update->update().name() || !update->has_all_bytes()) {
    return Status(Code::kCorrupt,
                  fmt::format("version {} is committed with {} of {} bytes", name.version,
                              update->received_bytes(), update->commit().stream_bytes));
  }
  SPARCL_FAILPOINT("subscriber.staged");
  staged_.push_back(take_partial());
  act(replica_action::WakeUser{});  // it may have been checked before
  if (parent() != nullptr) {
    parent()->progress.begin();
    parent()->giver.reset();  // it has given
  }
  act(replica_action::NoteProgress{});
  tell(Ack{AckStage::kStaged, staged_.back()->update().target(), true});
  return {};
}

// Takes the update with the bytes that have come. Any sender may send the rest.
std::unique_ptr<StagedUpdate> ReplicaMachine::take_partial() {
  std::unique_ptr<StagedUpdate> update;
  if (auto* at = std::get_if<replica_phase::Receiving>(&transfer_)) update = std::move(at->update);
  if (auto* at = std::get_if<replica_phase::Partial>(&transfer_)) update = std::move(at->update);
  if (auto* at = std::get_if<replica_phase::AwaitsAnnouncement>(&transfer_))
    update = std::move(at->partial);
  transfer_ = replica_phase::NoUpdate{};
  return update;
}

// Its sender sends no more.
void ReplicaMachine::interrupt() {
  std::unique_ptr<StagedUpdate> update = take_partial();
  if (update != nullptr) transfer_ = replica_phase::Partial{std::move(update)};
}

// --- checks of what has come ---

StagedUpdate* ReplicaMachine::to_check() const {
  if (!is<replica_phase::Resting>(writer_)) return nullptr;
  StagedUpdate* first = staged_.empty() ? received_from(sender()) : staged_.front().get();
  return first != nullptr && first->has_checks() ? first : nullptr;
}

void ReplicaMachine::on_checked(Status status, double now) {
  const StagedUpdate* first = staged_.empty() ? incoming() : staged_.front().get();
  if (!status.ok()) return refuse(first->update().name(), status, true, now);
  if (!staged_.empty() && first->is_checked()) act(replica_action::WakeUser{});
}

void ReplicaMachine::on_memory_again() {
  if (trouble_.code() == Code::kOutOfMemory) trouble_ = {};
}

}  // namespace sparcl::replication
