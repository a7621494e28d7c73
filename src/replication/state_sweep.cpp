#include "src/replication/state_sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "src/codec/state_hash.hpp"

namespace sparcl::replication {
namespace {

// A quarter of a core at most. Heuristics.
constexpr std::uint64_t kBlocksAtOnce = 64;  // a millisecond or two
constexpr double kRestSeconds = 4e-3;

}  // namespace

Status StateSweep::step(const ReplicatedState& state, const HeldVersion& held, double now) {
  if (period_s_ <= 0) {
    due_ = std::numeric_limits<double>::infinity();
    return {};
  }
  if (due_ == 0) {
    due_ = now + period_s_;
    return {};
  }
  if (!is_begun_ || held != of_) {
    of_ = held;
    next_block_ = 0;
    found_ = state.schema_hash;
    block_hashes_.clear();
    is_begun_ = true;
  }
  const std::uint64_t end = std::min(next_block_ + kBlocksAtOnce, state.map->block_count());
  const std::size_t before = block_hashes_.size();
  codec::add_block_hashes(*state.map, {state.readable()}, next_block_, end, *state.kernels, block_hashes_);
  for (std::size_t i = before; i < block_hashes_.size(); ++i) found_ = found_ + block_hashes_[i];
  if (state.map->block_count() > kMaxDamagedBlocks) block_hashes_.clear();
  next_block_ = end;
  due_ = now + kRestSeconds;
  if (end < state.map->block_count()) return {};
  is_begun_ = false;
  due_ = now + period_s_;
  if (found_ == held.hash) {
    block_hashes_ = {};
    return {};
  }
  return Status(Code::kCorrupt,
                fmt::format("the tensors do not hold version {} any more: their hash is {} instead of {} (their memory is damaged, "
                            "or the program wrote to them)",
                            held.version, to_hex(found_), to_hex(held.hash)));
}

}  // namespace sparcl::replication
