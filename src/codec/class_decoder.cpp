#include "src/codec/class_decoder.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kLargestStep = 32768;  // downwards only
constexpr std::int8_t kFar = -128;
constexpr std::size_t kDenseRanks =
    32;  // ranks a change: bytes that lie closer are cleared as a whole. Heuristic

// The marks of `count` places from the untrusted bits; false if they are not there.
bool read_marks(const kernels::ClassKernels& kernels, BitCursor& bits, std::size_t count,
                Scratch<std::uint32_t>& marks) {
  std::uint32_t* at = marks.need(count + kernels::kRankSlack);
  if (count == 0) return true;
  if (kernels.find_marks(bits.bytes, bits.at, bits.left(), count, at) < count) return false;
  bits.at += at[count - 1] + std::uint64_t{1};
  return true;
}

std::size_t next_far(const std::int8_t* steps, std::size_t from, std::size_t count) {
  const void* found = std::memchr(steps + from, kFar, count - from);
  return found != nullptr ? static_cast<std::size_t>(static_cast<const std::int8_t*>(found) - steps)
                          : count;
}

}  // namespace

const char* ClassDecoder::read(const ClassTable& table, std::uint32_t elements,
                               std::span<const std::byte> content) {
  clear();
  table_ = &table;
  elements_ = elements;
  changes_ = 0;
  ByteReader reader(content);
  std::uint64_t changes = 0;
  if (!reader.read_varint(changes) || changes == 0 || changes > elements)
    return "has an invalid change count";
  BitCursor bits{content.data(), 8 * std::uint64_t{reader.position()},
                 8 * std::uint64_t{content.size()}};
  if (!read_head(table, elements, static_cast<std::uint32_t>(changes), bits, counts_))
    return "has counts that are not possible";
  changes_ = static_cast<std::uint32_t>(changes);
  far_places_.need(kBlockElements +
                   kernels::kPositionSlack);  // here: apply_block() allocates nothing
  if (const char* wrong = read_ranks(bits)) return wrong;
  if (const char* wrong = read_places(bits)) return wrong;
  if (const char* wrong = read_sizes(bits)) return wrong;
  if (!ends_cleanly(bits)) return "does not end where its steps do";
  spread();
  return nullptr;
}

const char* ClassDecoder::read_ranks(BitCursor& bits) {
  std::uint16_t* remainders = remainders_.need(changes_ + kernels::kRankSlack);
  std::uint32_t* ranks = ranks_.need(changes_ + kernels::kRankSlack);
  std::int8_t* steps = steps_.need(changes_ + kernels::kRankSlack);
  std::size_t at = 0;
  for (unsigned c = 0; c < table_->cut.count; at += counts_[c].changes, ++c) {
    const std::uint64_t plane_bits = std::uint64_t{counts_[c].shift} * counts_[c].changes;
    if (bits.left() < plane_bits) return "ends inside its positions";
    kernels_.lists.unpack_planes(bits.bytes, bits.at, counts_[c].changes, counts_[c].shift,
                                 remainders + at);
    bits.at += plane_bits;
  }
  if (bits.left() < changes_) return "ends inside its signs";
  kernels_.elements[0].unit_steps(bits.bytes, bits.at, changes_,
                                  reinterpret_cast<std::byte*>(steps));
  bits.at += changes_;
  if (!read_marks(kernels_.classes, bits, changes_, marks_)) return "ends inside its positions";
  at = 0;
  std::uint32_t mark = 0;
  for (unsigned c = 0; c < table_->cut.count; at += counts_[c].changes, ++c) {
    if (counts_[c].changes == 0) continue;
    const std::uint64_t last =
        kernels_.classes.join_ranks(remainders + at, marks_.data() + at, counts_[c].changes,
                                    counts_[c].shift, mark, ranks + at);
    if (last >= elements_) return "has positions past its end";
    mark = marks_.data()[at + counts_[c].changes - 1] + 1;
  }
  return nullptr;
}

