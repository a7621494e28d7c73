// Broadcasts of what changes in arrays in device memory: coded, checked and applied there, and
// ranks of either kind understand each other.

#include <limits>

#include "tests/emulated/clusters.hpp"
#include "tests/fakes/nccl/broadcast_calls.hpp"
#include "tests/support/weights.hpp"

namespace sparcl::test {
namespace {

using testing::Each;

using DeviceBroadcast = NcclRanks;

TEST_F(DeviceBroadcast, OfAnyRanks) {
  const auto base = random_words<std::uint16_t>(kBlock + 100, 1), target = changed(base, 0.02, 2);
  for (const int ranks : kRankCounts) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    ThreadRanks party(ranks);
    broadcast(party, sparclBfloat16, base, target, ranks - 1, {{}});
  }
}

// Fewer bytes, which ranks of either kind read; also where what is held is the target already,
// which the host has to find out.
TEST_F(DeviceBroadcast, InClasses) {
  const Weights base = normal_weights(4 * kBlock + 1'000, 3), target = stepped(base, 1e-6F, 4);
  const auto bytes_sent = [&](const char* choice, const char* gbit) {
    const Setting classes("SPARCL_DEVICE_CLASSES", choice), link("SPARCL_LINK_GBIT", gbit),
        verify("SPARCL_VERIFY", "full");
    ThreadRanks party(3);
    broadcast(party, sparclBfloat16, base, target, 0, {{}, {.on_device = false}, {}});
    const std::uint64_t sent = report_of(party.comm(0)).bytes_sent;
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      Held<std::uint16_t> weights(target, {}), old(base, {});
      const sparclResult_t result = sparclBroadcastDelta(
          weights.get(), old.get(), base.size(), sparclBfloat16, 0, nullptr, comm, stream_of(rank));
      EXPECT_TRUE(same(weights.read(), target));
      return result;
    });
    EXPECT_THAT(results, Each(sparclSuccess)) << sparclGetLastError(party.comm(0));
    return sent;
  };
  const std::uint64_t without = bytes_sent("off", "1"), with = bytes_sent("on", "100");
  EXPECT_LT(with, without * 9 / 10);
  EXPECT_EQ(bytes_sent("auto", "1"), with);
  EXPECT_EQ(bytes_sent("auto", "100"), without);
  EXPECT_EQ(bytes_sent("auto", "0"), without) << "nobody has said how fast links are";
}

template <class Word>
void check_type(ThreadRanks& party, sparclDataType_t type) {
  SCOPED_TRACE(testing::Message() << "type " << type);
  std::uint64_t seed = 10;
  for (const double density : {0.0, 0.01, 0.3, 1.0}) {
    const auto base = random_words<Word>(3'001, ++seed);
    broadcast(party, type, base, changed(base, density, ++seed), 0, {{}});
  }
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{33}}) {
    const auto base = random_words<Word>(count, ++seed);
    broadcast(party, type, base, changed(base, 1, ++seed), 1, {{}});
  }
}

TEST_F(DeviceBroadcast, OfAnyType) {
  ThreadRanks party(2);
  check_type<std::uint8_t>(party, sparclUint8);
  check_type<std::uint8_t>(party, sparclFloat8e4m3);
  check_type<std::uint16_t>(party, sparclBfloat16);
  check_type<std::uint16_t>(party, sparclInt16);
  check_type<std::uint32_t>(party, sparclFloat32);
  check_type<std::uint32_t>(party, sparclUint32);
  check_type<std::uint64_t>(party, sparclFloat64);
  check_type<std::uint64_t>(party, sparclInt64);
}

TEST_F(DeviceBroadcast, AroundTheBordersOfBlocks) {
  ThreadRanks party(2);
  for (const std::size_t count : {kBlock - 1, kBlock, kBlock + 1, 3 * kBlock}) {
    SCOPED_TRACE(testing::Message() << count << " elements");
    const auto base = random_words<std::uint8_t>(count, count);
    auto target = base;
    for (std::size_t block = 0; block * kBlock < count;
         block += 2) {  // of three the one in the middle stays as it is
      target[block * kBlock] ^= 1;
      target[std::min(count, (block + 1) * kBlock) - 1] ^= 0x80;
    }
    broadcast(party, sparclUint8, base, target, 0, {{}});
  }
}

