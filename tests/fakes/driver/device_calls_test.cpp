// Calls on device memory give what they give on the host's. The driver is a stand-in whose memory
// the host cannot touch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "tests/api/thread_ranks.hpp"
#include "tests/fakes/driver/fake_driver.hpp"

namespace sparcl::test {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr std::size_t kCount = 50'000;

// An array on the device, and what is in it.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values)
      : count_(values.size()), memory_(fake_device_memory(count_ * sizeof(T) + 1)) {
    std::memcpy(memory_.bytes, values.data(), count_ * sizeof(T));
  }
  T* get() const { return static_cast<T*>(memory_.device); }
  std::vector<T> read() const {
    const T* const begin = static_cast<const T*>(memory_.bytes);
    return {begin, begin + count_};
  }

 private:
  std::size_t count_;
  FakeDeviceMemory memory_;
};

std::vector<float> values_of(int rank) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    values[i] = std::sin(static_cast<float>(i * static_cast<std::size_t>(rank + 3)));
  return values;
}

sparclStream_t stream_of(int rank) {
  return reinterpret_cast<sparclStream_t>(static_cast<std::uintptr_t>(0x1000 * (rank + 1)));
}

TEST(DeviceCalls, MaskedSums) {
  ThreadRanks party(3);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto results = party.run([](int rank, sparclComm_t comm) {
    sparclMask_t mask = nullptr;
    EXPECT_EQ(sparclMaskCreateRandom(&mask, kCount, 0.1, 3), sparclSuccess);
    std::vector<float> expected = values_of(9);
    EXPECT_EQ(sparclAllReduceMasked(values_of(rank).data(), expected.data(), kCount, sparclFloat32,
                                    sparclSum, mask, nullptr, nullptr, comm, nullptr),
              sparclSuccess);
    const OnDevice<float> from(values_of(rank)), to(values_of(9)), both(values_of(rank));
    const sparclResult_t apart =
        sparclAllReduceMasked(from.get(), to.get(), kCount, sparclFloat32, sparclSum, mask, nullptr,
                              nullptr, comm, stream_of(rank));
    EXPECT_EQ(to.read(), expected);
    EXPECT_EQ(from.read(), values_of(rank));
    // In place, and from the device to the host.
    EXPECT_EQ(sparclAllReduceMasked(both.get(), both.get(), kCount, sparclFloat32, sparclSum, mask,
                                    nullptr, nullptr, comm, nullptr),
              sparclSuccess);
    std::vector<float> in_place = values_of(rank), on_host = values_of(9);
    EXPECT_EQ(sparclAllReduceMasked(in_place.data(), in_place.data(), kCount, sparclFloat32,
                                    sparclSum, mask, nullptr, nullptr, comm, nullptr),
              sparclSuccess);
    EXPECT_EQ(both.read(), in_place);
    EXPECT_EQ(sparclAllReduceMasked(from.get(), on_host.data(), kCount, sparclFloat32, sparclSum,
                                    mask, nullptr, nullptr, comm, nullptr),
              sparclSuccess);
    EXPECT_EQ(on_host, expected);
    sparclMaskDestroy(mask);
    return apart;
  });
  EXPECT_THAT(results, Each(sparclSuccess));
  EXPECT_EQ(copies_in_stream(stream_of(2)), 3);  // both arrays to the host, and one back
}

TEST(DeviceCalls, TopKWithFeedback) {
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto results = party.run([](int rank, sparclComm_t comm) {
    sparclFeedback_t ours = nullptr, theirs = nullptr;
    EXPECT_EQ(sparclFeedbackCreate(&ours, kCount, sparclFloat32), sparclSuccess);
    EXPECT_EQ(sparclFeedbackCreate(&theirs, kCount, sparclFloat32), sparclSuccess);
    sparclResult_t result = sparclSuccess;
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> sent = values_of(rank + step);
      std::vector<float> expected(kCount);
      EXPECT_EQ(sparclAllReduceTopK(sent.data(), expected.data(), kCount, 500, sparclFloat32,
                                    sparclSum, ours, nullptr, comm, nullptr),
                sparclSuccess);
      const OnDevice<float> from(sent), to(std::vector<float>(kCount, 7));
      result = sparclAllReduceTopK(from.get(), to.get(), kCount, 500, sparclFloat32, sparclSum,
                                   theirs, nullptr, comm, stream_of(rank));
      EXPECT_EQ(to.read(), expected);
    }
    sparclFeedbackDestroy(ours);
    sparclFeedbackDestroy(theirs);
    return result;
  });
  EXPECT_THAT(results, Each(sparclSuccess));
}

