#include "src/codec/time_cost.hpp"

#include "src/codec/split_rice.hpp"

namespace sparcl::codec {
namespace {

// On one machine: both ends' work together, by bench_broadcast with 2 and 4 ranks on two cores in
// shared memory, where lists and whole blocks break even at 15 to 20 % of bf16 changed. Else the
// slower end's (bench_codec): the ends work at the same time.
struct Work {
  std::uint64_t listed_ps;  // a change: coded; decoded, checked, logged and written
  std::uint64_t whole_ps;   // a byte: copied, and hashed as it was and as it will be
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
