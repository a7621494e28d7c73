// Top-k of arrays in device memory gives what it gives of those on the host, bit for bit: results,
// residuals, statistics.

#include <unistd.h>

#include <cstdio>

#include "tests/fakes/nccl/gpu_ranks.hpp"
#include "tests/fakes/nccl/top_k_ways.hpp"

namespace sparcl::test {
namespace {

using testing::Each;
using testing::HasSubstr;

class DeviceTopK : public testing::Test {
 protected:
  DeviceTopK() { (void)stream_of(0); }
};

template <class T>
void compare_call(int rank, sparclComm_t comm, const Way& way, const std::vector<T>& sent,
                  std::size_t k, const Feedbacks& feedbacks, bool is_selected_there = true) {
  const sparclTopKOptions_t options = options_of(way);
  std::vector<T> expected(sent.size(), T{9});
  ASSERT_EQ(sparclAllReduceTopK(sent.data(), expected.data(), sent.size(), k, way.type, way.op,
                                feedbacks.host, &options, comm, nullptr),
            sparclSuccess)
      << sparclGetLastError(comm);
  const OnDevice<T> from(sent), to(std::vector<T>(sent.size(), T{9}));
  // Of no elements nothing is in device memory.
  const sparclStream_t stream = sent.empty() ? nullptr : stream_of(rank);
  ASSERT_EQ(sparclAllReduceTopK(from.get(), to.get(), sent.size(), k, way.type, way.op,
                                feedbacks.device, &options, comm, stream),
            sparclSuccess)
      << sparclGetLastError(comm);
  EXPECT_TRUE(same_bits(to.read(), expected));
  EXPECT_TRUE(same_bits(from.read(), sent)) << "inputs are never written";
  if (!sent.empty()) {
    EXPECT_EQ(copies_out_of(from.get()) == 0, is_selected_there) << "of all of it";
  }
}

// Some calls in a row, by both ways.
template <class T>
void compare(int ranks, const Way& way, std::size_t count, std::size_t k, int steps,
             bool is_special = false, bool is_selected_there = true) {
  SCOPED_TRACE(testing::Message() << ranks << " ranks, type " << way.type << ", op " << way.op
                                  << ", mode " << way.mode << ", wire " << way.wire << ", feedback "
                                  << way.has_feedback << way.residual << ", count " << count
                                  << ", k " << k);
  ThreadRanks party(ranks);
  (void)party.run([&](int rank, sparclComm_t comm) {
    const Feedbacks feedbacks(way, count);
    for (int step = 0; step < steps; ++step) {
      compare_call(rank, comm, way, values_of<T>(way.type, rank, step, count, is_special), k,
                   feedbacks, is_selected_there);
      if (step + 1 == steps) feedbacks.compare();
    }
    return sparclSuccess;
  });
}

TEST_F(DeviceTopK, OfEachModeWireAndResidual) {
  int turn = 0;
  for (const sparclTopKMode_t mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal}) {
    for (const sparclWire_t wire : {sparclWireSame, sparclWireBfloat16, sparclWireInt8}) {
      for (const int feedback :
           {-1, static_cast<int>(sparclResidualSent), static_cast<int>(sparclResidualMean)}) {
        const Way way{sparclFloat32, turn++ % 2 == 0 ? sparclSum : sparclAvg,
                      mode,          wire,
                      feedback >= 0, static_cast<sparclResidual_t>(feedback < 0 ? 0 : feedback)};
        compare<float>(2, way, 700, 60, 2, turn % 3 == 0);
      }
    }
  }
}

TEST_F(DeviceTopK, OfEachTypeAndSpecialNumbers) {
  for (const sparclTopKMode_t mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal}) {
    const bool has_feedback = mode != sparclTopKSelected;
    const auto way = [&](sparclDataType_t type) {
      return Way{type, has_feedback ? sparclSum : sparclAvg, mode, sparclWireSame, has_feedback};
    };
    compare<float>(2, way(sparclFloat32), 500, 80, 2, true);
    compare<std::uint16_t>(2, way(sparclFloat16), 500, 80, 2, true);
    compare<std::uint16_t>(2, way(sparclBfloat16), 500, 80, 2, true);
    compare<double>(2, way(sparclFloat64), 500, 80, 2, true);
    compare<std::int32_t>(2, way(sparclInt32), 500, 80, 2, true);
    compare<std::uint8_t>(2, way(sparclFloat8e4m3), 500, 80, 2);
    compare<std::uint8_t>(2, way(sparclFloat8e5m2), 500, 80, 2);
    compare<std::uint32_t>(2, way(sparclUint32), 500, 80, 2, true);
    compare<std::int64_t>(2, way(sparclInt64), 500, 80, 2, true);
    compare<std::uint64_t>(2, way(sparclUint64), 500, 80, 2, true);
  }
}

