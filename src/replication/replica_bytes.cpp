// The bytes that a replica holds: how far they are vouched for, and how next() and the user change
// them.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "src/replication/replica_machine.hpp"

namespace sparcl::replication {
namespace {

// An unsigned epoch counts up to this long after the clock. Publishers without keys believe a
// little more (PublisherEpoch).
constexpr std::uint64_t kMaxAheadNanoseconds = std::uint64_t{364} * 24 * 3600 * 1'000'000'000;

}  // namespace

// --- bytes that the replica came with ---

Status ReplicaMachine::check_identity(const Identity& identity) const {
  if (identity.model_id != options_.model_id || identity.schema_hash != options_.schema_hash ||
      identity.epoch != publisher_epoch_) {
    return Status(Code::kMismatch,
                  "the digest that came is of another model, or of another publisher");
  }
  if (options_.trusted) {
    if (identity.signatures.empty()) {
      return Status(
          Code::kUnauthorized,
          "the digest of a version is not signed, and this replica trusts signed ones only");
    }
    SPARCL_RETURN_IF_ERROR(options_.trusted->verify(signed_bytes(identity), identity.signatures));
  }
  return {};
}

Status ReplicaMachine::take_identity(Identity identity) {
  SPARCL_RETURN_IF_ERROR(check_identity(identity));
  comparison_.emplace(
      Comparison{std::move(identity), model::StateIdentity(options_.schema_digest)});
  return {};
}

bool ReplicaMachine::may_compare() const {
  return comparison_.has_value() && staged_.empty() && is<replica_phase::Resting>(writer_);
}

model::StateIdentity* ReplicaMachine::to_compare(double now) {
  if (!may_compare()) return nullptr;
  const bool is_like = held_.hash == comparison_->with.version.hash;
  if (!is_vouched() && (is_like || options_.holds_copy)) return &comparison_->digest;
  refuse_comparison("what is held has changed since it was to be compared", now);
  return nullptr;
}

void ReplicaMachine::refuse_comparison(const std::string& why, double now) {
  const HeldVersion version = comparison_->with.version;
  comparison_.reset();
  const std::uint64_t times = warnings_.count(why, now);
  if (times > 0) log_warn("replication: {}{}: all bytes are asked for", why, times_text(times));
  if (publisher_.is_ready())
    act(replica_action::Refuse{UpstreamKind::kPublisher,
                               {{0, version.version}, Code::kWrongBase, true, why}});
}

void ReplicaMachine::on_digest(const Result<Digest256>& digest, double now) {
  if (!digest.ok()) return refuse_comparison(digest.status().message(), now);
  const HeldVersion version = comparison_->with.version;
  const bool is_like = held_.hash == version.hash;
  if (!is_like || *digest != comparison_->with.digest) {
    return ask_for_blocks(
        fmt::format(
            "this replica started with bytes that {} version {}, but their SHA-256 is another one",
            is_like ? "have the state hash of" : "may be a copy of", version.version),
        now);
  }
  log_info("replication: what this replica came with is version {}, byte for byte",
           version.version);
  comparison_.reset();
  bytes_ = replica_phase::Vouched{};
  if (publisher_.is_ready())
    act(replica_action::Offer{UpstreamKind::kPublisher, {AckStage::kHeld, held_, true}});
}

void ReplicaMachine::ask_for_blocks(const std::string& why, double now) {
  auto* brought = std::get_if<replica_phase::Brought>(&bytes_);
  const bool may_ask = brought == nullptr || brought->may_ask_for_blocks;
  const std::vector<Digest256>& blocks = comparison_->digest.of_blocks();
  if (!may_ask || blocks.size() > kMaxDigestedBlocks || !publisher_.is_ready())
    return refuse_comparison(why, now);
  log_warn("replication: {}: the blocks that differ are asked for", why);
  send(UpstreamKind::kPublisher, MessageType::kBlocks,
       BlockDigests{comparison_->with.version, blocks});
  if (brought != nullptr) brought->asked = std::move(*comparison_);
  comparison_.reset();
}

// --- all bytes that another replica makes ---

// The SHA-256 of a version that the parent may give.
Status ReplicaMachine::take_vouch(Identity identity, double now) {
  SPARCL_RETURN_IF_ERROR(check_identity(identity));
  replica_phase::FromParent* at = parent();
  if (at == nullptr || !at->giver || identity.placement != placements_)
    return {};  // it has left that parent, or has the bytes
  if (at->giver->identities.size() >= replica_phase::Giver::kMaxIdentities)
    return out_of_place(MessageType::kIdentity);
  at->giver->identities.push_back(std::make_shared<const Identity>(std::move(identity)));
  auto* awaits = std::get_if<replica_phase::AwaitsAnnouncement>(&transfer_);
  const IdentityRef matching = awaits != nullptr ? identity_of(awaits->offer.commit) : nullptr;
  if (matching == nullptr) return {};
  Offer offer = std::move(awaits->offer);
  interrupt();
  const Status status = accept_offer(std::move(offer), matching, now);
  if (!status.ok() && parent() != nullptr) act(replica_action::Part{UpstreamKind::kParent, status});
  return {};
}

// By which the parent's own anchor can be checked; nullptr: it must not be taken. A replica that
// holds a version has too much to lose.
ReplicaMachine::IdentityRef ReplicaMachine::identity_of(const Commit& commit) const {
  const replica_phase::FromParent* at = parent();
  const bool may_be_given = at != nullptr && at->giver && commit.is_anchor &&
                            commit.stream_bytes > 0 && !holds_published() && chain_length() == 0;
  if (!may_be_given) return nullptr;
  const auto is_of = [&](const IdentityRef& each) {
    return each->version == HeldVersion{commit.version, commit.target_hash} &&
           each->epoch == commit.epoch && each->model_id == commit.model_id &&
           each->schema_hash == commit.schema_hash;
  };
  const auto found = std::ranges::find_if(at->giver->identities, is_of);
  return found != at->giver->identities.end() ? *found : nullptr;
}

// The publisher has the bytes, too.
void ReplicaMachine::leave_if_not_given(double now) {
  const replica_phase::FromParent* at = parent();
  if (at == nullptr || !at->giver) return;
  if (is_receiving()) {
    const Status verdict = at->progress.verdict(newest_, now);
    if (!verdict.ok()) leave_parent(verdict.with_prefix(fmt::format("{}: ", parent_view_.who())));
    return;
  }
  if (now <= at->giver->until) return;
  const bool could_give = !at->giver->identities.empty();  // else the publisher's word is late
  leave_parent(Status(could_give ? Code::kTimeout : Code::kWrongBase,
                      fmt::format("{}: it has not given all bytes of what it holds in {:.1f} s",
                                  parent_view_.who(), now - at->since)));
}

// --- damage ---

bool ReplicaMachine::may_sweep() const {
  return holds_published() && is<replica_phase::Resting>(writer_) && to_check() == nullptr;
}

// Damaged bytes are no version: the blocks that differ are asked for, or all bytes.
void ReplicaMachine::on_damage(Status why, const Hash128& found, const HeldVersion& wanted,
                               const std::vector<Hash128>& block_hashes) {
  bytes_ = replica_phase::Damaged{{wanted, block_hashes}};
  held_ = {0, found};
  damage_ = std::move(why);
  pin_.to = replica_phase::Pin::To::kAhead;
  staged_.clear();
  transfer_ = replica_phase::NoUpdate{};
  must_begin_anew_ = true;
  act(replica_action::WakeUser{});
  log_error("replication: {}", damage_.message());
}

// --- the pin ---

Status ReplicaMachine::on_pin(std::uint64_t version, const std::optional<HeldVersion>& before,
                              const char* why) {
  using To = replica_phase::Pin::To;
  const bool is_held = holds_published() && version == held_.version;
  const bool is_applying = !is<replica_phase::Resting>(writer_);
  if (version != 0 && is<replica_phase::Restoring>(writer_))
    return Status(Code::kInvalidUsage,
                  "another version is being written: pin a version when that call has ended");
  if (version != 0 && !is_held && before && version == before->version && !is_applying) {
    pin_.to = To::kBack;
  } else if (version != 0 && holds_published() && version < held_.version) {
    const std::string back =
        is_applying ? "and is going on to a newer one"
        : before    ? fmt::format("and can go back to version {} alone, which it held before",
                                  before->version)
                    : fmt::format("and there is no rollback: {}", why);
    return Status(Code::kInvalidUsage,
                  fmt::format("version {} is past: this replica holds version {} already, {}",
                              version, held_.version, back));
  } else if (pin_.to != To::kHeld || !is_held) {
    pin_.to = To::kAhead;
  }
  if (std::exchange(pin_.version, version) != version && version != 0) drop_past_pin();
  return {};
}

// Drops the update that leads past the pin, and all after it: the publisher may have a path that
// stops at the pin.
void ReplicaMachine::drop_past_pin() {
  std::uint64_t before = held_.version;
  const auto passes = [&](const StagedUpdate& update) {
    const std::uint64_t version = update.commit().version;
    return std::exchange(before, version) < pin_.version && version > pin_.version;
  };
  const auto* applying = std::get_if<replica_phase::Applying>(&writer_);
  const bool is_passing = applying != nullptr && passes(*applying->update);
  const auto first =
      is_passing ? staged_.begin()
                 : std::ranges::find_if(staged_, [&](const auto& each) { return passes(*each); });
  const bool is_dropped = is_passing || first != staged_.end();
  if (!is_dropped && (incoming() == nullptr || !passes(*incoming()))) return;
  staged_.erase(first, staged_.end());
  transfer_ = replica_phase::NoUpdate{};
  must_begin_anew_ = true;
}

// A pin that is reached is of these bytes, whatever another publisher calls its own.
bool ReplicaMachine::may_lead_on(const StagedUpdate& update) const {
  const bool is_reached = pin_.version != 0 && holds_published() && held_.version == pin_.version;
  return pin_.to == replica_phase::Pin::To::kAhead && !is_reached &&
         (pin_.version == 0 || update.commit().version <= pin_.version);
}

// --- next() ---

bool ReplicaMachine::may_lead_on() const {
  return !staged_.empty() && may_lead_on(*staged_.front());
}

bool ReplicaMachine::may_apply() const { return may_lead_on() && staged_.front()->is_checked(); }

bool ReplicaMachine::has_reason() const {
  return has_trouble_to_tell() || wants_back() || may_apply();
}

bool ReplicaMachine::is_as_far_as_it_goes() const {
  return held_.version >= (pin_.version == 0 ? newest_ : std::min(newest_, pin_.version));
}

replica_phase::Applying& ReplicaMachine::begin_applying() {
  replica_phase::Applying next{std::move(staged_.front()), std::nullopt};
  staged_.erase(staged_.begin());
  auto* brought = std::get_if<replica_phase::Brought>(&bytes_);
  if (brought != nullptr && next.update->commit().is_repair()) {
    // Without a digest to expect, nothing passes the check.
    next.expected.emplace(Comparison{{}, model::StateIdentity(options_.schema_digest)});
    if (brought->asked) std::swap(*next.expected, *brought->asked);
    brought->asked.reset();
  }
  if (next.update->identity() != nullptr)
    next.expected.emplace(
        Comparison{*next.update->identity(), model::StateIdentity(options_.schema_digest)});
  return writer_.emplace<replica_phase::Applying>(std::move(next));
}

void ReplicaMachine::on_applied_nothing() {
  auto& at = std::get<replica_phase::Applying>(writer_);
  if (auto* brought = std::get_if<replica_phase::Brought>(&bytes_);
      brought != nullptr && at.expected && at.update->identity() == nullptr)
    brought->asked = std::move(at.expected);
  staged_.insert(staged_.begin(), std::move(at.update));
  writer_ = replica_phase::Resting{};
}

void ReplicaMachine::on_not_applied(const Status& why, bool writes_in_place, double now) {
  const replica_phase::Applying at = std::move(std::get<replica_phase::Applying>(writer_));
  writer_ = replica_phase::Resting{};
  // If the arrays were written to, they hold neither what this replica came with nor a version. No
  // blocks are asked for again.
  const bool is_given = at.update->identity() != nullptr;
  was_misled_ = was_misled_ || is_given;
  if (at.expected && (writes_in_place || !is_given)) {
    bytes_ = replica_phase::Brought{false, std::nullopt};
    if (writes_in_place) held_ = {0, at.update->commit().target_hash};
    must_begin_anew_ = true;
  }
  refuse(at.update->update().name(), why, true, now);
}

// The arrays hold it: nothing here fails.
std::unique_ptr<StagedUpdate> ReplicaMachine::on_applied(std::uint64_t system_ns) {
  std::unique_ptr<StagedUpdate> applied =
      std::move(std::get<replica_phase::Applying>(writer_).update);
  writer_ = replica_phase::Resting{};
  held_ = applied->update().target();
  epoch_ = applied->commit().epoch;
  // Without keys an epoch far ahead is anybody's word: it must not keep this replica from its true
  // publisher.
  latest_epoch_ = options_.trusted
                      ? epoch_
                      : std::max(latest_epoch_, std::min(epoch_, system_ns + kMaxAheadNanoseconds));
  latest_version_ = held_.version;
  // A giver's anchor has no signature of its own: an earlier one of this epoch stays.
  const bool keeps_proof =
      applied->identity() != nullptr && proof_ != nullptr && proof_->commit.epoch == epoch_;
  if (!keeps_proof) proof_ = applied->proof();
  const bool is_signed = applied->identity() != nullptr && !applied->identity()->signatures.empty();
  given_by_ = is_signed ? applied->identity() : nullptr;
  bytes_ = replica_phase::Published{};
  was_misled_ = false;
  has_news_ = true;
  newest_ = std::max(newest_, held_.version);
  forget_trouble();
  forget_untrusted();  // the keys may have changed meanwhile
  return applied;
}

// A pin names one of the publisher's versions.
bool ReplicaMachine::may_take_elsewhere() const {
  return pin_.version == 0 && is<replica_phase::Resting>(writer_);
}

void ReplicaMachine::begin_taking() { writer_ = replica_phase::Restoring{}; }

// What has come leads on from what was held before: it is asked for again. A replica that is only
// told of versions has been sent nothing.
void ReplicaMachine::on_taken(const HeldVersion& held) {
  writer_ = replica_phase::Resting{};
  bytes_ = replica_phase::Published{};
  held_ = held;
  // A number that the publisher has not told may be of another one: then all that it has is newer.
  epoch_ = held.version <= newest_ ? publisher_epoch_ : 0;
  if (epoch_ != 0 && epoch_ == latest_epoch_)
    latest_version_ = std::max(latest_version_, held_.version);
  staged_.clear();
  transfer_ = replica_phase::NoUpdate{};
  comparison_.reset();
  has_news_ = only_told_;
  must_begin_anew_ = must_begin_anew_ || !only_told_;
}

void ReplicaMachine::begin_restoring() {
  pin_.to = replica_phase::Pin::To::kAhead;
  writer_ = replica_phase::Restoring{};
}

// Nothing that has come leads on from there: it is asked for again.
void ReplicaMachine::on_restored(const HeldVersion& held, std::uint64_t epoch) {
  writer_ = replica_phase::Resting{};
  held_ = held;
  epoch_ = epoch;
  latest_version_ = epoch_ == latest_epoch_ ? held_.version : 0;  // its user's own wish
  if (pin_.version == held_.version) pin_.to = replica_phase::Pin::To::kHeld;
  staged_.clear();
  transfer_ = replica_phase::NoUpdate{};
  has_news_ = false;
  must_begin_anew_ = true;
  forget_trouble();
}

void ReplicaMachine::on_not_restored(const Status& why, const std::optional<HeldVersion>& before) {
  writer_ = replica_phase::Resting{};
  const bool is_wanted = before && pin_.version == before->version;  // still
  if (why.code() == Code::kOutOfMemory && is_wanted) pin_.to = replica_phase::Pin::To::kBack;
}

Status ReplicaMachine::nothing_newer(double seconds) const {
  if (Status why = why_nothing_comes(); !why.ok()) return why;
  const bool is_past_pin = pin_.version != 0 && !holds_published() && !staged_.empty() &&
                           staged_.front()->commit().version > pin_.version;
  const bool is_damaged = is<replica_phase::Damaged>(bytes_);
  if (is_past_pin) {
    return Status(is_damaged ? Code::kCorrupt : Code::kTimeout,
                  fmt::format("{} this replica is pinned to version {}, which cannot be had any "
                              "more. Version {} is here: move the pin or take it away",
                              is_damaged ? "the tensors are damaged, and" : "no version is held:",
                              pin_.version, staged_.front()->commit().version));
  }
  return Status(
      Code::kTimeout,
      fmt::format("no newer version than {} has come within {:g} s{}", held_.version, seconds,
                  pin_.version != 0
                      ? fmt::format("; this replica is pinned to version {}", pin_.version)
                      : ""));
}

}  // namespace sparcl::replication
