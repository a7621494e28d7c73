#include "tests/codec/oracle/blocks.hpp"

#include <sparcl/sparcl.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "tests/codec/oracle/entropy_blocks.hpp"
#include "tests/codec/oracle/lists.hpp"

namespace sparcl::oracle {
namespace {

std::uint64_t mask_of(unsigned bits) { return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1; }

// The order of floats by value, as an order of unsigned numbers; and back.
std::uint64_t ord(std::uint64_t value, const ElementKind& kind) {
  const unsigned bits = 8 * kind.bytes;
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  if (!kind.is_float) return value;
  return (value & sign) != 0 ? ~value & mask_of(bits) : value | sign;
}

std::uint64_t unord(std::uint64_t value, const ElementKind& kind) {
  const unsigned bits = 8 * kind.bytes;
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  if (!kind.is_float) return value;
  return (value & sign) != 0 ? value & ~sign : ~value & mask_of(bits);
}

Changes read_whole(std::span<const std::byte> content, const Block& block, bool fresh) {
  refuse_if(content.size() != block.elements * block.kind.bytes, "a whole block has another length");
  Changes changes;
  changes.fresh = fresh;
  changes.positions = all_positions(block);
  ByteCursor in(content);
  for (std::uint64_t i = 0; i < block.elements; ++i) changes.values.push_back(in.number(block.kind.bytes));
  return changes;
}

std::uint64_t read_change_count(ByteCursor& in, const Block& block) {
  const std::uint64_t count = in.varint();
  refuse_if(count == 0 || count > block.elements, "a block's change count is none");
  return count;
}

// Where a block's changes are: one list of positions, or two (of sub-blocks, and in these).
class Positions {
 public:
  Positions(ByteCursor& in, const Block& block, std::uint64_t count, bool two_levels)
      : elements_(block.elements), count_(count), two_levels_(two_levels) {
    if (!two_levels) return;
    const std::uint64_t parameters = in.number(1);
    refuse_if(parameters >= 0x20, "undefined bits of sub-blocks are set");
    runs_ = (parameters & 0x10) != 0;
    size_bits_ = static_cast<unsigned>(parameters & 0x0f);
    refuse_if(size_bits_ < 4 || size_bits_ > 12, "sub-blocks of a size that there is not");
    subs_ = (elements_ + (std::uint64_t{1} << size_bits_) - 1) >> size_bits_;
    listed_ = in.varint();
    refuse_if(listed_ == 0 || listed_ > subs_, "a list of sub-blocks has another length");
  }

  void read_planes(BitCursor& bits) {
    if (two_levels_) {
      read_subs(bits);
    } else {
      for (std::uint64_t i = 0; i < elements_; ++i) candidates_.push_back(i);
    }
    refuse_if(candidates_.size() < count_, "more changes than elements in active sub-blocks");
    lists_unchanged_ = two_levels_ && 2 * count_ > candidates_.size();
    list_.emplace(candidates_.size(), lists_unchanged_ ? candidates_.size() - count_ : count_);
    list_->read_planes(bits);
  }

  void read_unary(BitCursor& bits) { list_->read_unary(bits); }

  std::vector<std::uint64_t> positions() const {
    std::vector<bool> is_listed(candidates_.size());
    for (const std::uint64_t position : list_->positions()) is_listed[position] = true;
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (is_listed[i] != lists_unchanged_) all.push_back(candidates_[i]);
    }
    return all;
  }

 private:
  void read_subs(BitCursor& bits) {
    PositionList list(subs_, listed_);
    list.read_planes(bits);
    list.read_unary(bits);
    std::vector<bool> is_listed(subs_);
    for (const std::uint64_t sub : list.positions()) is_listed[sub] = true;
    bool active = false;
    for (std::uint64_t sub = 0; sub < subs_; ++sub) {
      active = runs_ ? active != is_listed[sub] : is_listed[sub];
      const std::uint64_t end = std::min(elements_, (sub + 1) << size_bits_);
      for (std::uint64_t i = sub << size_bits_; active && i < end; ++i) candidates_.push_back(i);
    }
  }

