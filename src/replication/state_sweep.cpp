#include "src/replication/state_sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>

#include "src/codec/state_hash.hpp"

namespace sparcl::replication {
namespace {

// A quarter of a core at most. Heuristics.
constexpr std::uint64_t kBlocksAtOnce = 64;  // a millisecond or two
constexpr std::uint64_t kChangesAtOnce = std::uint64_t{128} << 10;
constexpr double kRestSeconds = 4e-3;

}  // namespace

Status StateSweep::step(const ReplicatedState& state, const HeldVersion& held,
                        const Rollback& rollback, double now) {
  if (period_s_ <= 0) {
    due_ = std::numeric_limits<double>::infinity();
    return {};
  }
  if (due_ == 0) {
    due_ = now + period_s_;
    return {};
  }
  due_ = now + kRestSeconds;
  if (is_begun_ && (held != of_ || followed_ > 0)) {
    if (!wants_certainty_ && follow(state, held, rollback)) return {};
    is_begun_ = false;
  }
  if (!is_begun_) begin(state, held);
  look_at_blocks(state);
  if (next_block_ < state.map->block_count()) return {};
  if (found_ != held.hash && has_followed_ &&
      has_two_sets_) {  // what one set holds is damaged, if any: which one?
    wants_certainty_ = true;
    is_begun_ = false;
    return {};
  }
  Status status;
  if (found_ == held.hash) {
    block_hashes_ = {};
  } else {
    status =
        Status(Code::kCorrupt,
               fmt::format("the tensors do not hold version {} any more: their hash is {} instead "
                           "of {} (their memory is damaged, or the program wrote to them)",
                           held.version, to_hex(found_), to_hex(held.hash)));
  }
  wants_certainty_ = is_begun_ = false;
  due_ = now + period_s_;
  return status;
}

void StateSweep::begin(const ReplicatedState& state, const HeldVersion& held) {
  of_ = held;
  followed_ = 0;
  next_block_ = 0;
  found_ = state.schema_hash;
  has_followed_ = false;
  block_hashes_.clear();
  block_hashes_.reserve(state.map->block_count() > kMaxDamagedBlocks ? kBlocksAtOnce
                                                                     : state.map->block_count());
  is_begun_ = true;
}

void StateSweep::look_at_blocks(const ReplicatedState& state) {
  const std::uint64_t end = std::min(next_block_ + kBlocksAtOnce, state.map->block_count());
  const std::size_t before = block_hashes_.size();
  try {
    codec::add_block_hashes(*state.map, {state.readable()}, next_block_, end, *state.kernels,
                            block_hashes_);
  } catch (const std::bad_alloc&) {
    block_hashes_.resize(before);
    throw;
  }
  for (std::size_t i = before; i < block_hashes_.size(); ++i) found_ = found_ + block_hashes_[i];
  if (state.map->block_count() > kMaxDamagedBlocks) block_hashes_.clear();
  next_block_ = end;
}

// Some of what has changed in the blocks that were seen. False: that is not known, or yet another
// version is held by now.
bool StateSweep::follow(const ReplicatedState& state, const HeldVersion& held,
                        const Rollback& rollback) {
  const codec::ChangeLog* log = rollback.only_step_from(of_);
  if (log == nullptr || (followed_ > 0 && held != to_)) return false;
  to_ = held;
  codec::ChangeLog::Room room;
  for (std::uint64_t changes = 0; changes < kChangesAtOnce; ++followed_) {
    const bool is_over = followed_ == log->size() || (*log)[followed_].index >= next_block_;
    if (is_over) {
      of_ = held;
      followed_ = 0;
      has_followed_ = true;
      return true;
    }
    const codec::ChangeLog::Block block = (*log)[followed_];
    const Hash128 added = log->added(followed_, *state.map, state.arrays, *state.kernels, room);
    found_ = found_ + added;
    if (!block_hashes_.empty()) block_hashes_[block.index] = block_hashes_[block.index] + added;
    changes += block.positions.size();
  }
  return true;
}

}  // namespace sparcl::replication
