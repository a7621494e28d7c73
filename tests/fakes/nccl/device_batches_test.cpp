// What a rank on the device makes of a stream: batches so small that there are many, and streams
// that nobody trusts.

#include <thread>

#include "src/device/device_block_decoder.hpp"
#include "tests/codec/forgery.hpp"
#include "tests/fakes/nccl/device_codec.hpp"
#include "tests/fakes/nccl/emulated_faults.hpp"
#include "tests/support/failing_memory.hpp"

namespace sparcl::test {
namespace {

using device::BatchLimits;
using device::DeviceBlockDecoder;

using DeviceBatches = DeviceCodec;

// What a decoder over the device makes of a stream, and what is held afterwards.
struct Received {
  Status status;
  std::vector<std::byte> held;
  bool needs_host = false;
};

Received receive(device::DeviceScratch& scratch, std::span<const std::byte> stream,
                 const State& held, codec::Verify verify, const BatchLimits& limits = {}) {
  const codec::BlockMap map = held.map();
  const OnDevice<std::byte> array(held.arrays[0]);
  std::byte* const pointer = array.get();
  Received received;
  {
    DeviceBlockDecoder blocks(scratch, map, std::span(&pointer, 1), verify, kernels::cpu_kernels(),
                              stream_of(0), limits);
    EXPECT_TRUE(blocks.reserve().ok());
    codec::UpdateDecoder decoder(map, std::span(&pointer, 1), verify, {}, kernels::cpu_kernels());
    decoder.set_elsewhere(blocks);
    const Staging& staging = codec::staged(stream);
    received.status = check_stream(decoder, staging, stream.size());
    EXPECT_TRUE(array.read() == held.arrays[0]) << "nothing is written before";
    received.needs_host = blocks.needs_host();
    if (received.status.ok()) {
      do received.status = decoder.apply(staging);
      while (blocks.is_applying());
    }
  }
  received.held = array.read();
  return received;
}

struct OnHost {
  Status status;
  std::vector<std::byte> held;
};
OnHost receive_on_host(std::span<const std::byte> stream, State held, codec::Verify verify) {
  const Status status = codec::decode(stream, held, verify);
  return {status, held.arrays[0]};
}

constexpr BatchLimits kSmallBatches[] = {{},
                                         {3, 2 * kBlockElements, 2 << 20, 3 * kBlockElements},
                                         {1, kBlockElements, 2 << 20, 0},
                                         {2048, kBlockElements + 5, 2 << 20, 1 << 20}};

TEST_F(DeviceBatches, BatchesOfAnySize) {
  const State base = codec::random_state({{DataType::kInt16, 6 * kBlockElements + 5}}, 3);
  const State target = with_densities(base, {0.01, 0, 0.9, 0.2, 0, 0.02, 1}, 4);
  for (const codec::BlockMode* mode : {&codec::kFlatMode, &codec::kDenseMode, &codec::kTwoLevelMode,
                                       &codec::kTwoLevelVerbatimMode}) {
    codec::EncodeOptions options;
    options.mode = mode;
    options.with_state_hash = true;
    const codec::Encoded encoded = codec::encode(base, target, options);
    ASSERT_TRUE(encoded.status.ok());
    for (const BatchLimits& limits : kSmallBatches) {
      SCOPED_TRACE(testing::Message() << mode->name << ", " << limits.blocks << " blocks, "
                                      << limits.changes << " changes");
      for (const codec::Verify verify :
           {codec::Verify::kOff, codec::Verify::kTouched, codec::Verify::kFull}) {
        const Received received = receive(scratch, encoded.bytes, base, verify, limits);
        EXPECT_TRUE(received.status.ok()) << received.status.message();
        EXPECT_TRUE(received.held == target.arrays[0]);
      }
      EXPECT_TRUE(receive(scratch, encoded.bytes, target, codec::Verify::kTouched, limits).held ==
                  target.arrays[0]);
    }
  }
}

codec::Bytes without_base(const State& target, codec::EncodeOptions options = {}) {
  const std::vector<const std::byte*> no_base(1, nullptr);
  const codec::BlockMap map = target.map();
  const auto arrays = target.read();
  codec::UpdateEncoder encoder(map, no_base, arrays, options, kernels::cpu_kernels());
  codec::VectorSink sink;
  while (!encoder.finished()) EXPECT_TRUE(encoder.step(1 << 20, sink).ok());
  return sink.bytes();
}

// In the commit, where there was no room to keep what it is decoded to: it is written as it came.
TEST_F(DeviceBatches, AWholeBlockIsDecodedOnce) {
  const State base = codec::random_state({{DataType::kInt16, 5 * kBlockElements}}, 18);
  const State target = with_densities(base, {1, 0.01, 1, 1, 0.01}, 19);
  for (const bool is_whole : {true, false}) {
    codec::EncodeOptions options;
    options.mode = is_whole ? &codec::kDenseMode : &codec::kFlatMode;
    const codec::Bytes bytes = codec::encode(base, target, options).bytes;
    for (const std::uint64_t kept_changes : {std::uint64_t{1} << 22, std::uint64_t{0}}) {
      const int before = blocks_decoded();
      const Received received = receive(scratch, bytes, base, codec::Verify::kTouched,
                                        {2, 2 * kBlockElements, 2 << 20, kept_changes});
      EXPECT_TRUE(received.status.ok()) << received.status.message();
      EXPECT_TRUE(received.held == target.arrays[0]);
      EXPECT_EQ(blocks_decoded() - before, is_whole || kept_changes > 0 ? 5 : 9)
          << "but for those of the last batch";
    }
  }
}

// An update of some blocks, for one who has the rest: the fresh ones are written where all else is
// in place, too.
TEST_F(DeviceBatches, FreshBlocks) {
  const State target = codec::random_state({{DataType::kFloat32, 4 * kBlockElements + 5}}, 5);
  State held = target;
  std::ranges::fill(std::span(held.arrays[0]).subspan(kBlockElements * 4, 100), std::byte{7});
  std::ranges::fill(std::span(held.arrays[0]).subspan(kBlockElements * 16), std::byte{8});
  const std::uint64_t blocks = 0b10010;
  codec::EncodeOptions options;
  options.only_blocks = std::span(&blocks, 1);
  options.with_state_hash = true;
  options.base_hash = codec::state_hash(held.map(), held.read(), {});
  options.target_hash = codec::state_hash(target.map(), target.read(), {});
  const codec::Bytes bytes = without_base(target, options);
  for (const BatchLimits& limits : kSmallBatches) {
    for (const codec::Verify verify :
         {codec::Verify::kOff, codec::Verify::kTouched, codec::Verify::kFull}) {
      const Received received = receive(scratch, bytes, held, verify, limits);
      EXPECT_TRUE(received.status.ok()) << received.status.message();
      EXPECT_TRUE(received.held == target.arrays[0]);
    }
  }
}

TEST_F(DeviceBatches, OtherModesAreTheHosts) {
  const State base = codec::random_state({{DataType::kInt16, 3 * kBlockElements}}, 6);
  const State target = with_densities(base, {0.0003, 0.0003, 0.0003}, 7);
  const Received received =
      receive(scratch, codec::encode(base, target).bytes, base, codec::Verify::kTouched);
  EXPECT_EQ(received.status.code(), Code::kUnsupported);
  EXPECT_TRUE(received.needs_host);
}

// Once all ranks have voted there is no room for an error. What the stand-ins take is less.
TEST_F(DeviceBatches, TheCommitTakesNoMemory) {
  const State base = codec::random_state({{DataType::kFloat64, 9 * kBlockElements}},
                                         16);  // more than a segment of the stream
  const State target = codec::random_state(base.specs, 17);
  const codec::BlockMap map = base.map();
  const OnDevice<std::byte> array(base.arrays[0]);
  std::byte* const pointer = array.get();
  for (const bool has_base : {false, true}) {
    const codec::Bytes bytes = has_base ? codec::encode(target, base).bytes : without_base(target);
    DeviceBlockDecoder blocks(scratch, map, std::span(&pointer, 1), codec::Verify::kTouched,
                              kernels::cpu_kernels(), stream_of(0));
    ASSERT_TRUE(blocks.reserve().ok());
    codec::UpdateDecoder decoder(map, std::span(&pointer, 1), codec::Verify::kTouched, {},
                                 kernels::cpu_kernels());
    decoder.set_elsewhere(blocks);
    const Staging& staging = codec::staged(bytes);
    ASSERT_TRUE(check_stream(decoder, staging, bytes.size()).ok());
    fail_allocation_of_this_thread(0, 4096);
    do ASSERT_TRUE(decoder.apply(staging).ok());
    while (blocks.is_applying());
    fail_allocation_of_this_thread(-1);
    EXPECT_TRUE(array.read() == (has_base ? base : target).arrays[0]);
  }
}

// Neither where a batch is full within a chunk, nor at its end, nor in the commit: who asks is told
// to ask again.
TEST_F(DeviceBatches, AGpuThatIsBusyIsNotWaitedFor) {
  const State base = codec::random_state({{DataType::kInt16, 4 * kBlockElements}}, 14);
  const State target = with_densities(base, {0.01, 0.02, 1, 0.01}, 15);
  codec::EncodeOptions options;
  options.mode = &codec::kFlatMode;
  const codec::Bytes bytes = codec::encode(base, target, options).bytes;
  const codec::BlockMap map = base.map();
  const OnDevice<std::byte> array(base.arrays[0]);
  std::byte* const pointer = array.get();
  DeviceBlockDecoder blocks(scratch, map, std::span(&pointer, 1), codec::Verify::kTouched,
                            kernels::cpu_kernels(), stream_of(0), {1, kBlockElements, 2 << 20, 0});
  ASSERT_TRUE(blocks.reserve().ok());
  codec::UpdateDecoder decoder(map, std::span(&pointer, 1), codec::Verify::kTouched, {},
                               kernels::cpu_kernels());
  decoder.set_elsewhere(blocks);
  const Staging& staging = codec::staged(bytes);
  int stalls = 0;
  for (bool more = true; more; ++stalls) {
    stall(stream_of(0), 0);
    for (int turn = 0; turn < 20; ++turn)
      ASSERT_TRUE(decoder.advance(staging, bytes.size(), 100, more).ok());
    EXPECT_EQ(more, blocks.is_waiting());
    go_on(stream_of(0));
    while (blocks.is_waiting()) std::this_thread::yield();
  }
  EXPECT_GE(stalls, 4) << "of four batches, of a block each";
  ASSERT_TRUE(decoder.finish(bytes.size()).ok());
  do {
    stall(stream_of(0), 0);
    for (int turn = 0; turn < 20; ++turn) ASSERT_TRUE(decoder.apply(staging).ok());
    EXPECT_TRUE(!blocks.is_applying() || array.read() != target.arrays[0]);
    go_on(stream_of(0));
    while (blocks.is_waiting()) std::this_thread::yield();
  } while (blocks.is_applying());
  EXPECT_TRUE(array.read() == target.arrays[0]);
}

// Whatever comes, what the host refuses is refused, with its code, and what it takes leads to the
// same.
TEST_F(DeviceBatches, WhatTheHostRefusesIsRefused) {
  const State base = codec::random_state({{DataType::kInt16, 700}}, 8);
  const State target = codec::changed_state(base, 0.2, codec::Change::kUlp, 9);
  codec::Random random(10);
  int refused = 0, accepted = 0;
  for (const codec::BlockMode* mode : {&codec::kFlatMode, &codec::kVerbatimMode, &codec::kDenseMode,
                                       &codec::kTwoLevelMode, &codec::kTwoLevelVerbatimMode}) {
    codec::EncodeOptions options;
    options.mode = mode;
    options.with_state_hash = true;
    const codec::Bytes good = codec::encode(base, target, options).bytes;
    for (int i = 0; i < 150; ++i) {
      const codec::Bytes bytes =
          i % 4 == 0 ? codec::damage(good, good, random) : codec::forge(good, random);
      const codec::Verify verify = i % 3 == 0   ? codec::Verify::kOff
                                   : i % 3 == 1 ? codec::Verify::kTouched
                                                : codec::Verify::kFull;
      const OnHost expected = receive_on_host(bytes, base, verify);
      const Received found = receive(scratch, bytes, base, verify);
      if (found.needs_host) continue;
      EXPECT_EQ(found.status.code(), expected.status.code())
          << mode->name << " " << i << ": " << found.status.message()
          << "; the host: " << expected.status.message();
      EXPECT_TRUE(found.held == expected.held);
      ++(found.status.ok() ? accepted : refused);
    }
  }
  EXPECT_GT(refused, 150);
  EXPECT_GT(accepted, 10);
}

}  // namespace
}  // namespace sparcl::test