  std::uint64_t elements_;
  std::uint64_t count_;
  bool two_levels_;
  bool runs_ = false;
  unsigned size_bits_ = 0;
  std::uint64_t subs_ = 0;
  std::uint64_t listed_ = 0;
  bool lists_unchanged_ = false;
  std::vector<std::uint64_t> candidates_;  // elements that may change
  std::optional<PositionList> list_;
};

Changes read_verbatim(std::span<const std::byte> content, const Block& block, bool two_levels) {
  ByteCursor in(content);
  const std::uint64_t count = read_change_count(in, block);
  Positions positions(in, block, count, two_levels);
  Changes changes;
  refuse_if(in.left() < count * block.kind.bytes, "a block is cut off inside its values");
  for (std::uint64_t i = 0; i < count; ++i) changes.values.push_back(in.number(block.kind.bytes));
  BitCursor bits(in.take(in.left()));
  positions.read_planes(bits);
  positions.read_unary(bits);
  bits.end();
  changes.positions = positions.positions();
  return changes;
}

Changes read_steps(std::span<const std::byte> content, const Block& block, const Values& old, bool two_levels) {
  ByteCursor in(content);
  const std::uint64_t count = read_change_count(in, block);
  Positions positions(in, block, count, two_levels);
  const std::uint64_t parameters = in.number(1);
  refuse_if(parameters >= 0x80, "bit 7 of the parameters of steps is set");
  const auto e = static_cast<unsigned>(parameters & 0x3f);
  const bool all = (parameters & 0x40) != 0;
  const std::uint64_t exception_count = all ? 0 : in.varint();
  refuse_if(exception_count > count, "more exceptions than changes");
  refuse_if(!all && exception_count == 0 && e > 0, "e without exceptions");

  BitCursor bits(in.take(in.left()));
  PositionList exceptions(count, exception_count);
  std::vector<Step> steps(count);
  positions.read_planes(bits);
  for (Step& step : steps) step.negative = bits.bit();
  exceptions.read_planes(bits);
  positions.read_unary(bits);
  exceptions.read_unary(bits);
  const Values magnitudes = read_magnitudes(bits, all ? count : exception_count, e);
  bits.end();

  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    const std::uint64_t m = magnitudes[i];
    const std::uint64_t more = all ? 1 : 2;
    refuse_if(m > ~std::uint64_t{0} - more, "a step leaves the range of its type");
    steps[all ? i : exceptions.positions()[i]].size = m + more;
  }
  Changes changes;
  changes.positions = positions.positions();
  for (std::size_t i = 0; i < count; ++i) {
    check_size(steps[i], 8 * block.kind.bytes);
    changes.values.push_back(add(old[changes.positions[i]], steps[i], block.kind));
  }
  return changes;
}

Changes read_mixed(std::span<const std::byte> content, const Block& block, const Values& old) {
  ByteCursor in(content);
  const std::uint64_t count = read_change_count(in, block);
  const std::uint64_t verbatim_bytes = in.varint();
  const Changes known = read_verbatim(in.take(verbatim_bytes), block, false);
  const Changes stepped = read_steps(in.take(in.left()), block, old, false);
  refuse_if(known.positions.size() + stepped.positions.size() != count, "the parts of a mixed block have another count");
  std::map<std::uint64_t, std::uint64_t> merged;
  for (const Changes* part : {&known, &stepped}) {
    for (std::size_t i = 0; i < part->positions.size(); ++i) merged[part->positions[i]] = part->values[i];
  }
  refuse_if(merged.size() != count, "a position is in both parts of a mixed block");
  Changes changes;
  for (const auto& [position, value] : merged) {
    changes.positions.push_back(position);
    changes.values.push_back(value);
  }
  return changes;
}

Changes read_listed(unsigned mode, std::span<const std::byte> content, const Block& block, const Values& old) {
  if (mode == kVerbatim || mode == kTwoLevelVerbatim) return read_verbatim(content, block, mode == kTwoLevelVerbatim);
  if (mode == kFlat || mode == kTwoLevel) return read_steps(content, block, old, mode == kTwoLevel);
  if (mode == kCoded) return read_coded(content, block, old);
  return read_mixed(content, block, old);
}

}  // namespace

