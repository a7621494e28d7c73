// Modes packed and packed_fresh: a whole block as planes of its bytes. Planes that are not noise
// are entropy-coded. For blocks that are sent whole they save a third of bf16 weights and a sixth
// of fp32 compared with mode dense.

#include "src/codec/block_mode.hpp"

namespace sparcl::codec {
namespace {

std::size_t cost(BlockChanges& changes, bool fresh) {
  const BlockShape shape = changes.shape();
  if (changes.fresh != fresh || !changes.has_all_values()) return kCannot;
  const bool is_asked = changes.thorough && changes.bytes_to_beat >= shape.bytes() / kMinPackedPart;
  if (!is_asked && (fresh || !changes.forced)) return kCannot;
  changes.planes.prepare(*changes.kernels, shape,
                         whole_block(changes.target, changes.whole).data());
  return changes.planes.bytes();
}

std::size_t packed_cost(BlockChanges& changes) { return cost(changes, false); }
std::size_t fresh_cost(BlockChanges& changes) { return cost(changes, true); }
void encode(BlockChanges& changes, std::byte* out) { changes.planes.write(out); }

template <bool kFresh>
const char* decode(BlockShape shape, std::span<const std::byte> payload,
                   const kernels::KernelSet& kernels, DecodedBlock& block) {
  std::byte* elements = block.values.need(shape.bytes());
  if (const char* wrong = block.planes.read(kernels, shape, payload, elements)) return wrong;
  block.kind = DecodedKind::kWhole;
  block.fresh = kFresh;
  block.count = shape.elements;
  block.whole = elements;
  return nullptr;
}

}  // namespace

const BlockMode kPackedMode{8, "packed", false, true, packed_cost, encode, decode<false>};
const BlockMode kPackedFreshMode{9,      "packed_fresh", false, true, fresh_cost,
                                 encode, decode<true>,   false, true};

}  // namespace sparcl::codec
