// Mode added: positions, and codes of 8 bits that are added to the held values (scaled_codes.hpp).
// The codes are sent like the steps of mode flat. Most steps are small: codes are mostly near zero,
// or (kFloat8) near the largest number.

#include <algorithm>

#include "src/base/bytes.hpp"
#include "src/codec/block_mode.hpp"

namespace sparcl::codec {
namespace {

constexpr std::uint8_t kTwoLevelFlag = 2;  // flag of the form; the lowest bit is the CodeKind
constexpr DataType kCodeType = DataType::kInt8;

// nullptr: one level.
const TwoLevelList* levels_of(BlockChanges& changes) {
  const TwoLevelList* list = changes.two_level();
  if (list == nullptr) return nullptr;
  return list->head_bytes() + list->bits() / 8 < changes.list().bits() / 8 ? list : nullptr;
}

std::size_t cost(BlockChanges& changes) {
  if (!changes.lossy.active() || changes.fresh || !changes.has_steps) return kCannot;
  const TwoLevelList* levels = levels_of(changes);
  StepList& codes = changes.codes;
  changes.zeros.resize(kBlockElements);  // codes are steps from zero
  codes.prepare(*changes.kernels, kCodeType, changes.zeros.data(), changes.lossy.codes(),
                changes.count);
  const std::uint64_t bits =
      codes.bits() + (levels != nullptr ? levels->bits() : changes.list().bits());
  std::byte varint[kMaxVarintBytes];
  return store_varint(varint, changes.count) + 1 + sizeof(Scale) +
         (levels != nullptr ? levels->head_bytes() : 0) + codes.head_bytes() +
         static_cast<std::size_t>((bits + 7) / 8);
}

void encode(BlockChanges& changes, std::byte* out) {
  const kernels::ListKernels& lists = changes.kernels->lists;
  const TwoLevelList* levels = levels_of(changes);
  const StepList& codes = changes.codes;
  out += store_varint(out, changes.count);
  *out++ = static_cast<std::byte>(static_cast<unsigned>(changes.lossy.kind()) |
                                  (levels != nullptr ? kTwoLevelFlag : 0U));
  store_le(out, changes.lossy.scale().bits);
  out += sizeof(Scale);
  kernels::BitWriter bits{codes.write_head(levels != nullptr ? levels->write_head(out) : out)};
  levels != nullptr ? levels->write_planes(lists, bits) : changes.list().write_planes(lists, bits);
  codes.write_planes(bits);
  levels != nullptr ? levels->write_unary(lists, bits) : changes.list().write_unary(lists, bits);
  codes.write_unary(bits);
  bits.finish();
}

// Are all steps of 8 bits valid codes? A code may have a smaller range.
bool are_codes(CodeKind kind, const std::byte* steps, std::size_t count) {
  const int top = top_code(kind);
  return std::all_of(steps, steps + count, [top](std::byte step) {
    const auto code = static_cast<std::int8_t>(step);
    return code >= -top && code <= top;
  });
}

const char* decode(BlockShape shape, std::span<const std::byte> payload,
                   const kernels::KernelSet& kernels, DecodedBlock& block) {
  if (!takes_codes(shape.datatype)) return "adds codes to what is no float of 16 bits or more";
  std::size_t count = 0;
  if (!read_change_count(payload, shape, count)) return "has an invalid change count";
  ByteReader reader(payload);
  std::uint8_t form = 0;
  if (!reader.read(form) || form > (kTwoLevelFlag | 1) || !reader.read(block.scale.bits) ||
      !block.scale.valid()) {
    return "has an invalid form or scale";
  }
  payload = payload.subspan(reader.position());
  const bool two_level = (form & kTwoLevelFlag) != 0;
  if (two_level && !block.two_level.read_head(payload, shape.elements, count))
    return "has invalid sizes of gaps";
  if (const char* wrong = block.steps.read_head(payload, count)) return wrong;

  make_room(block, shape, count);
  block.kind = DecodedKind::kAdded;
  block.fresh = false;
  block.code_kind = static_cast<CodeKind>(form & 1);
  std::byte* codes = block.values.data();
  std::uint16_t* positions = block.positions.data();
  BitCursor bits{payload.data(), 0, 8 * std::uint64_t{payload.size()}};
  const bool has_planes = two_level
                              ? block.two_level.read_planes(kernels.lists, bits)
                              : block.list.read_planes(kernels.lists, bits, shape.elements, count);
  if (!has_planes) return "ends inside its positions, or has long gaps past its end";
  if (const char* wrong = block.steps.read_planes(kernels, kCodeType, bits, codes)) return wrong;
  const bool has_positions = two_level ? block.two_level.read_unary(kernels.lists, bits, positions)
                                       : block.list.read_unary(kernels.lists, bits, positions);
  if (!has_positions) return "has positions past its end";
  if (const char* wrong = block.steps.read_unary(kernels, kCodeType, bits, codes)) return wrong;
  if (!are_codes(block.code_kind, codes, count)) return "has a code that there is not";
  return ends_cleanly(bits) ? nullptr : "does not end where its codes do";
}

}  // namespace

const BlockMode kAddedMode{11, "added", false, false, cost, encode, decode};

}  // namespace sparcl::codec