TEST_F(DeviceBroadcast, OfNumbersThatAreNone) {
  ThreadRanks party(2);
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values[2] = {
      {0.0F, -0.0F, nan, inf, -inf, 1, -1, nan, 5e-40F, -nan, 3},
      {-0.0F, 0.0F, -nan, -inf, nan, inf, -0.0F, nan, -5e-40F, 7, 3}};
  std::vector<std::uint32_t> words[2];
  for (int i = 0; i < 2; ++i) {
    for (const float value : values[i]) words[i].push_back(std::bit_cast<std::uint32_t>(value));
  }
  broadcast(party, sparclFloat32, words[0], words[1], 0, {{}});
}

// Elements and 16 bytes apart: the device's way; bytes that are no elements: by way of the host.
TEST_F(DeviceBroadcast, OfArraysThatAreNotAligned) {
  ThreadRanks party(3);
  const auto base = random_words<std::uint32_t>(4'000, 5), target = changed(base, 0.05, 6);
  broadcast(party, sparclFloat32, base, target, 1, {{true, 1}, {true, 3}, {true, 2}});
  const auto bytes = random_words<std::uint8_t>(4'000, 7), new_bytes = changed(bytes, 0.05, 8);
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    Held<std::uint8_t> weights(rank == 0 ? new_bytes : bytes, {true, 1}), old(bytes, {true, 1});
    const sparclResult_t result = sparclBroadcastDelta(
        weights.get(), old.get(), 1'000, sparclFloat32, 0, nullptr, comm, stream_of(rank));
    EXPECT_TRUE(same(weights.read(), new_bytes));
    expect_goes(Goes::kByHost, rank == 0, true, weights.get(), old.get());
    return result;
  }),
              Each(sparclSuccess));
}

// What one on the device sends all ranks read. What a rank of the host sends has other modes of
// blocks, too, until it has learned that others are on the device.
TEST_F(DeviceBroadcast, RanksMayHaveArraysWhereTheyLike) {
  const auto base = random_words<std::uint16_t>(2 * kBlock + 50, 9);
  const Place host{false}, device{};
  for (const double density : {0.0005, 0.02, 1.0}) {
    ThreadRanks party(4);
    const auto target = changed(base, density, 10);
    broadcast(party, sparclBfloat16, base, target, 1, {device, host, device, host}, true,
              density < 1 ? Goes::kByHostLater : Goes::kOnDevice);
    broadcast(party, sparclBfloat16, base, target, 1, {device, host, device, host});
    broadcast(party, sparclBfloat16, base, target, 0, {device, host, device, host});
    broadcast(party, sparclBfloat16, base, target, 3, {device, host, device, host});
  }
}

// Rows that change: wherever the root has its array, in as many bytes.
TEST_F(DeviceBroadcast, OfClusters) {
  const auto base = random_words<std::uint16_t>(3 * kBlock + 500, 50);
  const IsChosen is_chosen = rows(128, 40, 800);
  auto target = base, spread = base;
  std::size_t changes = 0;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (!is_chosen(i)) continue;
    target[i] = static_cast<std::uint16_t>(target[i] + 1);
    ++changes;
  }
  for (std::size_t i = 0; i < changes; ++i) spread[i * 7'919 % spread.size()] ^= 1;
  const Place host{false}, device{};
  ThreadRanks party(3);
  broadcast(party, sparclBfloat16, base, target, 2, {device, device, host}, true,
            Goes::kByHostLater);
  broadcast(party, sparclBfloat16, base, target, 2, {device, device, host});
  const std::uint64_t of_host = report_of(party.comm(1)).bytes_received;
  broadcast(party, sparclBfloat16, base, target, 0, {device, device, host});
  const std::uint64_t of_device = report_of(party.comm(1)).bytes_received;
  EXPECT_EQ(of_device, of_host);
  broadcast(party, sparclBfloat16, base, spread, 0, {device, device, host});
  EXPECT_LT(2 * of_device, report_of(party.comm(1)).bytes_received)
      << "as many changes, here and there";
}

// All is sent, and what was held does not matter.
TEST_F(DeviceBroadcast, WithoutABase) {
  ThreadRanks party(3);
  const auto base = random_words<std::uint32_t>(kBlock + 9, 11),
             target = random_words<std::uint32_t>(kBlock + 9, 12);
  broadcast(party, sparclFloat32, base, target, 0, {{}}, false);
  for (const int rank : {0, 1})
    EXPECT_LT(bytes_copied(stream_of(rank)), 5 * target.size()) << "there, or here, and not back";
  broadcast(party, sparclFloat32, base, target, 1, {{false}, {}, {}}, false);
}

// Several chunks, and more than a segment of what arrives.
TEST_F(DeviceBroadcast, LargerThanWhatIsHeldAtOnce) {
  ThreadRanks party(2);
  const auto base = random_words<std::uint64_t>(9 * kBlock, 40),
             target = random_words<std::uint64_t>(9 * kBlock, 41);
  broadcast(party, sparclFloat64, base, target, 0, {{}}, false);
  broadcast(party, sparclFloat64, base, target, 1, {{}});
}

