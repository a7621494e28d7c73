// Mode verbatim: positions, and the new values as they are. Needs no base.

#include <cstring>

#include "src/base/bytes.hpp"
#include "src/codec/block_mode.hpp"

namespace sparcl::codec {
namespace {

std::size_t varint_bytes(std::uint64_t value) {
  std::byte bytes[kMaxVarintBytes];
  return store_varint(bytes, value);
}

std::size_t cost(BlockChanges& changes) {
  if (changes.fresh) return kCannot;
  const std::uint64_t bits = changes.list().bits();
  return varint_bytes(changes.count) + changes.count * changes.shape().element_bytes() +
         (bits + 7) / 8;
}

void encode(BlockChanges& changes, std::byte* out) {
  const kernels::ListKernels& lists = changes.kernels->lists;
  const std::size_t value_bytes = changes.count * changes.shape().element_bytes();
  out += store_varint(out, changes.count);
  std::memcpy(out, changes.new_values.data(), value_bytes);
  kernels::BitWriter bits{out + value_bytes};
  changes.list().write_planes(lists, bits);
  changes.list().write_unary(lists, bits);
  bits.finish();
}

const char* decode(BlockShape shape, std::span<const std::byte> payload,
                   const kernels::KernelSet& kernels, DecodedBlock& block) {
  std::size_t count = 0;
  if (!read_change_count(payload, shape, count)) return "has an invalid change count";
  const std::size_t value_bytes = count * shape.element_bytes();
  if (payload.size() < value_bytes) return "ends inside its values";
  make_room(block, shape, count);
  block.kind = DecodedKind::kValues;
  block.fresh = false;
  std::memcpy(block.values.data(), payload.data(), value_bytes);
  BitCursor bits{payload.data() + value_bytes, 0, 8 * std::uint64_t{payload.size() - value_bytes}};
  if (!block.list.read_planes(kernels.lists, bits, shape.elements, count))
    return "ends inside its positions";
  if (!block.list.read_unary(kernels.lists, bits, block.positions.data()))
    return "has positions past its end";
  return ends_cleanly(bits) ? nullptr : "does not end where its positions do";
}

}  // namespace

const BlockMode kVerbatimMode{2,      "verbatim", true,  false,   cost, encode,
                              decode, false,      false, nullptr, true};

}  // namespace sparcl::codec
