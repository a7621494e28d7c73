#include "src/codec/two_level_list.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "src/base/bytes.hpp"

namespace sparcl::codec {
namespace {

constexpr unsigned kShiftMask = 0x0f;
constexpr unsigned kShortShiftAt = 4;

// Gaps sorted by their bits: one pass over them serves all candidate sizes of long gaps.
class GapSizes {
 public:
  // `place`: ascending, so that an increment of a table does not wait for the one before.
  void add(std::uint32_t gap, std::size_t place) {
    // 0 is not a special case: a branch on it would often be mispredicted.
    const auto width = static_cast<unsigned>(std::bit_width(2 * std::uint64_t{gap} + 1) - 1);
    tables_[place % kTables][width] += (std::uint64_t{gap} << kCountBits) + 1;
  }

  struct Choice {
    std::uint64_t bits;  // estimated
    unsigned long_shift;
  };
  // The best choice for the list of these gaps.
  Choice best(const kernels::GapsSeen& seen) const {
    Choice choice{~std::uint64_t{0}, 0};
    const Table sizes = sum();
    std::uint64_t left = 0;
    for (const std::uint64_t some : sizes) left += some & kCountMask;
    std::uint64_t short_sum = 0;
    for (unsigned shift = 0; shift <= kernels::kMaxLongShift; ++shift) {
      left -= sizes[shift] & kCountMask;
      short_sum += sizes[shift] >> kCountBits;
      const std::uint64_t longs = seen.longs(left);
      const std::uint64_t bits = seen.bits(shift, longs, short_sum);
      if (bits < choice.bits) choice = {bits, shift};
      if (longs == 0) break;  // none are long for larger sizes either
    }
    return choice;
  }

 private:
  // The number of gaps of this width, and above it their sum: both at most 2^24.
  static constexpr unsigned kCountBits = 32;
  static constexpr std::uint64_t kCountMask = (std::uint64_t{1} << kCountBits) - 1;
  static constexpr std::size_t kTables = 4;
  using Table = std::array<std::uint64_t, 33>;

  Table sum() const {
    Table all{};
    for (const Table& table : tables_) {
      for (std::size_t i = 0; i < all.size(); ++i) all[i] += table[i];
    }
    return all;
  }

  std::array<Table, kTables> tables_{};
};

template <class Position>
std::uint32_t gap_after(std::span<const Position> positions, std::size_t i) {
  return static_cast<std::uint32_t>(positions[i + 1]) - positions[i] - 1;
}

}  // namespace

template <class Position>
bool BasicTwoLevelList<Position>::prepare(const kernels::ListKernels& kernels,
                                          std::span<const Position> positions,
                                          std::uint32_t elements, std::uint64_t flat_bits,
                                          bool thorough) {
  const std::uint64_t enough_bits = kernels::enough_two_level_bits(flat_bits);
  if (enough_bits == 0) return false;
  if (!thorough && !is_likely_smaller(positions, elements)) return false;
  GapSizes sizes;
  sizes.add(positions[0], 0);
  for (std::size_t i = 0; i + 1 < positions.size(); ++i) sizes.add(gap_after(positions, i), i);
  const GapSizes::Choice choice = sizes.best({elements, positions.size()});
  if (choice.bits >= enough_bits) return false;
  long_shift_ = choice.long_shift;
  list_gaps(kernels, positions, elements);
  return true;
}

template <class Position>
bool BasicTwoLevelList<Position>::is_likely_smaller(std::span<const Position> positions,
                                                    std::uint32_t elements) {
  const kernels::GapSample sample = kernels::gap_sample(positions.size());
  if (sample.taken() == 0) return false;
  GapSizes sizes;
  for (std::size_t s = 0; s < sample.samples; ++s) {
    const std::size_t first = sample.first(s);
    for (std::size_t i = first; i < first + sample.each; ++i) sizes.add(gap_after(positions, i), i);
  }
  return sizes.best({elements, positions.size(), 16 * positions.size() / sample.taken()}).bits <
         kernels::clustered_bits(elements, positions.size());
}

template <class Position>
void BasicTwoLevelList<Position>::list_gaps(const kernels::ListKernels& kernels,
                                            std::span<const Position> positions,
                                            std::uint32_t elements) {
  const std::size_t count = positions.size();
  std::uint16_t* places = place_positions_.need(count + kernels::kPositionSlack);
  Position* longs = long_positions_.need(count + kernels::kPositionSlack);
  Position* shorts = short_positions_.need(count + kernels::kPositionSlack);
  std::size_t long_count = 0;
  std::uint32_t next = 0;        // the smallest position that a change can have
  std::uint32_t long_next = 0;   // the same in the list of long gaps, each reduced by 2^long_shift_
  std::uint32_t short_next = 0;  // and in the list of short gaps
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t gap = positions[i] - next;
    const bool is_long = gap >> long_shift_ != 0;
    const std::uint32_t long_at = long_next + gap - (1u << long_shift_);
    // Both are written and one is kept, because a branch on which one would be mispredicted.
    places[long_count] = static_cast<std::uint16_t>(i);
    longs[long_count] = static_cast<Position>(long_at);
    shorts[i - long_count] = static_cast<Position>(short_next + gap);
    long_next = is_long ? long_at + 1 : long_next;
    short_next = is_long ? short_next : short_next + gap + 1;
    long_count += is_long;
    next = positions[i] + 1u;
  }
  const std::size_t short_count = count - long_count;
  places_.prepare(kernels, std::span<const std::uint16_t>{places, long_count}, count);
  long_.prepare(kernels, std::span<const Position>{longs, long_count},
                elements - count - (long_count << long_shift_) + long_count);
  const GapDivisor divisor{
      kernels::short_shift(long_shift_, short_count, short_next - short_count)};
  short_.prepare_divided(
      kernels, std::span<const Position>{shorts, long_shift_ == 0 ? 0 : short_count}, divisor);
}

