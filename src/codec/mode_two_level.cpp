// Modes two_level and two_level_verbatim, for changes in clusters (embedding rows, block masks,
// experts): the positions on two levels, and the steps of mode flat or the values of mode verbatim.

#include <cstring>

#include "src/base/bytes.hpp"
#include "src/codec/block_mode.hpp"

namespace sparcl::codec {
namespace {

std::size_t head_bytes(std::size_t count, const TwoLevelList& list) {
  std::byte varint[kMaxVarintBytes];
  return store_varint(varint, count) + list.head_bytes();
}

std::size_t steps_cost(BlockChanges& changes) {
  if (changes.fresh || !changes.has_steps) return kCannot;
  const TwoLevelList* list = changes.two_level();
  if (list == nullptr) return kCannot;
  const StepList& steps = changes.steps();
  return head_bytes(changes.count, *list) + steps.head_bytes() +
         static_cast<std::size_t>((list->bits() + steps.bits() + 7) / 8);
}

void encode_steps(BlockChanges& changes, std::byte* out) {
  write_stepped(changes, *changes.two_level(), out + store_varint(out, changes.count));
}

std::size_t values_cost(BlockChanges& changes) {
  if (changes.fresh) return kCannot;
  const TwoLevelList* list = changes.two_level();
  if (list == nullptr) return kCannot;
  return head_bytes(changes.count, *list) + changes.count * changes.shape().element_bytes() +
         static_cast<std::size_t>((list->bits() + 7) / 8);
}

void encode_values(BlockChanges& changes, std::byte* out) {
  const kernels::ListKernels& lists = changes.kernels->lists;
  const TwoLevelList& list = *changes.two_level();
  const std::size_t value_bytes = changes.count * changes.shape().element_bytes();
  out += store_varint(out, changes.count);
  out = list.write_head(out);
  std::memcpy(out, changes.new_values.data(), value_bytes);
  kernels::BitWriter bits{out + value_bytes};
  list.write_planes(lists, bits);
  list.write_unary(lists, bits);
  bits.finish();
}

// The part that both have at their front.
const char* begin(BlockShape shape, DecodedKind kind, std::span<const std::byte>& payload,
                  DecodedBlock& block) {
  std::size_t count = 0;
  if (!read_change_count(payload, shape, count)) return "has an invalid change count";
  if (!block.two_level.read_head(payload, shape.elements, count))
    return "has invalid sizes of gaps";
  make_room(block, shape, count);
  block.kind = kind;
  block.fresh = false;
  return nullptr;
}

const char* decode_steps(BlockShape shape, std::span<const std::byte> payload,
                         const kernels::KernelSet& kernels, DecodedBlock& block) {
  if (const char* wrong = begin(shape, DecodedKind::kSteps, payload, block)) return wrong;
  if (const char* wrong = block.steps.read_head(payload, block.count)) return wrong;
  std::byte* steps = block.values.data();
  BitCursor bits{payload.data(), 0, 8 * std::uint64_t{payload.size()}};
  if (!block.two_level.read_planes(kernels.lists, bits))
    return "ends inside its positions, or has long gaps past its end";
  if (const char* wrong = block.steps.read_planes(kernels, shape.datatype, bits, steps))
    return wrong;
  if (!block.two_level.read_unary(kernels.lists, bits, block.positions.data()))
    return "has positions past its end";
  if (const char* wrong = block.steps.read_unary(kernels, shape.datatype, bits, steps))
    return wrong;
  return ends_cleanly(bits) ? nullptr : "does not end where its steps do";
}

const char* decode_values(BlockShape shape, std::span<const std::byte> payload,
                          const kernels::KernelSet& kernels, DecodedBlock& block) {
  if (const char* wrong = begin(shape, DecodedKind::kValues, payload, block)) return wrong;
  const std::size_t value_bytes = block.count * shape.element_bytes();
  if (payload.size() < value_bytes) return "ends inside its values";
  std::memcpy(block.values.data(), payload.data(), value_bytes);
  BitCursor bits{payload.data() + value_bytes, 0, 8 * std::uint64_t{payload.size() - value_bytes}};
  if (!block.two_level.read_planes(kernels.lists, bits))
    return "ends inside its positions, or has long gaps past its end";
  if (!block.two_level.read_unary(kernels.lists, bits, block.positions.data()))
    return "has positions past its end";
  return ends_cleanly(bits) ? nullptr : "does not end where its positions do";
}

}  // namespace

const BlockMode kTwoLevelMode{6,          "two_level",  false,        false,
                              steps_cost, encode_steps, decode_steps, false,
                              false,      nullptr,      true};
const BlockMode kTwoLevelVerbatimMode{7,
                                      "two_level_verbatim",
                                      true,
                                      false,
                                      values_cost,
                                      encode_values,
                                      decode_values,
                                      false,
                                      false,
                                      nullptr,
                                      true};

}  // namespace sparcl::codec