TEST(DeviceCalls, SparseSums) {
  ThreadRanks party(3);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto results = party.run([](int rank, sparclComm_t comm) {
    const OnDevice<double> values({1.5, 2.5}), sums(std::vector<double>(5, -1));
    const OnDevice<std::uint64_t> indices({7, 10 + static_cast<std::uint64_t>(rank)}),
        where(std::vector<std::uint64_t>(5, 99)), nnz({77});
    const sparclResult_t result = sparclAllReduceSparse(
        values.get(), indices.get(), 2, kCount, sums.get(), where.get(),
        rank == 0 ? nnz.get() : static_cast<std::uint64_t*>(fake_device_memory(8).device), 5,
        sparclFloat64, sparclSum, nullptr, comm, stream_of(rank));
    EXPECT_EQ(sums.read(), (std::vector<double>{4.5, 2.5, 2.5, 2.5, -1}));
    EXPECT_EQ(where.read(), (std::vector<std::uint64_t>{7, 10, 11, 12, 99}));
    EXPECT_EQ(nnz.read()[0], rank == 0 ? 4U : 77U);
    return result;
  });
  EXPECT_THAT(results, Each(sparclSuccess));
}

TEST(DeviceCalls, Broadcasts) {
  ThreadRanks party(3);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto results = party.run([](int rank, sparclComm_t comm) {
    std::vector<float> target = values_of(0);
    target[3] = 9;
    target[kCount - 1] = -0.0F;
    const OnDevice<float> weights(rank == 1 ? target : values_of(0)), base(values_of(0));
    const sparclResult_t result = sparclBroadcastDelta(
        weights.get(), base.get(), kCount, sparclFloat32, 1, nullptr, comm, stream_of(rank));
    EXPECT_EQ(weights.read(), target);

    const OnDevice<float> values(rank == 0 ? std::vector<float>{1, 2, 3, 4}
                                           : std::vector<float>(4, 8));
    const OnDevice<std::uint64_t> indices(
        rank == 0 ? std::vector<std::uint64_t>{5, 6, 1'000'000'000'000, 0}
                  : std::vector<std::uint64_t>(4, 8));
    const OnDevice<std::size_t> nnz({rank == 0 ? std::size_t{3} : std::size_t{0}});
    EXPECT_EQ(sparclBroadcastSparse(values.get(), indices.get(), nnz.get(), 4, sparclFloat32, 0,
                                    nullptr, comm, nullptr),
              sparclSuccess);
    EXPECT_EQ(nnz.read()[0], 3U);
    EXPECT_EQ(values.read(), (std::vector<float>{1, 2, 3, rank == 0 ? 4.0F : 8.0F}));
    return result;
  });
  EXPECT_THAT(results, Each(sparclSuccess));
}

// A rank whose copy fails takes part with its refusal; the others' arrays stay as they were.
TEST(DeviceCalls, ACopyThatFailsIsAnErrorOnAllRanks) {
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  std::vector<float> received(kCount, 5);
  fail_copies_from(0);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    const OnDevice<float> from(values_of(rank));
    if (rank == 1)
      return sparclAllReduceTopK(from.get(), received.data(), kCount, 10, sparclFloat32, sparclSum,
                                 nullptr, nullptr, comm, stream_of(rank));
    std::vector<float> own(kCount);
    return sparclAllReduceTopK(values_of(0).data(), own.data(), kCount, 10, sparclFloat32,
                               sparclSum, nullptr, nullptr, comm, nullptr);
  });
  fail_copies_from(-1);
  EXPECT_THAT(results, Each(sparclUnhandledCudaError));
  EXPECT_THAT(sparclGetLastError(party.comm(0)),
              HasSubstr("sendbuff: CUDA: a copy of device memory: an illegal memory access"));
  EXPECT_EQ(received, std::vector<float>(kCount, 5));
}

