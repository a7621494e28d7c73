// Mode flat: positions, and steps against the value that the receiver holds.

#include "src/base/bytes.hpp"
#include "src/codec/block_mode.hpp"

namespace sparcl::codec {
namespace {

std::size_t cost(BlockChanges& changes) {
  if (changes.fresh || !changes.has_steps) return kCannot;
  const StepList& steps = changes.steps();
  const std::uint64_t bits = changes.list().bits() + steps.bits();
  std::byte varint[kMaxVarintBytes];
  return store_varint(varint, changes.count) + steps.head_bytes() +
         static_cast<std::size_t>((bits + 7) / 8);
}

void encode(BlockChanges& changes, std::byte* out) {
  const kernels::ListKernels& lists = changes.kernels->lists;
  const StepList& steps = changes.steps();
  out += store_varint(out, changes.count);
  kernels::BitWriter bits{steps.write_head(out)};
  changes.list().write_planes(lists, bits);
  steps.write_planes(bits);
  changes.list().write_unary(lists, bits);
  steps.write_unary(bits);
  bits.finish();
}

const char* decode(BlockShape shape, std::span<const std::byte> payload,
                   const kernels::KernelSet& kernels, DecodedBlock& block) {
  std::size_t count = 0;
  if (!read_change_count(payload, shape, count)) return "has an invalid change count";
  if (const char* wrong = block.steps.read_head(payload, count)) return wrong;
  make_room(block, shape, count);
  block.kind = DecodedKind::kSteps;
  block.fresh = false;
  std::byte* steps = block.values.data();
  BitCursor bits{payload.data(), 0, 8 * std::uint64_t{payload.size()}};
  if (!block.list.read_planes(kernels.lists, bits, shape.elements, count))
    return "ends inside its positions";
  if (const char* wrong = block.steps.read_planes(kernels, shape.datatype, bits, steps))
    return wrong;
  if (!block.list.read_unary(kernels.lists, bits, block.positions.data()))
    return "has positions past its end";
  if (const char* wrong = block.steps.read_unary(kernels, shape.datatype, bits, steps))
    return wrong;
  return ends_cleanly(bits) ? nullptr : "does not end where its steps do";
}

}  // namespace

const BlockMode kFlatMode{3,      "flat", false, false,   cost, encode,
                          decode, false,  false, nullptr, true};

}  // namespace sparcl::codec
