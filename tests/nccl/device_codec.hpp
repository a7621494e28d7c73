#pragma once
// The device's coding of an update's blocks, apart from any call.

#include "collectives/device/device_scratch.hpp"
#include "src/api/device_kernel_choice.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/state_hash.hpp"
#include "tests/codec/codec_support.hpp"
#include "tests/nccl/gpu_ranks.hpp"

namespace sparcl::test {

using codec::kBlockElements;
using codec::State;
using collectives::DeviceScratch;

struct DeviceCodec : testing::Test {
  DeviceCodec() : scratch(**api::device_kernels()) {
    const OnDevice<std::byte> any({std::byte{0}});
    EXPECT_TRUE(scratch.enter(*context_of(any.get())).ok());
  }
  DeviceScratch scratch;
};

// Block b changes as densities[b] says.
inline State with_densities(const State& base, const std::vector<double>& densities, std::uint64_t seed) {
  State state = base;
  const std::size_t width = element_bytes(base.specs[0].datatype), block_bytes = width * kBlockElements;
  for (std::size_t b = 0; b < densities.size(); ++b) {
    const std::uint64_t count = std::min<std::uint64_t>(kBlockElements, base.specs[0].count - b * kBlockElements);
    State block{{{base.specs[0].datatype, count}}, {{}}};
    const auto first = base.arrays[0].begin() + static_cast<std::ptrdiff_t>(b * block_bytes);
    block.arrays[0].assign(first, first + static_cast<std::ptrdiff_t>(count * width));
    const State changed = codec::changed_state(block, densities[b], codec::Change::kUlp, seed + b);
    std::ranges::copy(changed.arrays[0], state.arrays[0].begin() + static_cast<std::ptrdiff_t>(b * block_bytes));
  }
  return state;
}

}  // namespace sparcl::test