void check_size(const Step& step, unsigned bits) {
  const std::uint64_t half = std::uint64_t{1} << (bits - 1);
  refuse_if(step.size > half || (step.size == half && !step.negative), "a step leaves the range of its type");
}

std::uint64_t add(std::uint64_t old, const Step& step, const ElementKind& kind) {
  const std::uint64_t sum = step.negative ? ord(old, kind) - step.size : ord(old, kind) + step.size;
  return unord(sum & mask_of(8 * kind.bytes), kind);
}

ElementKind element_kind(std::uint8_t data_type) {
  switch (data_type) {
    case sparclInt8:
    case sparclUint8:
    case sparclBool:
      return {1, false};
    case sparclFloat8e4m3:
    case sparclFloat8e5m2:
      return {1, true};
    case sparclInt16:
    case sparclUint16:
      return {2, false};
    case sparclFloat16:
    case sparclBfloat16:
      return {2, true};
    case sparclInt32:
    case sparclUint32:
      return {4, false};
    case sparclFloat32:
      return {4, true};
    case sparclFloat64:
      return {8, true};
    default:
      return {8, false};
  }
}

std::vector<Block> cut_blocks(const std::vector<ArraySpec>& arrays) {
  std::vector<Block> blocks;
  int run_type = -1;
  for (std::size_t array = 0; array < arrays.size(); ++array) {
    const ArraySpec& spec = arrays[array];
    for (std::uint64_t first = 0; first < spec.elements;) {
      const bool same_run = run_type == spec.data_type;
      if (!same_run || blocks.back().elements == kBlockElements) {
        const std::uint64_t in_run = same_run ? blocks.back().in_run + 1 : 0;
        blocks.push_back({blocks.size(), 0, element_kind(spec.data_type), {}, in_run});
        run_type = spec.data_type;
      }
      Block& block = blocks.back();
      const std::uint64_t count = std::min(spec.elements - first, kBlockElements - block.elements);
      block.pieces.push_back({array, first, count});
      block.elements += count;
      first += count;
    }
  }
  return blocks;
}

std::vector<std::uint64_t> all_positions(const Block& block) {
  std::vector<std::uint64_t> positions(block.elements);
  std::iota(positions.begin(), positions.end(), std::uint64_t{0});
  return positions;
}

Values load(const std::vector<Bytes>& arrays, const Block& block) {
  Values values;
  for (const Piece& piece : block.pieces) {
    const std::span<const std::byte> array(arrays[piece.array]);
    ByteCursor in(array.subspan(piece.first * block.kind.bytes, piece.count * block.kind.bytes));
    for (std::uint64_t i = 0; i < piece.count; ++i) values.push_back(in.number(block.kind.bytes));
  }
  return values;
}

void store(std::vector<Bytes>& arrays, const Block& block, const Values& values) {
  const Bytes bytes = as_bytes(values, block.kind);
  auto at = bytes.begin();
  for (const Piece& piece : block.pieces) {
    const auto size = static_cast<std::ptrdiff_t>(piece.count * block.kind.bytes);
    std::copy(at, at + size, arrays[piece.array].begin() + static_cast<std::ptrdiff_t>(piece.first * block.kind.bytes));
    at += size;
  }
}

Bytes as_bytes(const Values& values, const ElementKind& kind) {
  Bytes bytes;
  for (const std::uint64_t value : values) {
    for (unsigned i = 0; i < kind.bytes; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  return bytes;
}

Changes read_block(unsigned mode, std::span<const std::byte> content, const Block& block, const Values& old, Kind stream) {
  if (mode == kDense || mode == kFresh) return read_whole(content, block, mode == kFresh);
  if (mode == kPacked || mode == kPackedFresh) return read_packed(content, block, mode == kPackedFresh);
  if (stream == Kind::kUpdate) {
    // The old check at its end only tells early writers where they may go on: it refuses nothing.
    refuse_if(content.size() < 2, "a block is cut off before its old check");
    content = content.first(content.size() - 2);
  }
  return read_listed(mode, content, block, old);
}

}  // namespace sparcl::oracle