const char* ClassDecoder::read_places(BitCursor& bits) {
  std::size_t listed = 0;
  for (unsigned c = 0; c < table_->cut.count; ++c)
    listed += table_->rows[c].all ? 0 : counts_[c].exceptions;
  std::uint16_t* remainders = remainders_.need(
      listed + kernels::kRankSlack);  // the remainders of the ranks are not needed any more
  std::uint32_t* places = places_.need(listed + kernels::kRankSlack);
  std::size_t at = 0;
  for (unsigned c = 0; c < table_->cut.count; ++c) {
    if (table_->rows[c].all) continue;
    const unsigned shift = rank_shift(counts_[c].changes, counts_[c].exceptions);
    const std::uint64_t plane_bits = std::uint64_t{shift} * counts_[c].exceptions;
    if (bits.left() < plane_bits) return "ends inside its exceptions";
    kernels_.lists.unpack_planes(bits.bytes, bits.at, counts_[c].exceptions, shift,
                                 remainders + at);
    bits.at += plane_bits;
    at += counts_[c].exceptions;
  }
  if (!read_marks(kernels_.classes, bits, listed, marks_)) return "ends inside its exceptions";
  at = 0;
  std::uint32_t mark = 0;
  for (unsigned c = 0; c < table_->cut.count; ++c) {
    const ClassCounts& own = counts_[c];
    if (table_->rows[c].all || own.exceptions == 0) continue;
    const unsigned shift = rank_shift(own.changes, own.exceptions);
    const std::uint64_t last = kernels_.classes.join_ranks(
        remainders + at, marks_.data() + at, own.exceptions, shift, mark, places + at);
    if (last >= own.changes) return "has exceptions past its changes";
    at += own.exceptions;
    mark = marks_.data()[at - 1] + 1;
  }
  return nullptr;
}

const char* ClassDecoder::read_sizes(BitCursor& bits) {
  std::size_t count = 0;
  std::uint64_t suffix_bits = 0;  // without those of the unary parts' lengths
  for (unsigned c = 0; c < table_->cut.count; ++c) {
    count += counts_[c].exceptions;
    suffix_bits += std::uint64_t{table_->rows[c].exponent} * counts_[c].exceptions;
  }
  if (!read_marks(kernels_.classes, bits, count, marks_)) return "ends inside its magnitudes";
  const std::uint32_t* marks = marks_.data();
  if (count > 0) suffix_bits += marks[count - 1] + std::uint64_t{1} - count;
  if (bits.left() < suffix_bits) return "ends inside its magnitudes";
  std::uint32_t* sizes = sizes_.need(count + kernels::kRankSlack);
  std::size_t at = 0;
  std::uint32_t mark = 0;
  for (unsigned c = 0; c < table_->cut.count; ++c) {
    const std::size_t own = counts_[c].exceptions;
    if (own == 0) continue;
    if (!kernels_.classes.read_sizes(bits.bytes, bits.at, marks + at, own, mark,
                                     table_->rows[c].exponent, sizes + at)) {
      return "has a step larger than its data type";
    }
    const std::uint32_t end = marks[at + own - 1] + 1;
    bits.at += end - mark - own + std::uint64_t{table_->rows[c].exponent} * own;
    mark = end;
    at += own;
  }
  return set_steps() ? nullptr : "has a step larger than its data type";
}

// The listed sizes become the steps of their changes, with the signs that are there.
bool ClassDecoder::set_steps() {
  const std::uint32_t* sizes = sizes_.data();
  const std::uint32_t* places = places_.data();
  std::int8_t* steps = steps_.data();
  bool fits = true;
  for (unsigned c = 0; c < table_->cut.count; steps += counts_[c].changes, ++c) {
    const bool all = table_->rows[c].all;
    const std::uint32_t least = all ? 1 : 2;
    const std::uint32_t count = counts_[c].exceptions;
    for (std::uint32_t i = 0; i < count; ++i) {
      std::int8_t& step = steps[all ? i : places[i]];
      const std::uint32_t magnitude = sizes[i] + least;
      if (magnitude >= static_cast<std::uint32_t>(kernels::kFarStep)) [[unlikely]] {
        fits = add_far_step(c, magnitude, step) && fits;
        continue;
      }
      step = static_cast<std::int8_t>(step < 0 ? -static_cast<int>(magnitude)
                                               : static_cast<int>(magnitude));
    }
    sizes += count;
    if (!all) places += count;
  }
  return fits;
}

bool ClassDecoder::add_far_step(unsigned c, std::uint32_t magnitude, std::int8_t& step) {
  const bool negative = step < 0;
  if (magnitude > kLargestStep - (negative ? 0 : 1)) return false;
  far_steps_[c].push_back(static_cast<std::uint16_t>(negative ? 0 - magnitude : magnitude));
  has_far_steps_ = true;
  step = kFar;
  return true;
}

