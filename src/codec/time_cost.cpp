#include "src/codec/time_cost.hpp"

#include "src/codec/split_rice.hpp"

namespace sparcl::codec {
namespace {

// By bench_broadcast with 2 and 4 ranks on two cores in shared memory, where lists and whole blocks break even at 15 to 20 % of
// bf16 changed. Heuristic elsewhere.
constexpr std::uint64_t kListedPs = 4000;  // a change: coded, decoded, checked, logged and written
constexpr std::uint64_t kWholePs = 200;    // a byte: copied, and hashed as it was and as it will be by both ends

}  // namespace

bool whole_is_faster(BlockShape shape, std::size_t count, std::uint16_t last, std::uint32_t wire_ps_per_byte) {
  const std::uint64_t listed_bytes = (least_list_bits(shape.elements, count, last) + count) / 8;
  const std::uint64_t listed_ps = count * kListedPs + listed_bytes * wire_ps_per_byte;
  return shape.bytes() * (kWholePs + wire_ps_per_byte) < listed_ps;
}

}  // namespace sparcl::codec
