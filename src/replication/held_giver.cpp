#include "src/replication/held_giver.hpp"

#include <exception>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"

namespace sparcl::replication {
namespace {

// That an anchor has at most: what frames the blocks counts, too.
std::uint64_t anchor_bytes(const codec::BlockMap& map) {
  return map.byte_count() + map.byte_count() / 256 + 4096;
}

}  // namespace

void HeldGiver::drop() {
  if (attempts_ > 0) rests_until_ = worked_at_ + kRestPart * (worked_at_ - begun_at_);
  is_wanted_ = false;
  attempts_ = 0;
  maker_ = nullptr;
}

HeldGiver::Outcome HeldGiver::work(const ReplicatedState& state, const HeldVersion& held,
                                   std::uint64_t epoch, double now) {
  Outcome outcome = Outcome::kGivenUp;
  worked_at_ = now;
  try {
    outcome = work_on(state, held, epoch, now);
  } catch (const std::exception& error) {
    log_error("replication: version {} cannot be given to other replicas: {}", held.version,
              error.what());
  }
  if (outcome == Outcome::kMore) return outcome;
  drop();
  return outcome;
}

HeldGiver::Outcome HeldGiver::work_on(const ReplicatedState& state, const HeldVersion& held,
                                      std::uint64_t epoch, double now) {
  if (maker_ != nullptr && (of_ != held || maker_->commit().epoch != epoch)) maker_ = nullptr;
  if (maker_ == nullptr) {
    if (const Status status = begin(state, held, epoch, now); !status.ok()) {
      log_info("replication: version {} is not given to other replicas: {}", held.version,
               status.message());
      return Outcome::kGivenUp;
    }
  }
  SPARCL_FAILPOINT("subscriber.giving");
  const Result<bool> whole = maker_->step();
  if (whole.ok() && !*whole) return Outcome::kMore;
  if (!whole.ok()) {
    log_error("replication: version {} cannot be given to other replicas: {}", of_.version,
              whole.status().message());
    return Outcome::kGivenUp;
  }
  UpdateRef made = finish();
  if (made->target() != of_) return Outcome::kDamaged;
  log_debug("replication: version {} is given to another replica: {} bytes", of_.version,
            made->commit.stream_bytes);
  made_ = std::move(made);
  return Outcome::kMade;
}

Status HeldGiver::begin(const ReplicatedState& state, const HeldVersion& held, std::uint64_t epoch,
                        double now) {
  const std::uint64_t bytes = anchor_bytes(*state.map);
  if (attempts_ == 0 && now < rests_until_)
    return Status(Code::kTimeout, "all bytes were given to another replica just now");
  if (!budget_->has_room(bytes))
    return Status(Code::kOutOfMemory,
                  "the budget for other replicas (SPARCL_PEER_BYTES) has no room for it");
  if (attempts_ == 0) begun_at_ = now;
  if (++attempts_ > kMaxAttempts)
    return Status(Code::kTimeout, "versions come faster than one of them can be made");
  Commit commit;
  commit.model_id = model_id_;
  commit.epoch = epoch;
  commit.version = held.version;
  commit.schema_hash = state.schema_hash;
  of_ = held;
  maker_ = std::make_unique<UpdateMaker>(state, UpdateMaker::Arrays{state.readable(), nullptr},
                                         nullptr, std::move(commit));
  maker_->charge_to(budget_, bytes);
  maker_->leave_digest_out();
  return {};
}

UpdateRef HeldGiver::finish() {
  std::shared_ptr<Update> made = maker_->take();
  made->leaves.resize(leaf_count(made->commit.stream_bytes));
  made->bytes.fit(made->commit.stream_bytes);
  return made;
}

UpdateRef HeldGiver::give() {
  is_wanted_ = is_wanted_ || made_ == nullptr;
  return made_;
}

void HeldGiver::hold(const HeldVersion& held) {
  if (made_ != nullptr && made_->target() != held) made_ = nullptr;
}

void HeldGiver::let_go() {
  if (made_.use_count() == 1) made_ = nullptr;
}

}  // namespace sparcl::replication