void ClassDecoder::spread() {
  if (class_steps_.data() == nullptr) {
    std::memset(class_steps_.need(kernels::kClassStepBytes), 0, kernels::kClassStepBytes);
  }
  is_spread_ = true;
  const std::uint32_t* ranks = ranks_.data();
  const std::int8_t* steps = steps_.data();
  for (unsigned c = 0; c < table_->cut.count; ++c) {
    std::int8_t* own = class_steps_.data() + c * kernels::kClassStride;
    const std::size_t count = counts_[c].changes;
    for (std::size_t i = 0; i < count; ++i) own[ranks[i]] = steps[i];
    spread_changes_[c] = counts_[c].changes;
    ranks += count;
    steps += count;
  }
  for (unsigned c = table_->cut.count; c < kernels::kMaxClasses; ++c) spread_changes_[c] = 0;
}

void ClassDecoder::clear() {
  const std::uint32_t* ranks = ranks_.data();
  for (unsigned c = 0; c < kernels::kMaxClasses && is_spread_; ++c) {
    std::int8_t* own = class_steps_.data() + c * kernels::kClassStride;
    const std::size_t count = spread_changes_[c];
    const std::size_t end = count > 0 ? ranks[count - 1] + std::size_t{1} : 0;
    if (end < kDenseRanks * count) {
      std::memset(own, 0, end);
    } else {
      for (std::size_t i = 0; i < count; ++i) own[ranks[i]] = 0;
    }
    ranks += count;
  }
  is_spread_ = false;
  next_ranks_ = {};
  found_ = 0;
  for (auto& steps : far_steps_) steps.clear();
  far_read_ = {};
  has_far_steps_ = false;
}

void ClassDecoder::next_block(const BlockView& held, DecodedBlock& block) {
  block.kind = DecodedKind::kSteps;
  block.fresh = false;
  block.count = 0;
  std::uint16_t* positions = block.positions.need(held.shape.elements + kernels::kPositionSlack);
  std::int8_t* found = found_steps_.need(held.shape.elements + kernels::kPositionSlack);
  std::byte* steps = block.values.need(held.shape.bytes());
  for (const Piece& piece : held.pieces) {
    std::int8_t* own = found + block.count;
    const std::size_t count =
        kernels_.classes.find_steps(held.data(piece), piece.count, piece.offset, table_->cut,
                                    next_ranks_, class_steps_.data(), positions + block.count, own);
    std::byte* out = steps + block.count * sizeof(std::uint16_t);
    for (std::size_t i = 0; i < count; ++i)
      store_le(out + i * sizeof(std::uint16_t), static_cast<std::int16_t>(own[i]));
    for (std::size_t i = 0; has_far_steps_ && (i = next_far(own, i, count)) < count; ++i) {
      store_le(out + i * sizeof(std::uint16_t),
               take_far_step(held, piece, positions[block.count + i]));
    }
    block.count += count;
  }
  found_ += static_cast<std::uint32_t>(block.count);
}

void ClassDecoder::apply_block(const WritableBlockView& held) {
  const kernels::OrderKernels& order = kernels_.order_of(held.shape.datatype);
  std::uint16_t* far_places = far_places_.data();
  for (const Piece& piece : held.pieces) {
    std::byte* const at = held.data(piece);
    const kernels::AddedSteps added = kernels_.classes.add_steps(
        at, piece.count, piece.offset, table_->cut, next_ranks_, class_steps_.data(), far_places);
    for (std::size_t i = 0; i < added.far; ++i) {
      std::byte step[sizeof(std::uint16_t)];
      store_le(step, take_far_step(held, piece, far_places[i]));
      order.add_steps_at(at, far_places + i, 1, piece.offset, step, {});
    }
    found_ += static_cast<std::uint32_t>(added.found);
  }
}

// A class's far steps are used in the order of their ranks, and each at most once, for any held
// values.
std::uint16_t ClassDecoder::take_far_step(const BlockView& held, const Piece& piece,
                                          std::uint16_t position) {
  const auto value =
      load_le<std::uint16_t>(held.data(piece) + (position - piece.offset) * sizeof(std::uint16_t));
  const unsigned c = class_of(table_->cut, value);
  if (far_read_[c] == far_steps_[c].size()) return 0;  // the array was written to meanwhile
  return far_steps_[c][far_read_[c]++];
}

}  // namespace sparcl::codec
