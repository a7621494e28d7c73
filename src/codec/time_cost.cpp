#include "src/codec/time_cost.hpp"

#include "src/codec/split_rice.hpp"

namespace sparcl::codec {
namespace {

// On one machine, the work of both ends together, by bench_broadcast with 2 and 4 ranks on two
// cores in shared memory. There lists and whole blocks break even at 15 to 20 % of bf16 changed.
// Otherwise the slower end (bench_codec), because both ends work at the same time.
struct Work {
  std::uint64_t listed_ps;  // for each change: coded; decoded, checked, logged and written
  std::uint64_t whole_ps;   // for each byte: copied, and hashed before and after the change
};
constexpr Work kOneMachine{4000, 200};
constexpr Work kTwoMachines{1700, 100};

}  // namespace

bool whole_is_faster(BlockShape shape, std::size_t count, std::uint16_t last,
                     const LinkTime& link) {
  const Work& work = link.one_machine ? kOneMachine : kTwoMachines;
  const std::uint64_t listed_bytes = (min_list_bits(shape.elements, count, last) + count) / 8;
  const std::uint64_t listed_ps = count * work.listed_ps + listed_bytes * link.ps_per_byte;
  return shape.bytes() * (work.whole_ps + link.ps_per_byte) < listed_ps;
}

}  // namespace sparcl::codec
