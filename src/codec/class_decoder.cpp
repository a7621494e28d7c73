#include "src/codec/class_decoder.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"

namespace sparcl::codec {
namespace {

constexpr unsigned kMostZeros = 15;            // of a size: |d| <= 2^15
constexpr std::uint64_t kLargestStep = 32768;  // downwards only
constexpr std::int8_t kFar = -128;

// The marks of `count` places from the untrusted bits; false if they are not there.
bool read_marks(const kernels::ClassKernels& kernels, BitCursor& bits, std::size_t count, Scratch<std::uint32_t>& marks) {
  std::uint32_t* at = marks.need(count + kernels::kRankSlack);
  if (count == 0) return true;
  if (kernels.find_marks(bits.bytes, bits.at, bits.left(), count, at) < count) return false;
  bits.at += at[count - 1] + std::uint64_t{1};
  return true;
}

}  // namespace

const char* ClassDecoder::read(const ClassTable& table, std::uint32_t elements, std::span<const std::byte> content) {
  clear();
  table_ = &table;
  elements_ = elements;
  changes_ = 0;
  ByteReader reader(content);
  std::uint64_t changes = 0;
  if (!reader.read_varint(changes) || changes == 0 || changes > elements) return "has an invalid change count";
  BitCursor bits{content.data(), 8 * std::uint64_t{reader.position()}, 8 * std::uint64_t{content.size()}};
  if (!read_head(table, elements, static_cast<std::uint32_t>(changes), bits, counts_)) return "has counts that are not possible";
  changes_ = static_cast<std::uint32_t>(changes);
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
    kernels_.lists.unpack_planes(bits.bytes, bits.at, counts_[c].changes, counts_[c].shift, remainders + at);
    bits.at += plane_bits;
  }
  if (bits.left() < changes_) return "ends inside its signs";
  kernels_.elements[0].unit_steps(bits.bytes, bits.at, changes_, reinterpret_cast<std::byte*>(steps));
  bits.at += changes_;
  if (!read_marks(kernels_.classes, bits, changes_, marks_)) return "ends inside its positions";
  at = 0;
  std::uint32_t mark = 0;
  for (unsigned c = 0; c < table_->cut.count; at += counts_[c].changes, ++c) {
    if (counts_[c].changes == 0) continue;
    const std::uint64_t last =
        kernels_.classes.join_ranks(remainders + at, marks_.data() + at, counts_[c].changes, counts_[c].shift, mark, ranks + at);
    if (last >= elements_) return "has positions past its end";
    mark = marks_.data()[at + counts_[c].changes - 1] + 1;
  }
  return nullptr;
}

const char* ClassDecoder::read_places(BitCursor& bits) {
  std::size_t listed = 0;
  for (unsigned c = 0; c < table_->cut.count; ++c) listed += table_->rows[c].all ? 0 : counts_[c].exceptions;
  std::uint16_t* remainders = remainders_.need(listed + kernels::kRankSlack);  // those of the ranks have done their work
  std::uint32_t* places = places_.need(listed + kernels::kRankSlack);
  std::size_t at = 0;
  for (unsigned c = 0; c < table_->cut.count; ++c) {
    if (table_->rows[c].all) continue;
    const unsigned shift = rank_shift(counts_[c].changes, counts_[c].exceptions);
    const std::uint64_t plane_bits = std::uint64_t{shift} * counts_[c].exceptions;
    if (bits.left() < plane_bits) return "ends inside its exceptions";
    kernels_.lists.unpack_planes(bits.bytes, bits.at, counts_[c].exceptions, shift, remainders + at);
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
    const std::uint64_t last =
        kernels_.classes.join_ranks(remainders + at, marks_.data() + at, own.exceptions, shift, mark, places + at);
    if (last >= own.changes) return "has exceptions past its changes";
    at += own.exceptions;
    mark = marks_.data()[at - 1] + 1;
  }
  return nullptr;
}

