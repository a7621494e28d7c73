#include "src/codec/two_level_list.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "src/base/bytes.hpp"

namespace sparcl::codec {
namespace {

constexpr unsigned kShiftMask = 0x0f;
constexpr std::uint8_t kRunsFlag = 0x10;

std::size_t subs_of(std::uint32_t elements, unsigned shift) { return (elements + (std::size_t{1} << shift) - 1) >> shift; }

// About the bits of a list of `count` positions below `span`: remainders are taken to be half their most.
std::uint64_t estimate(std::uint64_t span, std::uint64_t count) {
  const unsigned shift = rice_shift(span, count);
  const std::uint64_t gaps = span - count;
  const std::uint64_t remainders = count * ((std::uint64_t{1} << shift) - 1) / 2;
  return count * (shift + 1) + ((gaps - std::min(gaps, remainders)) >> shift);
}

std::uint64_t estimate_inner(std::uint32_t elements, unsigned shift, std::size_t active, std::size_t count) {
  const std::uint64_t span = std::min<std::uint64_t>(elements, std::uint64_t{active} << shift);
  return estimate(span, std::min<std::uint64_t>(count, span - count));
}

// Are the changes likely to come in clusters? Most blocks end here, so it looks at three sizes of sub-blocks in one pass, and at no
// more than a few hundred changes: all of them would cost 3 % of the time to encode a block of which 1 % changes.
bool looks_clustered(std::span<const std::uint16_t> positions, std::uint32_t elements, std::uint64_t enough_bits) {
  constexpr std::array<unsigned, 3> kShifts{4, 7, 10};
  constexpr std::size_t kSamples = 4;
  std::array<std::uint16_t, 3> apart{};  // neighbours in different sub-blocks; of 16 bits so that the compiler counts many at once
  const std::size_t pairs = positions.size() - 1;
  const std::size_t pairs_each = std::max<std::size_t>(64, pairs / 32);
  const std::size_t samples = pairs < kSamples * pairs_each ? 1 : kSamples;
  const std::size_t taken = samples == 1 ? pairs : pairs_each;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    const std::uint16_t* at = positions.data() + sample * (pairs - taken) / kSamples;
    for (std::size_t i = 0; i < taken; ++i) {
      const auto differing = static_cast<std::uint16_t>(at[i] ^ at[i + 1]);
      for (std::size_t s = 0; s < 3; ++s) apart[s] = static_cast<std::uint16_t>(apart[s] + ((differing >> kShifts[s]) != 0));
    }
  }
  for (std::size_t i = 0; i < kShifts.size(); ++i) {
    const std::size_t all = subs_of(elements, kShifts[i]);
    const std::size_t active = std::min(all, 1 + apart[i] * pairs / std::max<std::size_t>(1, samples * taken));
    if ((active << kShifts[i]) < positions.size()) return true;  // it cannot be: a bad sample of many changes
    if (estimate_inner(elements, kShifts[i], active, positions.size()) + estimate(all, active) < enough_bits) return true;
  }
  return false;
}

// Sub-blocks in ascending order, each once. Returns how many.
std::size_t halve_ids(const std::uint16_t* ids, std::size_t count, unsigned shift, std::uint16_t* halved) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<std::uint16_t>(ids[i] >> shift);
    halved[kept] = id;
    kept += i + 1 == count || (ids[i + 1] >> shift) != id;
  }
  return kept;
}

constexpr std::size_t kMostHole = 8;  // inactive sub-blocks that a run may hold, so that it need not end

struct Layout {
  std::uint64_t bits = std::numeric_limits<std::uint64_t>::max();
  unsigned shift = 0;
  bool runs = false;
  std::size_t hole = 0;
};

// The best of all holes for sub-blocks of one size; `ids` are the active ones.
Layout best_layout(std::span<const std::uint16_t> ids, std::uint32_t elements, unsigned shift, std::size_t changes) {
  std::array<std::size_t, kMostHole + 1> holes{};
  std::size_t runs = 1;
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const std::size_t hole = ids[i] - ids[i - 1] - 1u;
    if (hole <= kMostHole) ++holes[hole];
    runs += hole > 0;
  }
  const std::size_t subs = subs_of(elements, shift);
  const std::size_t open_end = ids.back() + std::size_t{1} == subs ? 1 : 0;
  Layout best{estimate_inner(elements, shift, ids.size(), changes) + estimate(subs, ids.size()), shift, false, 0};
  std::size_t active = ids.size();
  for (std::size_t hole = 0; hole <= kMostHole; ++hole) {
    active += hole * holes[hole];
    if (hole > 0) runs -= holes[hole];
    const std::uint64_t bits = estimate_inner(elements, shift, active, changes) + estimate(subs, 2 * runs - open_end);
    if (bits < best.bits) best = {bits, shift, true, hole};
  }
  return best;
}

}  // namespace

