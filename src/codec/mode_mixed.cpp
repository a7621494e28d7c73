// Mode mixed: a verbatim part and a flat part. Only composition writes it: if one update gave an
// element's value and another a neighbour's step, no other mode can hold both without the base.

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/codec/block_mode.hpp"

namespace sparcl::codec {
namespace {

std::size_t cost(BlockChanges&) { return kCannot; }
void encode(BlockChanges&, std::byte*) {}

struct Parts {
  std::size_t count = 0;
  std::span<const std::byte> verbatim;
  std::span<const std::byte> flat;
};

const char* split(std::span<const std::byte> payload, BlockShape shape, Parts& parts) {
  if (!read_change_count(payload, shape, parts.count)) return "has an invalid change count";
  ByteReader reader(payload);
  std::uint64_t verbatim_bytes = 0;
  if (!reader.read_varint(verbatim_bytes) || !reader.read_bytes(verbatim_bytes, parts.verbatim))
    return "ends inside its values";
  parts.flat = payload.subspan(reader.position());
  return nullptr;
}

// Merges both parts' ascending positions; false if they share one.
bool merge(const DecodedBlock& verbatim, const DecodedBlock& flat, std::size_t width,
           DecodedBlock& block) {
  std::size_t v = 0;
  std::size_t f = 0;
  for (std::size_t i = 0; i < block.count; ++i) {
    const bool from_verbatim =
        v < verbatim.count &&
        (f == flat.count || verbatim.positions.data()[v] < flat.positions.data()[f]);
    if (v < verbatim.count && f < flat.count &&
        verbatim.positions.data()[v] == flat.positions.data()[f])
      return false;
    std::byte* step = block.values.data() + i * width;
    if (from_verbatim) {
      std::memset(step, 0, width);
      block.replaced.data()[v] = static_cast<std::uint16_t>(i);
      block.positions.data()[i] = verbatim.positions.data()[v++];
    } else {
      std::memcpy(step, flat.values.data() + f * width, width);
      block.positions.data()[i] = flat.positions.data()[f++];
    }
  }
  return true;
}

const char* decode(BlockShape shape, std::span<const std::byte> payload,
                   const kernels::KernelSet& kernels, DecodedBlock& block) {
  Parts parts;
  if (const char* wrong = split(payload, shape, parts)) return wrong;
  std::vector<std::byte> padded(parts.verbatim.begin(),
                                parts.verbatim.end());  // zeros follow it: what bit readers need
  padded.resize(padded.size() + kernels::kBitSlackBytes);
  DecodedBlock verbatim;
  DecodedBlock flat;
  if (const char* wrong =
          kVerbatimMode.decode(shape, {padded.data(), parts.verbatim.size()}, kernels, verbatim))
    return wrong;
  if (const char* wrong = kFlatMode.decode(shape, parts.flat, kernels, flat)) return wrong;
  if (verbatim.count + flat.count != parts.count)
    return "has another count of changes than its parts";

  const std::size_t width = shape.element_bytes();
  make_room(block, shape, parts.count);
  block.kind = DecodedKind::kMixed;
  block.fresh = false;
  block.replaced_count = verbatim.count;
  block.replaced.need(verbatim.count);
  std::copy_n(verbatim.positions.data(), verbatim.count,
              block.replaced_at.need(verbatim.count + kernels::kPositionSlack));
  std::copy_n(verbatim.values.data(), verbatim.count * width,
              block.replaced_values.need(verbatim.count * width));
  return merge(verbatim, flat, width, block) ? nullptr : "changes an element twice";
}

}  // namespace

const BlockMode kMixedMode{5, "mixed", false, false, cost, encode, decode};

void replace_values(const DecodedBlock& block, BlockShape shape, std::byte* new_values) {
  const std::size_t width = shape.element_bytes();
  for (std::size_t i = 0; i < block.replaced_count; ++i) {
    std::memcpy(new_values + block.replaced.data()[i] * width,
                block.replaced_values.data() + i * width, width);
  }
}

}  // namespace sparcl::codec
