#include "src/codec/block_sparse_list.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "src/base/bytes.hpp"

namespace sparcl::codec {
namespace {

// Elements of the first `count` sub-blocks of a list that ends with sub-block `last`.
std::uint32_t span_of(std::size_t count, std::uint32_t last, unsigned shift,
                      std::uint32_t elements) {
  const std::uint32_t subs = subs_of(elements, shift);
  const std::uint64_t missing = last + 1 == subs ? (std::uint64_t{subs} << shift) - elements
                                                 : 0;  // of a last one that is short
  return static_cast<std::uint32_t>((std::uint64_t{count} << shift) - missing);
}

// The inner list has the changed elements, or, if most change, the unchanged ones.
std::uint64_t inner_count(std::uint64_t span, std::uint64_t changes) {
  return 2 * changes > span ? span - changes : changes;
}

struct Choice {
  std::uint64_t bits;  // about
  unsigned shift;
};

// The best size of sub-blocks in which any elements may change. Neighbours are sorted by the
// highest bit in which they differ, so that one pass serves all sizes.
template <class Position>
Choice best_partial(std::span<const Position> positions, std::uint32_t elements) {
  constexpr std::size_t kTables = 4;  // so that counting does not wait for the count before
  std::array<std::array<std::uint32_t, 33>, kTables> tables{};
  for (std::size_t i = 0; i + 1 < positions.size(); ++i) {
    const auto differing = static_cast<std::uint32_t>(positions[i] ^ positions[i + 1]);
    ++tables[i % kTables][static_cast<unsigned>(std::bit_width(differing))];
  }
  Choice best{~std::uint64_t{0}, 0};
  std::uint64_t active = positions.size();
  for (unsigned shift = 1; shift <= kMaxSubShift; ++shift) {
    for (const auto& table : tables) active -= table[shift];
    const std::uint64_t span = std::min<std::uint64_t>(elements, active << shift);
    const std::uint64_t bits = about_list_bits(subs_of(elements, shift), active) +
                               about_list_bits(span, inner_count(span, positions.size()));
    if (bits < best.bits) best = {bits, shift};
  }
  return best;
}

}  // namespace

template <class Position>
unsigned whole_sub_shift(std::span<const Position> positions, std::uint32_t elements) {
  unsigned shift = kMaxSubShift;
  for (std::size_t i = 0; i < positions.size();) {
    const std::uint32_t first = positions[i];
    shift = std::min(shift, static_cast<unsigned>(std::countr_zero(first)));
    std::uint32_t size = 0;
    for (; shift > 0; --shift) {
      size = std::min(1u << shift, elements - first);
      if (i + size <= positions.size() && positions[i + size - 1] == first + size - 1) break;
    }
    if (shift == 0) return 0;
    i += size;
  }
  return shift;
}

template unsigned whole_sub_shift(std::span<const std::uint16_t>, std::uint32_t);
template unsigned whole_sub_shift(std::span<const std::uint32_t>, std::uint32_t);

template <class Position>
bool BlockSparseList::prepare(const kernels::ListKernels& kernels,
                              std::span<const Position> positions, std::uint32_t elements,
                              std::uint64_t enough_bits, Look look) {
  constexpr std::uint64_t kHeadBits = 16;
  shift_ = whole_sub_shift(positions, elements);
  const bool is_whole = shift_ > 0;
  if (!is_whole) {
    // Below a sixteenth of a bit for each change, the possible gain is not worth the pass.
    if (look == Look::kWhole || (look == Look::kAlsoPartly && enough_bits < positions.size() / 16))
      return false;
    const Choice choice = best_partial(positions, elements);
    if (choice.bits + kHeadBits >= enough_bits) return false;
    shift_ = choice.shift;
  }
  const std::size_t sub_count =
      is_whole ? list_whole_subs(positions) : list_partial_subs(positions);
  subs_.prepare(kernels, std::span<const std::uint32_t>{sub_ids_.data(), sub_count},
                subs_of(elements, shift_));
  list_inner(kernels, sub_count, positions.size(), elements);
  return bits() + kHeadBits < enough_bits;
}

template bool BlockSparseList::prepare(const kernels::ListKernels&, std::span<const std::uint16_t>,
                                       std::uint32_t, std::uint64_t, Look);
template bool BlockSparseList::prepare(const kernels::ListKernels&, std::span<const std::uint32_t>,
                                       std::uint32_t, std::uint64_t, Look);

template <class Position>
std::size_t BlockSparseList::list_whole_subs(std::span<const Position> positions) {
  const std::size_t count = (positions.size() + (std::size_t{1} << shift_) - 1) >> shift_;
  std::uint32_t* ids = sub_ids_.need(count + kernels::kPositionSlack);
  for (std::size_t i = 0; i < count; ++i)
    ids[i] = static_cast<std::uint32_t>(positions[i << shift_]) >> shift_;
  return count;
}

template <class Position>
std::size_t BlockSparseList::list_partial_subs(std::span<const Position> positions) {
  std::uint32_t* ids = sub_ids_.need(positions.size() + kernels::kPositionSlack);
  std::uint32_t* inner = inner_positions_.need(positions.size() + kernels::kPositionSlack);
  const std::uint32_t mask = (1u << shift_) - 1;
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::uint32_t position = positions[i];
    rank += i > 0 && ((position ^ positions[i - 1]) >> shift_) != 0 ? 1 : 0;
    ids[rank] = position >> shift_;
    inner[i] = (rank << shift_) | (position & mask);
  }
  return rank + std::size_t{1};
}