template <class Position>
std::size_t BasicTwoLevelList<Position>::head_bytes() const {
  std::byte varint[kMaxVarintBytes];
  return 1 + store_varint(varint, long_.count);
}

template <class Position>
std::byte* BasicTwoLevelList<Position>::write_head(std::byte* out) const {
  *out++ = static_cast<std::byte>(long_shift_ | short_.divisor.shift << kShortShiftAt);
  return out + store_varint(out, long_.count);
}

template <class Position>
void BasicTwoLevelList<Position>::write_planes(const kernels::ListKernels& kernels,
                                               kernels::BitWriter& bits) const {
  places_.write_planes(kernels, bits);
  places_.write_unary(kernels, bits);
  long_.write_planes(kernels, bits);
  long_.write_unary(kernels, bits);
  short_.write_planes(kernels, bits);
}

template <class Position>
void BasicTwoLevelList<Position>::write_unary(const kernels::ListKernels& kernels,
                                              kernels::BitWriter& bits) const {
  short_.write_unary(kernels, bits);
}

template <class Position>
bool BasicTwoLevelReader<Position>::read_head(std::span<const std::byte>& payload,
                                              std::uint32_t elements, std::size_t count) {
  ByteReader reader(payload);
  std::uint8_t parameters = 0;
  std::uint64_t long_count = 0;
  if (!reader.read(parameters) || !reader.read_varint(long_count) || long_count > count)
    return false;
  elements_ = elements;
  count_ = count;
  long_count_ = static_cast<std::size_t>(long_count);
  long_shift_ = parameters & kShiftMask;
  short_shift_ = parameters >> kShortShiftAt;
  if (short_shift_ > long_shift_ || elements_ - count_ < std::uint64_t{long_count_} << long_shift_)
    return false;
  payload = payload.subspan(reader.position());
  return true;
}

template <class Position>
bool BasicTwoLevelReader<Position>::read_planes(const kernels::ListKernels& kernels,
                                                BitCursor& bits) {
  const std::uint64_t span =
      elements_ - count_ - (std::uint64_t{long_count_} << long_shift_) + long_count_;
  return places_.read_planes(kernels, bits, count_, long_count_) &&
         places_.read_unary(kernels, bits,
                            place_positions_.need(long_count_ + kernels::kPositionSlack)) &&
         long_.read_planes(kernels, bits, span, long_count_) &&
         long_.read_unary(kernels, bits,
                          long_positions_.need(long_count_ + kernels::kPositionSlack)) &&
         short_.read_divided_planes(kernels, bits, elements_, long_shift_ == 0 ? 0 : short_count(),
                                    GapDivisor{short_shift_});
}

// The smallest position after the last change, without a modulus: both lists have been checked to
// lie below elements_.
template <class Position>
std::uint64_t BasicTwoLevelReader<Position>::end_of(const Position* short_positions) const {
  const std::uint64_t short_end =
      short_count() == 0 ? 0 : short_positions[short_count() - 1] + std::uint64_t{1};
  const std::uint64_t long_end =
      long_count_ == 0 ? 0 : long_positions_.data()[long_count_ - 1] + std::uint64_t{1};
  return short_end + long_end + (std::uint64_t{long_count_} << long_shift_);
}

template <class Position>
bool BasicTwoLevelReader<Position>::read_unary(const kernels::ListKernels& kernels, BitCursor& bits,
                                               Position* positions) {
  Position* shorts = short_positions_.need(short_count() + kernels::kPositionSlack);
  if (long_shift_ == 0) {
    std::iota(shorts, shorts + short_count(), Position{0});
  } else if (!short_.read_unary(kernels, bits, shorts)) {
    return false;
  }
  if (end_of(shorts) > elements_) return false;
  const std::uint16_t* places = place_positions_.data();
  const Position* longs = long_positions_.data();
  std::uint32_t before = 0;  // sum that the long gaps read add to the position of a change among
                             // those after short gaps
  std::size_t i = 0;
  for (std::size_t m = 0; m <= long_count_; ++m) {
    const std::size_t end = m < long_count_ ? places[m] : count_;
    const Position* cluster = shorts + (i - m);
    for (std::size_t left = end - i, at = 0; at < left; ++at)
      positions[i + at] = static_cast<Position>(cluster[at] + before);
    i = end;
    if (m == long_count_) break;
    before = static_cast<std::uint32_t>(longs[m] + 1u + ((m + 1) << long_shift_));
    const std::uint32_t last = i == m ? 0 : shorts[i - m - 1] + 1u;
    positions[i++] = static_cast<Position>(last + before - 1);
  }
  return true;
}

template class BasicTwoLevelList<std::uint16_t>;
template class BasicTwoLevelList<std::uint32_t>;
template class BasicTwoLevelReader<std::uint16_t>;
template class BasicTwoLevelReader<std::uint32_t>;

}  // namespace sparcl::codec
