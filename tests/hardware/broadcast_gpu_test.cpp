// Broadcasts of what changes in arrays on a GPU, of ranks that share GPU 0 and one with its array
// on the host: every rank comes to the root's array.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "sparcl/sparcl.h"
#include "tests/api/thread_ranks.hpp"
#include "tests/hardware/gpu_arrays.hpp"
#include "tests/support/weights.hpp"

namespace sparcl::test {
namespace {

using testing::Each;

constexpr int kOnHost = 2;  // the rank

template <class Word>
struct Arrays {
  std::vector<Word> base, target;

  Arrays(std::vector<Word> old_values, std::vector<Word> new_values)
      : base(std::move(old_values)), target(std::move(new_values)) {}
  Arrays(std::size_t count, double density) : base(count) {
    std::mt19937_64 random(count);
    for (Word& word : base) word = static_cast<Word>(random());
    target = base;
    std::bernoulli_distribution changes(density), is_step(0.9);
    for (Word& word : target) {
      if (changes(random))
        word = is_step(random) ? static_cast<Word>(word + 1) : static_cast<Word>(random());
    }
  }
};

template <class Word>
sparclResult_t broadcast(int rank, sparclComm_t comm, const Arrays<Word>& arrays,
                         sparclDataType_t type, int root) {
  const std::vector<Word>& held = rank == root ? arrays.target : arrays.base;
  const std::size_t count = held.size();
  if (rank == kOnHost) {
    std::vector<Word> weights = held;
    const sparclResult_t result = sparclBroadcastDelta(weights.data(), arrays.base.data(), count,
                                                       type, root, nullptr, comm, nullptr);
    EXPECT_TRUE(weights == arrays.target);
    return result;
  }
  must(cudaSetDevice(0));
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const DeviceArray<Word> weights(held), base(arrays.base);
  must(cudaDeviceSynchronize());
  const sparclResult_t result =
      sparclBroadcastDelta(weights.data(), base.data(), count, type, root, nullptr, comm, stream);
  EXPECT_TRUE(weights.read() == arrays.target) << "rank " << rank;
  EXPECT_TRUE(base.read() == arrays.base) << "rank " << rank;
  must(cudaStreamDestroy(stream));
  return result;
}

template <class Word>
void check(ThreadRanks& party, sparclDataType_t type) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{65'537}, std::size_t{5'000'003}}) {
    for (const double density : {0.0, 0.001, 0.05, 1.0}) {
      for (const int root : {0, kOnHost}) {
        SCOPED_TRACE(testing::Message() << count << " elements of type " << type << ", " << density
                                        << " change, root " << root);
        const Arrays<Word> arrays(count, density);
        EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
          return broadcast(rank, comm, arrays, type, root);
        }),
                    Each(sparclSuccess))
            << sparclGetLastError(party.comm(0));
      }
    }
  }
}

TEST(BroadcastOnAGpu, ReachesEveryRank) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  ThreadRanks party(3);
  check<std::uint8_t>(party, sparclUint8);
  check<std::uint16_t>(party, sparclBfloat16);
  check<std::uint32_t>(party, sparclFloat32);
  check<std::uint64_t>(party, sparclInt64);
}

// Bytes of the root's stream, with classes or without.
std::uint64_t bytes_in_classes(const Arrays<std::uint16_t>& arrays, const char* setting) {
  setenv("SPARCL_DEVICE_CLASSES", setting, 1);
  setenv("SPARCL_VERIFY", "full", 1);
  ThreadRanks party(3);
  unsetenv("SPARCL_DEVICE_CLASSES");
  unsetenv("SPARCL_VERIFY");
  std::uint64_t bytes = 0;
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    const sparclResult_t result = broadcast(rank, comm, arrays, sparclBfloat16, 0);
    sparclReport_t report = SPARCL_REPORT_INITIALIZER;
    sparclCommLastReport(comm, &report);
    if (rank == 0) bytes = report.bytes_sent;
    return result;
  }),
              Each(sparclSuccess))
      << sparclGetLastError(party.comm(0));
  return bytes;
}

TEST(BroadcastOnAGpu, InClasses) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  for (const std::size_t count : {std::size_t{300'000}, std::size_t{40'000'003}}) {
    const Weights base = normal_weights(count, count);
    const Arrays<std::uint16_t> arrays(base, stepped(base, 1e-6F, 2));
    EXPECT_LT(bytes_in_classes(arrays, "on"), bytes_in_classes(arrays, "off"));
  }
}

TEST(BroadcastOnAGpu, AWrongBaseIsAnErrorOnAllRanks) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  ThreadRanks party(2);
  const Arrays<std::uint16_t> arrays(1'000'000, 0.05);
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    must(cudaSetDevice(0));
    const std::vector<std::uint16_t> other(arrays.base.size(), 7);
    const DeviceArray<std::uint16_t> weights(rank == 0 ? arrays.target : other), base(arrays.base);
    const sparclResult_t result = sparclBroadcastDelta(
        weights.data(), base.data(), arrays.base.size(), sparclBfloat16, 0, nullptr, comm, nullptr);
    EXPECT_TRUE(weights.read() == (rank == 0 ? arrays.target : other));
    return result;
  }),
              Each(sparclWrongBase));
}

}  // namespace
}  // namespace sparcl::test
