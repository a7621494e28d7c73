// Which publisher a replica believes, and how old its version may be.

#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/replication/replica_machine.hpp"

namespace sparcl::replication {

// --- other keys ---

// Signatures by a key that is not trusted any more count no longer: neither for updates that wait,
// nor for the last epoch. The held bytes are compared with the publisher's.
void ReplicaMachine::on_new_trust(std::optional<trust::TrustedKeys> trusted) {
  options_.trusted = std::move(trusted);
  act(replica_action::StopPassingOn{});
  transfer_ = replica_phase::NoUpdate{};
  staged_.clear();
  must_begin_anew_ = true;
  forget_untrusted();
}

void ReplicaMachine::forget_untrusted() {
  const trust::Signatures* by = proof_ != nullptr ? &proof_->signatures : nullptr;
  std::uint64_t version = proof_ != nullptr ? proof_->commit.version : 0;
  if (given_by_ != nullptr) {
    by = &given_by_->signatures;
    version = given_by_->version.version;
  }
  if (!options_.trusted || by == nullptr || options_.trusted->trusts_any(*by)) return;
  log_warn(
      "replication: version {} was signed by the key {}, which is not trusted any more: what is "
      "held is compared with the publisher's",
      version, trust::fingerprint(by->front().key));
  proof_ = nullptr;
  given_by_ = nullptr;
  latest_epoch_ = latest_version_ = 0;
  if (is_vouched()) bytes_ = replica_phase::Brought{};
}

// --- the files beside the shards ---

Status ReplicaMachine::take_side_files(SideFileSet set) {
  if (set.model_id != options_.model_id || set.epoch != publisher_epoch_ ||
      set.epoch < latest_epoch_) {
    return Status(
        Code::kMismatch,
        "the files beside the shards that came are of another model, or of another publisher");
  }
  if (options_.trusted)
    SPARCL_RETURN_IF_ERROR(options_.trusted->verify(signed_bytes(set), set.signatures)
                               .with_prefix("the files beside the shards: "));
  SPARCL_RETURN_IF_ERROR(side_files_.on_answer(std::move(set)));
  act(replica_action::WakeUser{});
  return {};
}

// --- the age of what is held ---

Status ReplicaMachine::take_fresh(const Fresh& fresh) {
  if (fresh.model_id != options_.model_id || fresh.schema_hash != options_.schema_hash ||
      fresh.epoch != publisher_epoch_ || fresh.epoch < latest_epoch_) {
    return Status(Code::kMismatch,
                  "its word of the newest version is of another model, or of another publisher");
  }
  if (options_.trusted)
    SPARCL_RETURN_IF_ERROR(options_.trusted->verify(signed_bytes(fresh), fresh.signatures)
                               .with_prefix("its word of the newest version: "));
  if (freshness_.on_answer(fresh)) on_newest(UpstreamKind::kPublisher, fresh.newest.version);
  return {};
}

void ReplicaMachine::look_at_age(double now) {
  if (!freshness_.is_on()) return;
  freshness_.on_tick(holds_published() ? held_ : HeldVersion{}, epoch_ == publisher_epoch_, now);
  if (publisher_.is_ready()) {
    const Result<std::optional<Challenge>> challenge = freshness_.next_challenge(now);
    if (!challenge.ok()) note_trouble(challenge.status());
    if (challenge.ok() && *challenge)
      act(replica_action::Send{UpstreamKind::kPublisher,
                               MessageType::kChallenge,
                               {(*challenge)->begin(), (*challenge)->end()}});
  }
  const bool was_stale = is_stale_;
  is_stale_ = freshness_.is_stale(now) && pin_.version == 0;
  stale_age_s_ = freshness_.age_s(now);
  if (is_stale_ && !was_stale) log_warn("replication: {}", stale_error().message());
  if (was_stale && !is_stale_)
    log_warn("replication: version {} is known to be the newest again", held_.version);
  if (!is_stale_ || (was_stale && now - stale_told_at_ < freshness_.max_age_s())) return;
  stale_told_at_ = now;
  tells_age_ = true;
  act(replica_action::WakeUser{});
}

Status ReplicaMachine::stale_error() const {
  const std::optional<HeldVersion>& newest = freshness_.newest();
  std::string last = "the publisher has not said which version is the newest";
  if (newest) last = fmt::format("the publisher's last word was of version {}", newest->version);
  if (!trouble_.ok()) last += fmt::format("; {}", trouble_.message());
  return Status(
      Code::kStale,
      fmt::format("version {} was not known to be the newest for {:.1f} s, and may be {:g} s old "
                  "at most (max_age_s): {}. Check the link to the publisher, or allow a higher age",
                  held_.version, stale_age_s_, freshness_.max_age_s(), last));
}

Status ReplicaMachine::take_age_report() {
  return std::exchange(tells_age_, false) && is_stale_ ? stale_error() : Status();
}

}  // namespace sparcl::replication
