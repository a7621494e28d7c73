#include "src/replication/repair.hpp"

#include <algorithm>

#include "src/base/log.hpp"
#include "src/codec/state_hash.hpp"

namespace sparcl::replication {
namespace {

constexpr std::uint64_t kComparedBlocks = 256;  // some milliseconds; heuristic
constexpr std::uint64_t kDigestedBlocks = 64;   // the same, by SHA-256
constexpr std::uint64_t kMaxDiffering =
    2;  // of the blocks one: where more differ, an anchor is made. Heuristic

}  // namespace

RepairMaker::RepairMaker(const ReplicatedState& state, UpdateMaker::Arrays target, RepairRef repair,
                         Commit commit)
    : state_(state),
      target_(std::move(target)),
      repair_(std::move(repair)),
      commit_(std::move(commit)),
      target_digest_(state.schema_digest),
      differing_((state.map->block_count() + 63) / 64, 0) {}

Result<bool> RepairMaker::step() {
  if (maker_ != nullptr) return maker_->step();
  const std::uint64_t blocks = state_.map->block_count();
  SPARCL_RETURN_IF_ERROR(compare_on());
  if (differing_count_ > blocks / kMaxDiffering) {
    log_info(
        "replication: more than {} of {} blocks of a damaged replica are not version {}'s: all are "
        "sent",
        differing_count_ - 1, blocks, commit_.version);
    return true;
  }
  if (next_block_ < blocks) return false;
  log_info("replication: {} of {} blocks of a damaged replica are not version {}'s",
           differing_count_, blocks, commit_.version);
  maker_ = std::make_unique<UpdateMaker>(state_, std::move(target_), std::move(differing_),
                                         std::move(commit_));
  return false;
}

Status RepairMaker::compare_on() {
  if (!repair_->digests.empty()) {
    SPARCL_RETURN_IF_ERROR(
        target_digest_.step(*state_.map, target_.input(), kDigestedBlocks).status());
    const std::vector<Digest256>& target = target_digest_.of_blocks();
    while (next_block_ < target.size()) note(target[next_block_] != repair_->digests[next_block_]);
    return {};
  }
  const std::uint64_t end = std::min(next_block_ + kComparedBlocks, state_.map->block_count());
  std::vector<Hash128> hashes;
  codec::add_block_hashes(*state_.map, target_.input(), next_block_, end, *state_.kernels, hashes);
  for (const Hash128& each : hashes) note(each != repair_->block_hashes[next_block_]);
  return {};
}

void RepairMaker::note(bool differs) {
  if (differs) {
    differing_[next_block_ / 64] |= std::uint64_t{1} << (next_block_ % 64);
    ++differing_count_;
  }
  ++next_block_;
}

}  // namespace sparcl::replication
