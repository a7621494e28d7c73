// Blocks of classes of arrays in device memory, as a rank there reads them.

#include "src/device/device_block_decoder.hpp"
#include "src/device/device_block_encoder.hpp"
#include "tests/codec/forgery.hpp"
#include "tests/codec/weight_states.hpp"
#include "tests/fakes/nccl/device_codec.hpp"
#include "tests/fakes/nccl/emulated_faults.hpp"

namespace sparcl::test {
namespace {

using device::BatchLimits;

// Superblocks of one array, of several, that end with their run; other types between them.
const std::vector<codec::ArraySpec> kModel{
    {DataType::kBfloat16, 150'001}, {DataType::kBfloat16, 77}, {DataType::kBfloat16, 0},
    {DataType::kBfloat16, 300'003}, {DataType::kFloat32, 999}, {DataType::kBfloat16, 600'000},
    {DataType::kFloat16, 9'999},    {DataType::kInt16, 70'000}};

struct DeviceClasses : DeviceCodec {
  DeviceClasses() { (void)stream_of(0); }

  struct Received {
    Status status;
    bool needs_host = false;
    std::vector<std::vector<std::byte>> held;
  };
  Received receive(std::span<const std::byte> stream, const State& held, codec::Verify verify,
                   const BatchLimits& limits = {}) {
    const codec::BlockMap map = held.map();
    const StateOnDevice there(held.specs, held.read());
    device::DeviceBlockDecoder blocks(scratch, map, there.pointers(), verify,
                                      kernels::cpu_kernels(), stream_of(0), limits);
    EXPECT_TRUE(blocks.reserve().ok());
    codec::UpdateDecoder decoder(map, there.pointers(), verify, {}, kernels::cpu_kernels());
    decoder.set_elsewhere(blocks);
    const Staging& staging = codec::staged(stream);
    Received received;
    received.status = check_stream(decoder, staging, stream.size());
    EXPECT_TRUE(there.read() == held.arrays) << "nothing is written before";
    received.needs_host = blocks.needs_host();
    if (received.status.ok()) {
      do received.status = decoder.apply(staging);
      while (blocks.is_applying());
    }
    received.held = there.read();
    return received;
  }

  // The stream of a root there.
  std::vector<std::byte> sent(const State& base, const State& target, bool is_named = true) {
    collectives::broadcast::UpdateCall call;
    call.sender.with_state_hash = is_named;
    comm::CommContext comm;
    comm.device_classes = true;
    return DeviceCodec::sent(&base, target, call, comm);
  }
};

codec::EncodeOptions with_classes(const codec::BlockMode* mode) {
  codec::EncodeOptions options;
  options.with_state_hash = options.allow_classes = true;
  options.for_devices = true;
  options.mode = mode;
  return options;
}

TEST_F(DeviceClasses, ReachTheTarget) {
  const State base = codec::normal_state(kModel, 1), target = codec::stepped_state(base, 1e-6f, 2);
  for (const codec::BlockMode* mode :
       {static_cast<const codec::BlockMode*>(nullptr), &codec::kClassesMode}) {
    const std::vector<std::byte> bytes = codec::encode(base, target, with_classes(mode)).bytes;
    codec::EncodeOptions without = with_classes(mode);
    without.allow_classes = false;
    without.mode = nullptr;
    EXPECT_LT(bytes.size(), codec::encode(base, target, without).bytes.size());
    for (const BatchLimits& limits : {BatchLimits{},
                                      {4, 4 * kBlockElements, 2 << 20, 0},
                                      {9, 5 * kBlockElements, 2 << 20, 1 << 20}}) {
      for (const codec::Verify verify :
           {codec::Verify::kOff, codec::Verify::kTouched, codec::Verify::kFull}) {
        if (verify != codec::Verify::kTouched && (mode != nullptr || limits.blocks == 9)) continue;
        const Received received = receive(bytes, base, verify, limits);
        ASSERT_TRUE(received.status.ok()) << received.status.message();
        EXPECT_TRUE(received.held == target.arrays);
      }
    }
  }
}

// Where the host could do more: batches of fewer blocks than a superblock has, and what is held is
// no base.
TEST_F(DeviceClasses, WhatTheHostHasToLookAt) {
  const State base = codec::normal_state(kModel, 3), target = codec::stepped_state(base, 1e-6f, 4);
  const std::vector<std::byte> bytes =
      codec::encode(base, target, with_classes(&codec::kClassesMode)).bytes;
  EXPECT_TRUE(receive(bytes, base, codec::Verify::kTouched, {3, 4 * kBlockElements, 2 << 20, 0})
                  .needs_host);
  for (const codec::Verify verify :
       {codec::Verify::kOff, codec::Verify::kTouched, codec::Verify::kFull}) {
    for (const State& other : {target, codec::stepped_state(base, 1e-2f, 5)}) {
      const Received received = receive(bytes, other, verify);
      EXPECT_EQ(received.status.code(), Code::kUnsupported);
      EXPECT_TRUE(received.needs_host);
      EXPECT_TRUE(received.held == other.arrays);
    }
  }
}

// The old check of a block that is no base's fits by chance: the chunk's digest does not.
TEST_F(DeviceClasses, DigestsThatDoNotTellAreLeftToTheHost) {
  const State base = codec::normal_state({{DataType::kBfloat16, 3'000}}, 6),
              target = codec::stepped_state(base, 1e-6f, 7);
  codec::Bytes bytes = codec::encode(base, target, with_classes(&codec::kClassesMode)).bytes;
  int without_host = 0;
  codec::Random random(8);
  for (int i = 0; i < 200; ++i) {
    const codec::Bytes forged = codec::forge(bytes, random);
    State host = base;
    const Status expected = codec::decode(forged, host, codec::Verify::kTouched);
    const Received found = receive(forged, base, codec::Verify::kTouched);
    if (found.needs_host) continue;
    ++without_host;
    EXPECT_EQ(found.status.code(), expected.code())
        << found.status.message() << "; the host: " << expected.message();
    EXPECT_TRUE(found.held == host.arrays);
  }
  EXPECT_GT(without_host, 100);
}

TEST_F(DeviceClasses, TravelAsTheHosts) {
  const std::vector<codec::ArraySpec> specs{{DataType::kBfloat16, 270'000},
                                            {DataType::kFloat32, 70'000},
                                            {DataType::kBfloat16, 20'000},
                                            {DataType::kFloat16, 5'000}};
  for (const auto& arrays : {specs, kModel}) {
    for (const float size : {1e-7f, 1e-6f}) {
      const State base = codec::normal_state(arrays, 10),
                  target = codec::stepped_state(base, size, 11);
      const codec::Bytes expected = codec::encode(base, target, with_classes(nullptr)).bytes;
      EXPECT_TRUE(sent(base, target) == expected) << size;
      codec::EncodeOptions plain = with_classes(nullptr);
      plain.allow_classes = false;
      EXPECT_LT(expected.size(), codec::encode(base, target, plain).bytes.size()) << size;
    }
  }
  // So many changes that the device codes them block by block.
  const State base = codec::normal_state(specs, 10), target = codec::stepped_state(base, 1e-3f, 11);
  EXPECT_TRUE(receive(sent(base, target), base, codec::Verify::kTouched).held == target.arrays);
}

// Superblocks of one array, and of several; without state hashes there are no classes.
TEST_F(DeviceClasses, OfAnyArrays) {
  const State base = codec::normal_state(kModel, 12),
              target = codec::stepped_state(base, 1e-6f, 13);
  const codec::Bytes bytes = sent(base, target), without = sent(base, target, false);
  EXPECT_LT(bytes.size(), without.size());
  for (const codec::Bytes& stream : {bytes, without}) {
    EXPECT_TRUE(receive(stream, base, codec::Verify::kTouched).held == target.arrays);
    State host = base;
    EXPECT_TRUE(codec::decode(stream, host, codec::Verify::kTouched).ok());
    EXPECT_TRUE(host.arrays == target.arrays);
  }
  EXPECT_TRUE(sent(base, base).size() < 300);
}

// However a device's sections are cut: blocks are coded as in one.
TEST_F(DeviceClasses, SectionsAreCutBetweenSuperblocks) {
  const State base = codec::normal_state(kModel, 14),
              target = codec::stepped_state(base, 1e-6f, 15);
  const codec::BlockMap map = base.map();
  const StateOnDevice there(target.specs, target.read()), base_there(base.specs, base.read());
  struct Block {
    std::uint64_t number;
    std::uint32_t mode;
    codec::Bytes content;
    bool operator==(const Block&) const = default;
  };
  const auto coded = [&](const device::SectionLimits& limits) {
    std::vector<Block> found;
    const device::DevicePair pair{&map, base_there.read_pointers(), there.read_pointers()};
    device::DeviceBlockEncoder encoder(scratch, pair, stream_of(0), true, limits);
    EXPECT_TRUE(encoder.begin(false).ok());
    while (encoder.has_more()) {
      const Result<std::optional<device::CodedSection>> next = encoder.next();
      EXPECT_TRUE(next.ok()) << next.status().message();
      if (!next.ok()) break;
      if (!*next) continue;
      const device::CodedSection& section = **next;
      for (std::uint64_t b = 0; b < section.block_count; ++b) {
        const kernels::BlockContent& block = section.blocks[b];
        if (block.mode == kernels::kNoBlock) continue;
        const std::byte* const at = section.contents + block.offset;
        found.push_back({section.first_block + b, block.mode, {at, at + block.bytes}});
      }
    }
    return found;
  };
  const std::vector<Block> whole = coded({1024, 2 << 20});
  EXPECT_GT(std::ranges::count(whole, kernels::kClassesBlock, &Block::mode), 4);
  for (const std::uint64_t blocks : {5, 1024}) {
    for (const std::uint64_t changes : {16'384, 30'000, 2 << 20})
      EXPECT_TRUE(coded({blocks, changes}) == whole) << blocks;
  }
}

}  // namespace
}  // namespace sparcl::test