bool TwoLevelList::prepare(const kernels::ListKernels& kernels, std::span<const std::uint16_t> positions, std::uint32_t elements,
                           std::uint64_t flat_bits, bool thorough) {
  constexpr std::uint64_t kHeadBits = 16;  // its own bytes, and so the least that must be gained
  if (flat_bits < 4 * kHeadBits) return false;
  const std::uint64_t enough_bits = flat_bits - kHeadBits;
  const std::uint64_t promised = estimate(elements, positions.size());
  if (!thorough && !looks_clustered(positions, elements, promised - promised / 16)) return false;
  std::uint16_t* ids = active_.need(positions.size() + kMaxSubs + kernels::kPositionSlack);
  std::size_t count = halve_ids(positions.data(), positions.size(), kLeastSubShift, ids);
  Layout best;
  for (unsigned shift = kLeastSubShift; shift <= kMostSubShift; ++shift) {
    if (shift > kLeastSubShift) count = halve_ids(ids, count, 1, ids);
    const Layout layout = best_layout({ids, count}, elements, shift, positions.size());
    if (layout.bits < best.bits) best = layout;
  }
  if (best.bits >= enough_bits) return false;
  shift_ = best.shift;
  runs_ = best.runs;
  count = halve_ids(positions.data(), positions.size(), shift_, ids);
  list_subs(kernels, count, subs_of(elements, shift_), best.hole);
  list_inner(kernels, positions, elements);
  return true;
}

// Of the sub-blocks with changes, `count` of them in active_: lists them, or their bounds with holes closed.
void TwoLevelList::list_subs(const kernels::ListKernels& kernels, std::size_t count, std::size_t subs, std::size_t hole) {
  if (!runs_) {
    active_count_ = count;
    return subs_.prepare(kernels, {active_.data(), count}, subs);
  }
  const std::uint16_t* ids = active_.data();
  std::uint16_t* filled = filled_.need(subs);
  std::uint16_t* bounds = bounds_.need(2 * count + kernels::kPositionSlack);
  std::size_t bound_count = 0;
  std::size_t next = 0;  // after the last that is active
  active_count_ = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i == 0 || ids[i] > next + hole) {
      if (i > 0) bounds[bound_count++] = static_cast<std::uint16_t>(next);
      bounds[bound_count++] = ids[i];
      next = ids[i];
    }
    for (; next <= ids[i]; ++next) filled[active_count_++] = static_cast<std::uint16_t>(next);
  }
  if (next < subs) bounds[bound_count++] = static_cast<std::uint16_t>(next);
  std::copy_n(filled, active_count_, active_.need(active_count_));
  subs_.prepare(kernels, {bounds, bound_count}, subs);
}

// The changes among the active sub-blocks put end to end; or, where most are, those that do not change.
void TwoLevelList::list_inner(const kernels::ListKernels& kernels, std::span<const std::uint16_t> positions,
                              std::uint32_t elements) {
  const std::uint16_t* active = active_.data();
  const std::size_t subs = subs_of(elements, shift_);
  const bool has_last = active[active_count_ - 1] == subs - 1;
  const std::size_t span = (active_count_ << shift_) - (has_last ? (subs << shift_) - elements : 0);
  const bool inverted = 2 * positions.size() > span;
  std::uint16_t* listed = inner_positions_.need((inverted ? span : positions.size()) + kernels::kPositionSlack);
  std::size_t count = 0;
  std::size_t rank = 0;
  std::size_t next = 0;  // inverted: all below are done
  for (const std::uint16_t position : positions) {
    while (active[rank] != position >> shift_) ++rank;
    const std::size_t compacted = position - ((active[rank] - rank) << shift_);
    if (inverted) {
      for (; next < compacted; ++next) listed[count++] = static_cast<std::uint16_t>(next);
      ++next;
    } else {
      listed[count++] = static_cast<std::uint16_t>(compacted);
    }
  }
  for (; inverted && next < span; ++next) listed[count++] = static_cast<std::uint16_t>(next);
  inner_.prepare(kernels, {listed, count}, span);
}

std::size_t TwoLevelList::head_bytes() const {
  std::byte varint[kMaxVarintBytes];
  return 1 + store_varint(varint, subs_.count);
}