void BlockSparseList::list_inner(const kernels::ListKernels& kernels, std::size_t sub_count,
                                 std::size_t changes, std::uint32_t elements) {
  const std::uint32_t span = span_of(sub_count, sub_ids_.data()[sub_count - 1], shift_, elements);
  const std::size_t count = inner_count(span, changes);
  const std::uint32_t* listed = inner_positions_.data();
  if (2 * changes > span) {
    std::uint32_t* unchanged = unchanged_.need(count + kernels::kPositionSlack);
    std::uint32_t next = 0;
    std::size_t found = 0;
    for (std::size_t i = 0; i < changes && found < count; ++i) {
      for (; next < listed[i]; ++next) unchanged[found++] = next;
      ++next;
    }
    for (; found < count; ++next) unchanged[found++] = next;
    listed = unchanged;
  }
  inner_.prepare(kernels, std::span<const std::uint32_t>{listed, count}, span);
}

std::size_t BlockSparseList::head_bytes() const {
  std::byte varint[kMaxVarintBytes];
  return 1 + store_varint(varint, subs_.count);
}

std::byte* BlockSparseList::write_head(std::byte* out) const {
  *out++ = static_cast<std::byte>(shift_);
  return out + store_varint(out, subs_.count);
}

void BlockSparseList::write_planes(const kernels::ListKernels& kernels,
                                   kernels::BitWriter& bits) const {
  subs_.write_planes(kernels, bits);
  subs_.write_unary(kernels, bits);
  inner_.write_planes(kernels, bits);
}

void BlockSparseList::write_unary(const kernels::ListKernels& kernels,
                                  kernels::BitWriter& bits) const {
  inner_.write_unary(kernels, bits);
}

bool BlockSparseReader::read_head(std::span<const std::byte>& payload, std::uint32_t elements,
                                  std::size_t count) {
  ByteReader reader(payload);
  std::uint8_t shift = 0;
  std::uint64_t listed = 0;
  if (!reader.read(shift) || !reader.read_varint(listed) || shift < 1 || shift > kMaxSubShift)
    return false;
  if (listed == 0 || listed > count || listed > subs_of(elements, shift)) return false;
  elements_ = elements;
  count_ = count;
  shift_ = shift;
  sub_count_ = static_cast<std::size_t>(listed);
  payload = payload.subspan(reader.position());
  return true;
}

bool BlockSparseReader::read_planes(const kernels::ListKernels& kernels, BitCursor& bits) {
  std::uint32_t* ids = moves_.need(sub_count_ + kernels::kPositionSlack);
  if (!subs_.read_planes(kernels, bits, subs_of(elements_, shift_), sub_count_) ||
      !subs_.read_unary(kernels, bits, ids)) {
    return false;
  }
  span_ = span_of(sub_count_, ids[sub_count_ - 1], shift_, elements_);
  if (span_ < count_) return false;
  for (std::size_t rank = 0; rank < sub_count_; ++rank)
    ids[rank] = (ids[rank] - static_cast<std::uint32_t>(rank)) << shift_;
  inverted_ = 2 * count_ > span_;
  return inner_.read_planes(kernels, bits, span_, inner_count(span_, count_));
}

bool BlockSparseReader::read_unary(const kernels::ListKernels& kernels, BitCursor& bits,
                                   std::uint32_t* positions) {
  if (inverted_) {
    std::uint32_t* unchanged = unchanged_.need(span_ - count_ + kernels::kPositionSlack);
    if (!inner_.read_unary(kernels, bits, unchanged)) return false;
    fill_gaps(unchanged, positions);
    return true;
  }
  if (!inner_.read_unary(kernels, bits, positions)) return false;
  move_all(positions);
  return true;
}

// One by one if sub-blocks have few changes; otherwise a sub-block at once.
void BlockSparseReader::move_all(std::uint32_t* positions) const {
  constexpr std::size_t kManyEach = 64;  // heuristic
  const std::uint32_t* moves = moves_.data();
  if (count_ < kManyEach * sub_count_) {
    for (std::size_t i = 0; i < count_; ++i) positions[i] += moves[positions[i] >> shift_];
    return;
  }
  std::size_t i = 0;
  for (std::size_t rank = 0; rank < sub_count_; ++rank) {
    const std::size_t most = std::min(count_, i + (std::size_t{1} << shift_));
    const auto end = static_cast<std::uint32_t>((rank + 1) << shift_);
    const std::uint32_t* last = std::lower_bound(positions + i, positions + most, end);
    const std::uint32_t move = moves[rank];
    for (const auto stop = static_cast<std::size_t>(last - positions); i < stop; ++i)
      positions[i] += move;
  }
}

// All elements of the sub-blocks except `unchanged`. read_planes() has checked their number, so the
// others are exactly count_.
void BlockSparseReader::fill_gaps(const std::uint32_t* unchanged, std::uint32_t* positions) const {
  const std::size_t unchanged_count = span_ - count_;
  std::size_t passed = 0;
  std::uint32_t* out = positions;
  std::uint32_t at = 0;
  for (std::size_t rank = 0; rank < sub_count_; ++rank) {
    const std::uint32_t move = moves_.data()[rank];
    const auto end = std::min(span_, static_cast<std::uint32_t>((rank + 1) << shift_));
    while (at < end) {
      const std::uint32_t stop = passed < unchanged_count ? std::min(end, unchanged[passed]) : end;
      for (; at < stop; ++at) *out++ = at + move;
      if (at == end) break;
      ++at;
      ++passed;
    }
  }
}

}  // namespace sparcl::codec