// Then by way of the host.
TEST_F(DeviceBroadcast, WithoutMemoryOnTheDevice) {
  ThreadRanks party(3);
  const auto base = random_words<std::uint32_t>(3'000, 42), target = changed(base, 0.05, 43);
  fail_allocations(true);
  broadcast(party, sparclFloat32, base, target, 0, {{}}, true, Goes::kByHost);
  fail_allocations(false);
  broadcast(party, sparclFloat32, base, target, 0, {{}});
}

// And so where it is not wanted.
TEST_F(DeviceBroadcast, ByWayOfTheHostWhereKernelsAreOff) {
  const auto base = random_words<std::uint32_t>(3'000, 44), target = changed(base, 0.05, 45);
  for (const char* choice : {"off", "on"}) {
    const Setting setting("SPARCL_DEVICE_KERNELS", choice);
    ThreadRanks party(2);
    const bool is_on = choice == std::string("on");
    broadcast(party, sparclFloat32, base, target, 0, {{}}, true,
              is_on ? Goes::kOnDevice : Goes::kByHost);
  }
  const Setting setting("SPARCL_DEVICE_KERNELS", "perhaps");
  EXPECT_EQ(ThreadRanks(2).created(), sparclInvalidArgument);
}

// Coded bytes cross, and of the answer some a block.
TEST_F(DeviceBroadcast, WhatCrossesIsWhatTravels) {
  ThreadRanks party(2);
  const auto base = random_words<std::uint16_t>(2 * kBlock, 13), target = changed(base, 0.01, 14);
  broadcast(party, sparclBfloat16, base, target, 0, {{}});
  const std::uint64_t travelled = report_of(party.comm(1)).bytes_received;
  EXPECT_LT(travelled, base.size() * 2 / 50);
  for (const int rank : {0, 1})
    EXPECT_LT(bytes_copied(stream_of(rank)), travelled + 1'000) << "rank " << rank;
}

TEST_F(DeviceBroadcast, AtEachLevelOfChecks) {
  const auto base = random_words<std::uint32_t>(kBlock + 1'000, 15),
             target = changed(base, 0.01, 16);
  for (const char* level : {"off", "touched", "full"}) {
    SCOPED_TRACE(level);
    const Verifying verifying(level);
    ThreadRanks party(3);
    broadcast(party, sparclFloat32, base, target, 2, {{}, {}, {false}}, true, Goes::kByHostLater);
    broadcast(party, sparclFloat32, base, target, 2, {{}, {}, {false}});
    broadcast(party, sparclFloat32, base, target, 0, {{}, {}, {false}});
    broadcast(party, sparclFloat32, base, target, 0, {{}, {}, {false}}, false);
  }
}

// A communicator that meets several keeps what its calls take of each.
TEST_F(DeviceBroadcast, OnSeveralGpus) {
  ThreadRanks party(2);
  const auto base = random_words<std::uint32_t>(2'000, 46), target = changed(base, 0.05, 47);
  const int before = allocations_alive();
  for (int round = 0; round < 3; ++round) {
    for (const int gpu : {0, 1}) {
      const Place place{true, 0, gpu};
      broadcast(party, sparclFloat32, base, target, 0, {place});
      EXPECT_EQ(allocations_alive(), before + (round == 0 && gpu == 0 ? 4 : 8))
          << "of two ranks, there and pinned";
    }
  }
}

// No kernel runs in it; copies do: by way of the host, also in chunks.
TEST_F(DeviceBroadcast, InAStreamOfAnotherGpu) {
  ThreadRanks party(2);
  for (const std::size_t count : {std::size_t{2'000}, std::size_t{2'300'000}}) {
    const auto base = random_words<std::uint32_t>(count, 48), target = changed(base, 0.01, 49);
    broadcast(party, sparclFloat32, base, target, 0, {{true, 0, 0, 1}}, true, Goes::kByHost);
  }
  EXPECT_EQ(launches_in_stream(stream_of(1, 1)), 0);
}

TEST_F(DeviceBroadcast, ManyCallsOneAfterTheOther) {
  ThreadRanks party(2);
  auto base = random_words<std::uint8_t>(5'000, 21);
  for (int step = 0; step < 6; ++step) {
    const auto target = changed(base, 0.1, 22 + static_cast<std::uint64_t>(step));
    broadcast(party, sparclUint8, base, target, step % 2, {{}});
    base = target;
  }
}

}  // namespace
}  // namespace sparcl::test