// Non-blocking ones, several in flight: inputs are taken when they start, outputs are there when
// they are over.
TEST(DeviceCalls, NonBlockingCalls) {
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto results = party.run([](int rank, sparclComm_t comm) {
    sparclMask_t mask = nullptr;
    EXPECT_EQ(sparclMaskCreateRandom(&mask, kCount, 0.1, 3), sparclSuccess);
    std::vector<float> summed = values_of(9), largest(kCount), weights = values_of(0);
    if (rank == 0) weights[7] = 4;
    EXPECT_EQ(sparclAllReduceMasked(values_of(rank).data(), summed.data(), kCount, sparclFloat32,
                                    sparclSum, mask, nullptr, nullptr, comm, nullptr),
              sparclSuccess);
    EXPECT_EQ(sparclAllReduceTopK(values_of(rank).data(), largest.data(), kCount, 70, sparclFloat32,
                                  sparclAvg, nullptr, nullptr, comm, nullptr),
              sparclSuccess);
    const OnDevice<float> from(values_of(rank)), to(values_of(9)), top(values_of(9)), held(weights),
        base(values_of(0));
    const OnDevice<double> values({1.5, 2.5}), sums(std::vector<double>(5, -1));
    const OnDevice<std::uint64_t> indices({7, 10 + static_cast<std::uint64_t>(rank)}),
        where(std::vector<std::uint64_t>(5, 99)), nnz({77});
    const auto stream =
        reinterpret_cast<sparclStream_t>(reinterpret_cast<std::uintptr_t>(stream_of(rank)) + 0x800);
    sparclRequest_t requests[4] = {};
    EXPECT_EQ(sparclIAllReduceMasked(from.get(), to.get(), kCount, sparclFloat32, sparclSum, mask,
                                     nullptr, nullptr, comm, stream, &requests[0]),
              sparclSuccess);
    EXPECT_EQ(sparclIAllReduceTopK(from.get(), top.get(), kCount, 70, sparclFloat32, sparclAvg,
                                   nullptr, nullptr, comm, stream, &requests[1]),
              sparclSuccess);
    EXPECT_EQ(sparclIBroadcastDelta(held.get(), base.get(), kCount, sparclFloat32, 0, nullptr, comm,
                                    stream, &requests[2]),
              sparclSuccess);
    EXPECT_EQ(sparclIAllReduceSparse(values.get(), indices.get(), 2, kCount, sums.get(),
                                     where.get(), nnz.get(), 5, sparclFloat64, sparclSum, nullptr,
                                     comm, nullptr, &requests[3]),
              sparclSuccess);
    EXPECT_EQ(to.read(), values_of(9)) << "it is not over";
    const int copied_in = copies_in_stream(stream);
    EXPECT_GE(copied_in, 4) << "inputs are read in the order of the call's stream";
    for (const int number : {1, 0, 3, 2})
      EXPECT_EQ(sparclWait(&requests[number], nullptr), sparclSuccess);
    EXPECT_EQ(to.read(), summed);
    EXPECT_EQ(top.read(), largest);
    EXPECT_EQ(held.read()[7], 4);
    EXPECT_EQ(sums.read(), (std::vector<double>{3, 2.5, 2.5, -1, -1}));
    EXPECT_EQ(where.read(), (std::vector<std::uint64_t>{7, 10, 11, 99, 99}));
    EXPECT_EQ(nnz.read()[0], 3U);
    EXPECT_GE(copies_in_stream(stream), copied_in + (rank == 0 ? 2 : 3)) << "and outputs written";
    sparclMaskDestroy(mask);
    return sparclSuccess;
  });
  EXPECT_THAT(results, Each(sparclSuccess));
}

// Large arrays go in chunks through pinned memory, also where they end in the middle of one, and
// any byte is where it belongs.
TEST(DeviceCalls, LargeArraysGoInChunks) {
  const int before = allocations_alive();
  {
    ThreadRanks party(1);
    ASSERT_EQ(party.created(), sparclSuccess);
    const std::size_t count = 2'097'152 * 3 / 2 + 13;  // 12 MiB and a little of float32
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
    const OnDevice<float> from(values), to(std::vector<float>(count, -1));
    EXPECT_EQ(party.run([&](int rank, sparclComm_t comm) {
      sparclMask_t mask = nullptr;
      EXPECT_EQ(sparclMaskCreateRandom(&mask, count, 1, 3), sparclSuccess);
      const sparclResult_t result =
          sparclAllReduceMasked(from.get(), to.get(), count, sparclFloat32, sparclSum, mask,
                                nullptr, nullptr, comm, stream_of(rank));
      sparclMaskDestroy(mask);
      return result;
    })[0],
              sparclSuccess);
    EXPECT_TRUE(to.read() == values);
    EXPECT_GE(copies_in_stream(stream_of(0)), 12)
        << "4 MiB each, of both arrays to the host and of one back";
    EXPECT_EQ(allocations_alive(), before + 1);
  }
  EXPECT_EQ(allocations_alive(), before);
}

TEST(DeviceCalls, InCxxInTheOrderOfAStream) {
  std::vector<Comm> comms = Comm::local(2);
  const auto run = [&comms](int rank) {
    Comm& comm = comms[static_cast<std::size_t>(rank)];
    const sparclStream_t stream =
        reinterpret_cast<sparclStream_t>(static_cast<std::uintptr_t>(0x100000 * (rank + 1)));
    const OnDevice<float> from(values_of(0)), base(values_of(9)), to(values_of(rank == 0 ? 0 : 9));
    const Mask mask = Mask::random(kCount, 0.1, 3);
    int copies = 0;
    const auto expect_copies = [&](const char* call) {
      const int now = copies_in_stream(stream);
      EXPECT_GT(now, copies) << call;
      copies = now;
    };
    const std::span<const float> sent(from.get(), kCount), old(base.get(), kCount);
    const std::span<float> received(to.get(), kCount);
    comm.broadcast_delta(received, old, 0, SPARCL_BROADCAST_OPTIONS_INITIALIZER, stream);
    expect_copies("broadcast_delta");
    EXPECT_EQ(to.read(), values_of(0));
    comm.all_reduce_masked(sent, received, mask, sparclSum, stream);
    expect_copies("all_reduce_masked");
    comm.all_reduce_top_k(sent, received, 100, nullptr, SPARCL_TOPK_OPTIONS_INITIALIZER, sparclSum,
                          stream);
    expect_copies("all_reduce_top_k");
    State state;
    state.add("weights", received, {kCount});
    comm.broadcast_update(state, 1, 0, SPARCL_UPDATE_OPTIONS_INITIALIZER, stream);
    expect_copies("broadcast_update");
  };
  const std::jthread other(run, 1);
  run(0);
}

}  // namespace
}  // namespace sparcl::test