TEST_F(DeviceTopK, OfAnyRankCountAndK) {
  for (const int ranks : {1, 4, 5}) {
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{300}})
      compare<float>(ranks, {sparclFloat32, sparclSum, sparclTopKSelected}, 300, k, 2);
  }
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}})
    compare<float>(2, {sparclFloat32, sparclAvg, sparclTopKUnion}, count, count == 0 ? 0 : 1, 2);
}

// Several blocks of a support, tiles of the kernels, and tensors with shares of their own.
TEST_F(DeviceTopK, OfLargerArraysAndTensors) {
  compare<float>(2, {sparclFloat32, sparclSum, sparclTopKUnion, sparclWireSame}, 150'000, 700, 2);
  compare<float>(2, {sparclFloat32, sparclSum, sparclTopKGlobal, sparclWireBfloat16}, 150'000, 700,
                 1);
  compare<std::uint16_t>(2,
                         {sparclBfloat16,
                          sparclSum,
                          sparclTopKUnion,
                          sparclWireSame,
                          true,
                          sparclResidualSent,
                          {300, 0, 1, 17'000, 699}},
                         18'000, 900, 2);
}

// Where elements lie alone in their blocks, and where a support is more than a chunk holds.
TEST_F(DeviceTopK, OfSupportsThatAreMovedInChunks) {
  ThreadRanks party(2);
  (void)party.run([&](int rank, sparclComm_t comm) {
    const std::size_t count = 300'000;
    const Feedbacks feedbacks({}, count);
    std::vector<float> sent(count);
    for (std::size_t i = 0; i < count; ++i)
      sent[i] = static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(rank)) % 1000);
    compare_call(rank, comm, {}, sent, 290'000, feedbacks);
    feedbacks.compare();
    return sparclSuccess;
  });
}

TEST_F(DeviceTopK, ByWayOfTheHostWhereKernelsAreOff) {
  setenv("SPARCL_DEVICE_KERNELS", "off", 1);
  compare<float>(2, {}, 700, 60, 2, false, false);
  unsetenv("SPARCL_DEVICE_KERNELS");
  compare<float>(2, {}, 700, 60, 2);
}

TEST_F(DeviceTopK, InAStreamOfAnotherGpu) {
  for (const int rank : {0, 1}) put_on_gpu(stream_of(rank), 1);
  compare<float>(2, {}, 700, 60, 2, false, false);
}

// In place, and what crosses between the memories is what was selected.
TEST_F(DeviceTopK, OnlyWhatIsSelectedCrosses) {
  const std::size_t count = 40'000, k = 40;
  for (const sparclTopKMode_t mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal}) {
    ThreadRanks party(2);
    (void)party.run([&](int rank, sparclComm_t comm) {
      const Way way{sparclFloat32, sparclSum, mode};
      const sparclTopKOptions_t options = options_of(way);
      const Feedbacks feedbacks(way, count);
      for (int step = 0; step < 2; ++step) {
        const std::vector<float> sent = values_of<float>(sparclFloat32, rank, step, count);
        std::vector<float> expected = sent;
        EXPECT_EQ(sparclAllReduceTopK(expected.data(), expected.data(), count, k, sparclFloat32,
                                      sparclSum, feedbacks.host, &options, comm, nullptr),
                  sparclSuccess);
        const OnDevice<float> both(sent);
        const std::size_t before = bytes_copied(stream_of(rank));
        EXPECT_EQ(sparclAllReduceTopK(both.get(), both.get(), count, k, sparclFloat32, sparclSum,
                                      feedbacks.device, &options, comm, stream_of(rank)),
                  sparclSuccess);
        EXPECT_LE(bytes_copied(stream_of(rank)) - before, 8 + k * 12 + 2 * 2 * k * 14 + 512);
        EXPECT_TRUE(same_bits(both.read(), expected));
      }
      return sparclSuccess;
    });
  }
}

// Its residual comes along: from the device to the host and back, whatever the call, and what looks
// at it moves nothing.
TEST_F(DeviceTopK, AFeedbackGoesWhereTheCallsAre) {
  const int before = allocations_alive();
  const std::size_t count = 600, k = 50;
  ThreadRanks party(2);
  (void)party.run([&](int rank, sparclComm_t comm) {
    const Way way{sparclFloat16, sparclSum, sparclTopKSelected};
    const sparclTopKOptions_t options = options_of(way);
    const Feedbacks feedbacks(way, count);
    const std::string path = testing::TempDir() + "device_top_k_" + std::to_string(::getpid()) +
                             "_" + std::to_string(rank);
    for (int step = 0; step < 6; ++step) {
      const std::vector<std::uint16_t> sent = values_of<std::uint16_t>(way.type, rank, step, count);
      if (step % 3 != 2) {
        compare_call(rank, comm, way, sent, k, feedbacks);
      } else {  // on the host, with the one of the device calls
        std::vector<std::uint16_t> expected(count), own(count);
        EXPECT_EQ(sparclAllReduceTopK(sent.data(), expected.data(), count, k, way.type, way.op,
                                      feedbacks.host, &options, comm, nullptr),
                  sparclSuccess);
        EXPECT_EQ(sparclAllReduceTopK(sent.data(), own.data(), count, k, way.type, way.op,
                                      feedbacks.device, &options, comm, nullptr),
                  sparclSuccess);
        EXPECT_EQ(own, expected);
      }
      feedbacks.compare();
      sparclFeedback_t loaded = nullptr;
      EXPECT_EQ(sparclFeedbackSave(feedbacks.device, path.c_str()), sparclSuccess);
      EXPECT_EQ(sparclFeedbackLoad(&loaded, path.c_str()), sparclSuccess);
      EXPECT_EQ(Feedbacks::bytes_of(loaded), Feedbacks::bytes_of(feedbacks.host));
      sparclFeedbackDestroy(loaded);
      if (step == 3) {
        EXPECT_EQ(sparclFeedbackReset(feedbacks.device), sparclSuccess);
        EXPECT_EQ(sparclFeedbackReset(feedbacks.host), sparclSuccess);
      }
    }
    std::remove(path.c_str());
    return sparclSuccess;
  });
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(party.destroy(rank), sparclSuccess);
  EXPECT_EQ(allocations_alive(), before);
}

// Masked sums with the same feedback, by way of the host.
TEST_F(DeviceTopK, AFeedbackIsSharedWithMaskedSums) {
  const std::size_t count = 400;
  ThreadRanks party(2);
  (void)party.run([&](int rank, sparclComm_t comm) {
    const Feedbacks feedbacks({}, count);
    sparclMask_t mask = nullptr;
    EXPECT_EQ(sparclMaskCreateRandom(&mask, count, 0.3, 5), sparclSuccess);
    compare_call(rank, comm, {}, values_of<float>(sparclFloat32, rank, 0, count), 30, feedbacks);
    const std::vector<float> sent = values_of<float>(sparclFloat32, rank, 1, count);
    std::vector<float> expected(count);
    const OnDevice<float> from(sent), to(expected);
    EXPECT_EQ(sparclAllReduceMasked(sent.data(), expected.data(), count, sparclFloat32, sparclSum,
                                    mask, feedbacks.host, nullptr, comm, nullptr),
              sparclSuccess);
    EXPECT_EQ(sparclAllReduceMasked(from.get(), to.get(), count, sparclFloat32, sparclSum, mask,
                                    feedbacks.device, nullptr, comm, stream_of(rank)),
              sparclSuccess);
    EXPECT_TRUE(same_bits(to.read(), expected));
    feedbacks.compare();
    compare_call(rank, comm, {}, values_of<float>(sparclFloat32, rank, 2, count), 30, feedbacks);
    feedbacks.compare();
    sparclMaskDestroy(mask);
    return sparclSuccess;
  });
}

// Each rank for itself: arrays on one, the host's on the other.
TEST_F(DeviceTopK, RanksMayHaveArraysWhereTheyLike) {
  const std::size_t count = 500, k = 40;
  ThreadRanks party(3);
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    const std::vector<float> sent = values_of<float>(sparclFloat32, rank, 0, count);
    std::vector<float> expected(count), own(count);
    EXPECT_EQ(sparclAllReduceTopK(sent.data(), expected.data(), count, k, sparclFloat32, sparclSum,
                                  nullptr, nullptr, comm, nullptr),
              sparclSuccess);
    const OnDevice<float> from(sent), to(own);
    const sparclResult_t result =
        rank == 1 ? sparclAllReduceTopK(sent.data(), own.data(), count, k, sparclFloat32, sparclSum,
                                        nullptr, nullptr, comm, nullptr)
                  : sparclAllReduceTopK(from.get(), to.get(), count, k, sparclFloat32, sparclSum,
                                        nullptr, nullptr, comm, stream_of(rank));
    EXPECT_TRUE(same_bits(rank == 1 ? own : to.read(), expected));
    return result;
  }),
              Each(sparclSuccess));
}

