#include "tests/codec/oracle/blocks.hpp"

#include <sparcl/sparcl.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "tests/codec/oracle/added_blocks.hpp"
#include "tests/codec/oracle/entropy_blocks.hpp"
#include "tests/codec/oracle/lists.hpp"
#include "tests/codec/oracle/position_levels.hpp"

namespace sparcl::oracle {
namespace {

std::uint64_t mask_of(unsigned bits) {
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

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
  refuse_if(content.size() != block.elements * block.kind.bytes,
            "a whole block has another length");
  Changes changes;
  changes.fresh = fresh;
  changes.positions = all_positions(block);
  ByteCursor in(content);
  for (std::uint64_t i = 0; i < block.elements; ++i)
    changes.values.push_back(in.number(block.kind.bytes));
  return changes;
}

std::uint64_t read_change_count(ByteCursor& in, const Block& block) {
  const std::uint64_t count = in.varint();
  refuse_if(count == 0 || count > block.elements, "a block's change count is none");
  return count;
}

Changes read_verbatim(std::span<const std::byte> content, const Block& block, Places places) {
  ByteCursor in(content);
  const std::uint64_t count = read_change_count(in, block);
  PositionLevels positions(in, block.elements, count, places);
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

struct SteppedChanges {
  std::vector<std::uint64_t> positions;
  std::vector<Step> steps;
};

// What follows the count of changes; steps of numbers of `bits`.
SteppedChanges read_step_lists(ByteCursor& in, const Block& block, std::uint64_t count,
                               Places places, unsigned step_bits) {
  PositionLevels positions(in, block.elements, count, places);
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
  for (const Step& step : steps) check_size(step, step_bits);
  return {positions.positions(), std::move(steps)};
}

Changes read_steps(std::span<const std::byte> content, const Block& block, const Values& old,
                   Places places) {
  ByteCursor in(content);
  const std::uint64_t count = read_change_count(in, block);
  SteppedChanges stepped = read_step_lists(in, block, count, places, 8 * block.kind.bytes);
  Changes changes;
  for (std::size_t i = 0; i < count; ++i)
    changes.values.push_back(add(old[stepped.positions[i]], stepped.steps[i], block.kind));
  changes.positions = std::move(stepped.positions);
  return changes;
}

Changes read_added(std::span<const std::byte> content, const Block& block, const Values& old) {
  ByteCursor in(content);
  const std::uint64_t count = read_change_count(in, block);
  const Codes codes = read_codes_head(in, block);
  SteppedChanges stepped = read_step_lists(
      in, block, count, codes.two_levels ? Places::kTwoLevels : Places::kOneList, 8);
  Changes changes;
  for (std::size_t i = 0; i < count; ++i)
    changes.values.push_back(
        add_code(old[stepped.positions[i]], stepped.steps[i], codes, block.kind));
  changes.positions = std::move(stepped.positions);
  return changes;
}

Changes read_mixed(std::span<const std::byte> content, const Block& block, const Values& old) {
  ByteCursor in(content);
  const std::uint64_t count = read_change_count(in, block);
  const std::uint64_t verbatim_bytes = in.varint();
  const Changes known = read_verbatim(in.take(verbatim_bytes), block, Places::kOneList);
  const Changes stepped = read_steps(in.take(in.left()), block, old, Places::kOneList);
  refuse_if(known.positions.size() + stepped.positions.size() != count,
            "the parts of a mixed block have another count");
  std::map<std::uint64_t, std::uint64_t> merged;
  for (const Changes* part : {&known, &stepped}) {
    for (std::size_t i = 0; i < part->positions.size(); ++i)
      merged[part->positions[i]] = part->values[i];
  }
  refuse_if(merged.size() != count, "a position is in both parts of a mixed block");
  Changes changes;
  for (const auto& [position, value] : merged) {
    changes.positions.push_back(position);
    changes.values.push_back(value);
  }
  return changes;
}

Changes read_listed(unsigned mode, std::span<const std::byte> content, const Block& block,
                    const Values& old) {
  if (mode == kVerbatim) return read_verbatim(content, block, Places::kOneList);
  if (mode == kTwoLevelVerbatim) return read_verbatim(content, block, Places::kTwoLevels);
  if (mode == kFlat) return read_steps(content, block, old, Places::kOneList);
  if (mode == kTwoLevel) return read_steps(content, block, old, Places::kTwoLevels);
  if (mode == kBlockSparse) return read_steps(content, block, old, Places::kSubBlocks);
  if (mode == kCoded) return read_coded(content, block, old);
  if (mode == kAdded) return read_added(content, block, old);
  return read_mixed(content, block, old);
}

}  // namespace

void check_size(const Step& step, unsigned bits) {
  const std::uint64_t half = std::uint64_t{1} << (bits - 1);
  refuse_if(step.size > half || (step.size == half && !step.negative),
            "a step leaves the range of its type");
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
      return {2, true, 5};
    case sparclBfloat16:
      return {2, true, 8};
    case sparclInt32:
    case sparclUint32:
      return {4, false};
    case sparclFloat32:
      return {4, true, 8};
    case sparclFloat64:
      return {8, true, 11};
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
    std::copy(
        at, at + size,
        arrays[piece.array].begin() + static_cast<std::ptrdiff_t>(piece.first * block.kind.bytes));
    at += size;
  }
}

Bytes as_bytes(const Values& values, const ElementKind& kind) {
  Bytes bytes;
  for (const std::uint64_t value : values) {
    for (unsigned i = 0; i < kind.bytes; ++i)
      bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  return bytes;
}

Changes read_block(unsigned mode, std::span<const std::byte> content, const Block& block,
                   const Values& old, Kind stream) {
  if (mode == kDense || mode == kFresh) return read_whole(content, block, mode == kFresh);
  if (mode == kPacked || mode == kPackedFresh)
    return read_packed(content, block, mode == kPackedFresh);
  if (stream == Kind::kUpdate) {
    // The old check at its end only tells early writers where they may go on: it refuses nothing.
    refuse_if(content.size() < 2, "a block is cut off before its old check");
    content = content.first(content.size() - 2);
  }
  return read_listed(mode, content, block, old);
}

}  // namespace sparcl::oracle
