#include <algorithm>
#include <array>

#include "src/base/bytes.hpp"
#include "src/codec/block_mode.hpp"

namespace sparcl::codec {
namespace {

constexpr std::array kModes{
    &kDenseMode, &kFreshMode,    &kVerbatimMode,         &kFlatMode,          &kClassesMode,
    &kMixedMode, &kTwoLevelMode, &kTwoLevelVerbatimMode, &kPackedMode,        &kPackedFreshMode,
    &kCodedMode, &kAddedMode,    &kFlatGroupMode,        &kTwoLevelGroupMode, &kBlockSparseMode};

}  // namespace

std::span<const BlockMode* const> block_modes() { return kModes; }

const BlockMode* find_block_mode(unsigned id) {
  for (const BlockMode* mode : kModes) {
    if (mode->id == id) return mode;
  }
  return nullptr;
}

ModeChoice choose_mode(BlockChanges& changes) {
  ModeChoice best{nullptr, kCannot};
  std::size_t best_total = kCannot;
  for (const BlockMode* mode : kModes) {
    if (changes.for_devices && !mode->on_device) continue;
    changes.bytes_to_beat = best_total;
    const std::size_t bytes = mode->cost(changes);
    if (bytes == kCannot) continue;
    const std::size_t total = bytes + (changes.has_steps && !mode->whole ? kOldCheckBytes : 0);
    if (total >= best_total) continue;
    best = {mode, bytes};
    best_total = total;
  }
  return best;
}

void BlockChanges::make_room() {
  positions.need(kBlockElements + kernels::kPositionSlack);
  old_values.need(kBlockElements * shape().element_bytes() + kernels::kValueSlackBytes);
  new_values.need(kBlockElements * shape().element_bytes() + kernels::kValueSlackBytes);
}

void BlockChanges::set_changes(std::size_t changed) {
  count = changed;
  list_state_ = steps_state_ = two_level_state_ = block_sparse_state_ = State::kUnknown;
}

// Flat and dense have the fewest bytes: verbatim modes have values instead of signs. If bytes
// matter more than time, long gaps may be worth a second level even if few are seen, and the
// entropy coder is tried.
std::size_t BlockChanges::min_bytes() {
  if (count == 0) return 0;
  const std::span<const std::uint16_t> own(positions.data(), count);
  if (whole_sub_shift(own, shape().elements) > 0 ||
      TwoLevelList::is_likely_smaller(own, shape().elements))
    return 0;
  const std::uint64_t bits = min_list_bits(shape().elements, count, own.back()) + count;
  const auto bytes = static_cast<std::size_t>(bits / 8);
  if (!thorough) return std::min(shape().bytes(), bytes);
  return std::min({shape().bytes() / kMinPackedPart, bytes - bytes / 16, min_coded_bytes(*this)});
}

const RiceList& BlockChanges::list() {
  if (list_state_ == State::kUnknown)
    list_.prepare(kernels->lists, {positions.data(), count}, shape().elements);
  list_state_ = State::kReady;
  return list_;
}

const StepList& BlockChanges::steps() {
  if (steps_state_ == State::kUnknown)
    steps_.prepare(*kernels, shape().datatype, old_values.data(), new_values.data(), count);
  steps_state_ = State::kReady;
  return steps_;
}

const TwoLevelList* BlockChanges::two_level() {
  if (two_level_state_ == State::kUnknown) {
    const std::uint64_t least = forced ? TwoLevelList::kAnySize : list().bits();
    const bool pays = two_level_.prepare(kernels->lists, {positions.data(), count},
                                         shape().elements, least, thorough || forced);
    two_level_state_ = pays ? State::kReady : State::kUseless;
  }
  return two_level_state_ == State::kReady ? &two_level_ : nullptr;
}

// Sub-blocks that change in part are searched only if the gaps suggest clusters.
const BlockSparseList* BlockChanges::block_sparse() {
  if (block_sparse_state_ == State::kUnknown) {
    using Look = BlockSparseList::Look;
    const TwoLevelList* clusters = two_level();
    std::uint64_t least =
        clusters != nullptr ? std::min(list().bits(), clusters->bits()) : list().bits();
    if (forced) least = TwoLevelList::kAnySize;
    const Look look = forced || thorough    ? Look::kThorough
                      : clusters != nullptr ? Look::kAlsoPartly
                                            : Look::kWhole;
    const std::span<const std::uint16_t> own(positions.data(), count);
    const bool pays = block_sparse_.prepare(kernels->lists, own, shape().elements, least, look);
    block_sparse_state_ = pays ? State::kReady : State::kUseless;
  }
  return block_sparse_state_ == State::kReady ? &block_sparse_ : nullptr;
}

bool read_change_count(std::span<const std::byte>& payload, BlockShape shape, std::size_t& count) {
  ByteReader reader(payload);
  std::uint64_t value = 0;
  if (!reader.read_varint(value) || value == 0 || value > shape.elements) return false;
  count = static_cast<std::size_t>(value);
  payload = payload.subspan(reader.position());
  return true;
}

void make_room(DecodedBlock& block, BlockShape shape, std::size_t count) {
  block.count = count;
  block.positions.need(count + kernels::kPositionSlack);
  block.values.need(count * shape.element_bytes());
}

}  // namespace sparcl::codec