// On the GPU what is selected crosses, on the host the whole array: by the setting, and by the
// call.
TEST_F(DeviceTopK, TheCallSaysWhereItSelects) {
  constexpr std::size_t kLong = 100'000, kBytes = kLong * sizeof(float);
  int stream = 0;
  for (const char* const setting : {"on", "off"}) {
    const Setting kernels("SPARCL_DEVICE_KERNELS", setting);
    ThreadRanks party(2);
    for (const sparclToggle_t toggle : {sparclDefault, sparclOn, sparclOff}) {
      ++stream;
      EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
        const OnDevice<float> both(values_of<float>(sparclFloat32, rank, 0, kLong));
        sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
        options.device_kernels = toggle;
        return sparclAllReduceTopK(both.get(), both.get(), kLong, 10, sparclFloat32, sparclSum,
                                   nullptr, &options, comm, stream_of(rank, stream));
      }),
                  Each(sparclSuccess));
      const bool is_on_gpu =
          toggle == sparclOn || (toggle == sparclDefault && std::string(setting) == "on");
      EXPECT_EQ(bytes_copied(stream_of(0, stream)) < kBytes, is_on_gpu)
          << "setting " << setting << ", toggle " << toggle;
    }
  }
}

// Before the ranks have agreed, a rank that cannot refuses, and all go on.
TEST_F(DeviceTopK, ARankThatCannotIsAnErrorOnAllRanks) {
  const std::size_t count = 300;
  ThreadRanks party(2);
  const auto call = [&](int rank, sparclComm_t comm) {
    const OnDevice<float> both(values_of<float>(sparclFloat32, rank, 0, count));
    return sparclAllReduceTopK(both.get(), both.get(), count, 10, sparclFloat32, sparclSum, nullptr,
                               nullptr, comm, stream_of(rank));
  };
  std::vector<std::shared_ptr<FakeGraph>> graphs(2);
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    if (rank == 1) begin_capture(stream_of(rank));
    const sparclResult_t result = call(rank, comm);
    if (rank == 1) (void)end_capture(stream_of(rank));
    return result;
  }),
              Each(sparclInvalidUsage));
  EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr("the stream is being captured"));
  EXPECT_THAT(party.run(call), Each(sparclSuccess));
}

// Afterwards the others sum already: the communicator ends, and nobody waits.
TEST_F(DeviceTopK, ACopyThatFailsInTheCallEndsTheComm) {
  const std::size_t count = 300;
  ThreadRanks party(2);
  std::vector<sparclFeedback_t> feedbacks(2, nullptr);
  fail_copies_from(0);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    const OnDevice<float> both(values_of<float>(sparclFloat32, rank, 0, count));
    if (rank == 1)
      return sparclAllReduceTopK(both.get(), both.get(), count, 10, sparclFloat32, sparclSum,
                                 nullptr, nullptr, comm, stream_of(rank));
    std::vector<float> own(count);
    return sparclAllReduceTopK(own.data(), own.data(), count, 10, sparclFloat32, sparclSum, nullptr,
                               nullptr, comm, nullptr);
  });
  fail_copies_from(-1);
  EXPECT_THAT(results, testing::ElementsAre(sparclRemoteError, sparclSystemError));
  EXPECT_THAT(sparclGetLastError(party.comm(1)),
              HasSubstr("a copy of device memory: an illegal memory access"));
}

}  // namespace
}  // namespace sparcl::test
