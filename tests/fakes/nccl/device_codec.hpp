#pragma once
// The device's coding of an update's blocks, apart from any call.

#include "collectives/broadcast/update_ends.hpp"
#include "src/api/device_kernel_choice.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/state_hash.hpp"
#include "src/device/device_scratch.hpp"
#include "tests/codec/codec_support.hpp"
#include "tests/emulated/clusters.hpp"
#include "tests/fakes/nccl/gpu_ranks.hpp"

namespace sparcl::test {

using codec::kBlockElements;
using codec::State;
using device::DeviceScratch;

// The arrays of a state there, those that are not empty.
class StateOnDevice {
 public:
  template <class Pointer>
  StateOnDevice(const std::vector<codec::ArraySpec>& specs, const std::vector<Pointer>& bytes) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const std::size_t size = specs[i].count * element_bytes(specs[i].datatype);
      arrays_.emplace_back(std::vector<std::byte>(bytes[i], bytes[i] + size));
      pointers_.push_back(size > 0 ? arrays_.back().get() : nullptr);
      read_.push_back(pointers_.back());
    }
  }
  std::span<std::byte* const> pointers() const { return pointers_; }
  std::span<const std::byte* const> read_pointers() const { return read_; }
  std::vector<std::vector<std::byte>> read() const {
    std::vector<std::vector<std::byte>> all;
    for (const auto& array : arrays_) all.push_back(array.read());
    return all;
  }
  bool holds(const std::vector<const std::byte*>& expected) const {
    const auto found = read();
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!std::equal(found[i].begin(), found[i].end(), expected[i])) return false;
    }
    return true;
  }
  int copied_out() const {
    int copies = 0;
    for (const std::byte* array : read_) copies += array != nullptr ? copies_out_of(array) : 0;
    return copies;
  }

 private:
  std::vector<OnDevice<std::byte>> arrays_;
  std::vector<std::byte*> pointers_;
  std::vector<const std::byte*> read_;
};

// Elements of the first array change where chosen: most by little, some to anything.
inline State with_clusters(const State& base, const IsChosen& is_chosen, std::uint64_t seed) {
  State state = base;
  std::mt19937_64 random(seed);
  const std::size_t width = element_bytes(base.specs[0].datatype);
  for (std::uint64_t i = 0; i < base.specs[0].count; ++i) {
    if (!is_chosen(i)) continue;
    const std::span element = std::span(state.arrays[0]).subspan(i * width, width);
    if (random() % 20 == 0) element.back() ^= static_cast<std::byte>(1 + random() % 255);
    element.front() ^= std::byte{1};
  }
  return state;
}

struct DeviceCodec : testing::Test {
  DeviceCodec() : scratch(**api::device_kernels()) {
    const OnDevice<std::byte> any({std::byte{0}});
    EXPECT_TRUE(scratch.enter(*gpu::context_of(any.get())).ok());
  }

  // The stream that a root makes.
  std::vector<std::byte> sent(const State* base, const State& target,
                              const collectives::broadcast::UpdateCall& as = {},
                              const comm::CommContext& comm = {}) {
    const codec::BlockMap map = target.map();
    const StateOnDevice there(target.specs, target.read()),
        base_there(target.specs, (base != nullptr ? *base : target).read());
    const std::vector<const std::byte*> no_base(target.specs.size(), nullptr);
    const collectives::broadcast::UpdateOnDevice device{&scratch, stream_of(0)};
    collectives::broadcast::UpdateCall call = as;
    call.map = &map;
    call.held = there.pointers();
    call.sender.base = base != nullptr ? base_there.read_pointers() : no_base;
    call.device = &device;
    codec::VectorSink sink;
    const auto source = collectives::broadcast::device_source(call, comm);
    while (!source->finished()) {
      const Status status = source->produce(sink);
      EXPECT_TRUE(status.ok()) << status.message();
      if (!status.ok()) break;
    }
    return sink.bytes();
  }

  DeviceScratch scratch;
};

// Block b changes as densities[b] says.
inline State with_densities(const State& base, const std::vector<double>& densities,
                            std::uint64_t seed) {
  State state = base;
  const std::size_t width = element_bytes(base.specs[0].datatype),
                    block_bytes = width * kBlockElements;
  for (std::size_t b = 0; b < densities.size(); ++b) {
    const std::uint64_t count =
        std::min<std::uint64_t>(kBlockElements, base.specs[0].count - b * kBlockElements);
    State block{{{base.specs[0].datatype, count}}, {{}}};
    const auto first = base.arrays[0].begin() + static_cast<std::ptrdiff_t>(b * block_bytes);
    block.arrays[0].assign(first, first + static_cast<std::ptrdiff_t>(count * width));
    const State changed = codec::changed_state(block, densities[b], codec::Change::kUlp, seed + b);
    std::ranges::copy(changed.arrays[0],
                      state.arrays[0].begin() + static_cast<std::ptrdiff_t>(b * block_bytes));
  }
  return state;
}

}  // namespace sparcl::test
