// Mode coded: the entropy-coded steps of all elements, given the old values. For blocks with many
// changes, and for changes of many sizes; it takes several times the time of mode flat.

#include <cstring>
#include <numeric>

#include "src/codec/block_mode.hpp"

namespace sparcl::codec {
namespace {

// If fewer than 1 / kMinShare of the elements change, the tables cost more than they save.
constexpr std::size_t kMinShare = 64;

bool is_asked(const BlockChanges& changes) {
  if (changes.fresh || !changes.may_need_base) return false;
  return changes.forced ||
         (changes.thorough && changes.count >= changes.shape().elements / kMinShare);
}

ChangeList list_of(const BlockChanges& changes) {
  return {changes.positions.data(), changes.old_values.data(), changes.new_values.data(),
          changes.count};
}

std::size_t cost(BlockChanges& changes) {
  if (!is_asked(changes)) return kCannot;
  const std::byte* base = whole_block(changes.base, changes.whole).data();
  const std::size_t enough = changes.forced ? kCannot : changes.bytes_to_beat;
  const bool pays =
      changes.coded.prepare(*changes.kernels, changes.shape(), base, list_of(changes), enough);
  return pays ? changes.coded.bytes() : kCannot;
}

void encode(BlockChanges& changes, std::byte* out) { changes.coded.write(out); }

const char* decode(BlockShape shape, std::span<const std::byte> payload, const kernels::KernelSet&,
                   DecodedBlock& block) {
  std::size_t count = 0;
  if (!read_change_count(payload, shape, count)) return "has an invalid change count";
  make_room(block, shape, count);
  block.kind = DecodedKind::kSteps;
  block.fresh = false;
  return block.coded.read(shape, payload, count);
}

bool resolve(BlockShape shape, const std::byte* held, const kernels::KernelSet& kernels,
             DecodedBlock& block) {
  if (block.coded.find(kernels, shape, held, block.positions.data(), block.values.data()))
    return true;
  std::iota(block.positions.data(), block.positions.data() + block.count, std::uint16_t{0});
  std::memset(block.values.data(), 0, block.count * shape.element_bytes());
  return false;
}

}  // namespace

std::size_t min_coded_bytes(BlockChanges& changes) {
  if (!is_asked(changes)) return kCannot;
  const std::byte* base = whole_block(changes.base, changes.whole).data();
  return changes.coded.min_bytes(*changes.kernels, changes.shape(), base, list_of(changes));
}

const BlockMode kCodedMode{10, "coded", false, false, cost, encode, decode, false, false, resolve};

}  // namespace sparcl::codec