const char* ClassDecoder::read_sizes(BitCursor& bits) {
  std::size_t count = 0;
  for (unsigned c = 0; c < table_->cut.count; ++c) count += counts_[c].exceptions;
  if (!read_marks(kernels_.classes, bits, count, marks_)) return "ends inside its magnitudes";
  std::size_t i = 0;
  std::size_t place = 0;
  std::size_t first_change = 0;
  std::uint32_t mark = 0;
  for (unsigned c = 0; c < table_->cut.count; first_change += counts_[c].changes, ++c) {
    const ClassRow& row = table_->rows[c];
    const std::uint64_t least = row.all ? 1 : 2;
    for (std::uint32_t j = 0; j < counts_[c].exceptions; ++j, ++i) {
      const std::uint32_t zeros = marks_.data()[i] - mark;
      mark = marks_.data()[i] + 1;
      const unsigned length = zeros + row.exponent;
      if (zeros > kMostZeros) return "has a step larger than its data type";
      if (bits.left() < length) return "ends inside its magnitudes";
      const std::uint64_t suffix = kernels::low_bits(kernels::load_bits(bits.bytes, bits.at), length);
      bits.at += length;
      const std::uint64_t size = suffix + (std::uint64_t{1} << length) - (std::uint64_t{1} << row.exponent);
      const std::size_t change = first_change + (row.all ? j : places_.data()[place++]);
      if (!set_step(c, change, size + least)) return "has a step larger than its data type";
    }
  }
  return nullptr;
}

bool ClassDecoder::set_step(unsigned c, std::size_t change, std::uint64_t magnitude) {
  std::int8_t& step = steps_.data()[change];
  const bool negative = step < 0;
  if (magnitude > kLargestStep - (negative ? 0 : 1)) return false;
  const int d = negative ? -static_cast<int>(magnitude) : static_cast<int>(magnitude);
  if (magnitude < kernels::kFarStep) {
    step = static_cast<std::int8_t>(d);
    return true;
  }
  step = kFar;
  far_steps_[c].push_back(static_cast<std::uint16_t>(d));
  has_far_steps_ = true;
  return true;
}

void ClassDecoder::spread() {
  if (class_steps_.data() == nullptr) {
    std::memset(class_steps_.need(kernels::kClassStepBytes), 0, kernels::kClassStepBytes);
  }
  is_spread_ = true;
  std::size_t at = 0;
  for (unsigned c = 0; c < table_->cut.count; ++c) {
    std::int8_t* steps = class_steps_.data() + c * kernels::kClassStride;
    spread_changes_[c] = counts_[c].changes;
    for (const std::size_t end = at + counts_[c].changes; at < end; ++at) steps[ranks_.data()[at]] = steps_.data()[at];
  }
  for (unsigned c = table_->cut.count; c < kernels::kMaxClasses; ++c) spread_changes_[c] = 0;
}

void ClassDecoder::clear() {
  std::size_t at = 0;
  for (unsigned c = 0; c < kernels::kMaxClasses && is_spread_; ++c) {
    std::int8_t* steps = class_steps_.data() + c * kernels::kClassStride;
    for (const std::size_t end = at + spread_changes_[c]; at < end; ++at) steps[ranks_.data()[at]] = 0;
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
    const std::size_t count = kernels_.classes.find_steps(held.data(piece), piece.count, piece.offset, table_->cut, next_ranks_,
                                                          class_steps_.data(), positions + block.count, own);
    std::byte* out = steps + block.count * sizeof(std::uint16_t);
    for (std::size_t i = 0; i < count; ++i) store_le(out + i * sizeof(std::uint16_t), static_cast<std::int16_t>(own[i]));
    if (has_far_steps_) put_far_steps(held, piece, {positions + block.count, count}, own, out);
    block.count += count;
  }
  found_ += static_cast<std::uint32_t>(block.count);
}

// A class's far steps are met in the order of their ranks, and each at most once, whatever is held.
void ClassDecoder::put_far_steps(const BlockView& held, const Piece& piece, std::span<const std::uint16_t> positions,
                                 const std::int8_t* found, std::byte* steps) {
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (found[i] != kFar) continue;
    const auto value = load_le<std::uint16_t>(held.data(piece) + (positions[i] - piece.offset) * sizeof(std::uint16_t));
    unsigned c = 0;
    while (static_cast<std::uint16_t>(value + value) >> 8 < table_->cut.lowest[c]) ++c;
    if (far_read_[c] == far_steps_[c].size()) continue;  // an array that someone writes to meanwhile
    store_le(steps + i * sizeof(std::uint16_t), far_steps_[c][far_read_[c]++]);
  }
}

}  // namespace sparcl::codec
