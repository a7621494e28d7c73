#include "src/replication/held_giver.hpp"

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"

namespace sparcl::replication {

void HeldGiver::drop() {
  anchor_is_wanted_ = false;
  repairs_.clear();
  maker_ = nullptr;
  repairer_ = nullptr;
  attempts_ = 0;
}

HeldGiver::Outcome HeldGiver::work(const ReplicatedState& state, const HeldVersion& held, std::uint64_t epoch,
                                   UpdateStore& store) try {
  if (of_ != held) {
    if (repairer_ != nullptr) repairs_.push_front(repairer_->repair());
    maker_ = nullptr;
    repairer_ = nullptr;
  }
  if (maker_ == nullptr && repairer_ == nullptr) {
    if (anchor_is_wanted_ && ++attempts_ > kMostRepairAttempts) {
      log_info("replication: versions come faster than all bytes of one can be made for other replicas");
      anchor_is_wanted_ = false;
      attempts_ = 0;
      return Outcome::kGivenUp;
    }
    begin(state, held, epoch);
  }
  SPARCL_FAILPOINT("subscriber.giving");
  if (maker_ != nullptr) return make_anchor(store);
  return repairer_ != nullptr ? make_repair() : Outcome::kMore;
} catch (const std::exception& error) {
  log_error("replication: nothing can be made of what is held for other replicas: {}", error.what());
  for (const auto& each : repairs_) {
    if (const RepairRef repair = each.lock()) repair->is_over = true;
  }
  drop();
  return Outcome::kGivenUp;
}

// What more can be said of it is known when it is made.
void HeldGiver::begin(const ReplicatedState& state, const HeldVersion& held, std::uint64_t epoch) {
  Commit commit;
  commit.model_id = model_id_;
  commit.epoch = epoch;
  commit.version = held.version;
  commit.schema_hash = state.schema_hash;
  of_ = held;
  if (anchor_is_wanted_) {
    maker_ =
        std::make_unique<UpdateMaker>(state, UpdateMaker::Arrays{state.readable(), nullptr}, nullptr, std::move(commit), false);
    return;
  }
  const RepairRef repair = repairs_.front().lock();
  if (repair == nullptr) return repairs_.pop_front();
  if (++repair->attempts > kMostRepairAttempts) {
    repair->is_over = true;
    return repairs_.pop_front();
  }
  commit.base_hash = repair->held_hash;
  commit.target_hash = held.hash;
  repairer_ =
      std::make_unique<RepairMaker>(state, UpdateMaker::Arrays{state.readable(), nullptr}, repair, std::move(commit), false);
  repairs_.pop_front();  // now: memory may have run out before
}

HeldGiver::Outcome HeldGiver::make_anchor(UpdateStore& store) {
  const Result<bool> whole = maker_->step();
  if (whole.ok() && !*whole) return Outcome::kMore;
  const std::unique_ptr<UpdateMaker> done = std::move(maker_);
  anchor_is_wanted_ = false;
  attempts_ = 0;
  if (!whole.ok()) {
    log_error("replication: all bytes of version {} cannot be given to others: {}", of_.version, whole.status().message());
    return Outcome::kGivenUp;
  }
  std::shared_ptr<Update> made = done->take();
  if (made->target() != of_) return Outcome::kDamaged;
  log_debug("replication: version {} is given to others: {} bytes", of_.version, made->commit.stream_bytes);
  store.keep_anchor(std::move(made));
  return Outcome::kMade;
}

HeldGiver::Outcome HeldGiver::make_repair() {
  if (repairer_->repair().use_count() == 1) {  // its session is over
    repairer_ = nullptr;
    return Outcome::kMore;
  }
  const Result<bool> over = repairer_->step();
  if (over.ok() && !*over) return Outcome::kMore;
  const std::unique_ptr<RepairMaker> done = std::move(repairer_);
  if (over.ok()) {
    done->repair()->update = done->take();
    made_repair_ = done->repair()->update;
  } else {
    log_error("replication: no repair can be given: {}", over.status().message());
  }
  done->repair()->is_over = true;
  return Outcome::kMade;
}

}  // namespace sparcl::replication