std::byte* TwoLevelList::write_head(std::byte* out) const {
  *out++ = static_cast<std::byte>(shift_ | (runs_ ? kRunsFlag : 0));
  return out + store_varint(out, subs_.count);
}

void TwoLevelList::write_planes(const kernels::ListKernels& kernels, std::byte* flags, kernels::BitWriter& bits) const {
  subs_.write_planes(kernels, bits);
  subs_.write_unary(kernels, flags, bits);
  inner_.write_planes(kernels, bits);
}

void TwoLevelList::write_unary(const kernels::ListKernels& kernels, std::byte* flags, kernels::BitWriter& bits) const {
  inner_.write_unary(kernels, flags, bits);
}

bool TwoLevelReader::read_head(std::span<const std::byte>& payload, std::uint32_t elements, std::size_t count) {
  ByteReader reader(payload);
  std::uint8_t parameters = 0;
  std::uint64_t listed = 0;
  if (!reader.read(parameters) || !reader.read_varint(listed)) return false;
  elements_ = elements;
  count_ = count;
  shift_ = parameters & kShiftMask;
  runs_ = (parameters & kRunsFlag) != 0;
  if (parameters >= 2 * kRunsFlag || shift_ < kLeastSubShift || shift_ > kMostSubShift) return false;
  if (listed == 0 || listed > subs_of(elements, shift_)) return false;
  listed_ = static_cast<std::size_t>(listed);
  payload = payload.subspan(reader.position());
  return true;
}

// Turns bounds into a move for each active sub-block; returns how many there are.
std::size_t TwoLevelReader::expand_runs(std::size_t subs) {
  const std::uint16_t* bounds = bounds_.data();
  std::size_t active = 0;
  for (std::size_t i = 0; i < listed_; i += 2) {
    const std::size_t end = i + 1 < listed_ ? bounds[i + 1] : subs;
    const auto move = static_cast<std::uint16_t>((bounds[i] - active) << shift_);
    for (std::size_t sub = bounds[i]; sub < end; ++sub) moves_.data()[active++] = move;
  }
  return active;
}

// Sets moves_ and inner_span_.
bool TwoLevelReader::read_subs(const kernels::ListKernels& kernels, BitCursor& bits) {
  const std::size_t subs = subs_of(elements_, shift_);
  std::uint16_t* bounds = bounds_.need(listed_ + kernels::kPositionSlack);
  if (!subs_.read_planes(kernels, bits, subs, listed_) || !subs_.read_unary(kernels, bits, bounds)) return false;
  std::uint16_t* moves = moves_.need(subs);
  std::size_t active = listed_;
  bool has_last = bounds[listed_ - 1] == subs - 1;
  if (runs_) {
    active = expand_runs(subs);
    has_last = listed_ % 2 == 1;  // an end that is not listed is that of the block
  } else {
    for (std::size_t i = 0; i < listed_; ++i) moves[i] = static_cast<std::uint16_t>((bounds[i] - i) << shift_);
  }
  const std::size_t missing = has_last ? (subs << shift_) - elements_ : 0;  // of a last sub-block that is short
  inner_span_ = static_cast<std::uint32_t>((active << shift_) - missing);
  return true;
}

bool TwoLevelReader::read_planes(const kernels::ListKernels& kernels, BitCursor& bits) {
  if (!read_subs(kernels, bits) || inner_span_ < count_) return false;
  inverted_ = 2 * count_ > inner_span_;
  return inner_.read_planes(kernels, bits, inner_span_, inverted_ ? inner_span_ - count_ : count_);
}

bool TwoLevelReader::read_unary(const kernels::ListKernels& kernels, BitCursor& bits, std::uint16_t* positions) {
  const std::uint16_t* moves = moves_.data();
  if (!inverted_) {
    if (!inner_.read_unary(kernels, bits, positions)) return false;
    for (std::size_t i = 0; i < count_; ++i)
      positions[i] = static_cast<std::uint16_t>(positions[i] + moves[positions[i] >> shift_]);
    return true;
  }
  const std::size_t unchanged_count = inner_span_ - count_;
  std::uint16_t* unchanged = unchanged_.need(unchanged_count + kernels::kPositionSlack);
  if (!inner_.read_unary(kernels, bits, unchanged)) return false;
  std::size_t found = 0;
  std::size_t next = 0;  // all below are done
  for (std::size_t i = 0; i <= unchanged_count; ++i) {
    const std::size_t end = i < unchanged_count ? unchanged[i] : inner_span_;
    for (; next < end; ++next) positions[found++] = static_cast<std::uint16_t>(next + moves[next >> shift_]);
    ++next;
  }
  return true;
}

}  // namespace sparcl::codec
