// Masked sums over NCCL on GPUs: one rank for each of the machine's GPUs (NCCL refuses two on one),
// against the host's way.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "tests/hardware/nccl_on_gpus.hpp"

namespace sparcl::test {
namespace {

constexpr std::size_t kCount = 1'000'003;

// Sums of them are exact in any order.
template <class T>
std::vector<T> random_values(int rank, int step) {
  std::vector<T> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    values[i] = static_cast<T>(
        (i * static_cast<std::size_t>(rank + 3) + static_cast<std::size_t>(step)) % 13);
  return values;
}

std::vector<sparclMask_t> masks() {
  std::vector<sparclMask_t> made(4, nullptr);
  EXPECT_EQ(sparclMaskCreateRandom(&made[0], kCount, 0.01, 3), sparclSuccess);
  EXPECT_EQ(sparclMaskCreateRandom(&made[1], kCount, 1, 3), sparclSuccess);
  EXPECT_EQ(sparclMaskCreateBlocks(&made[2], kCount, 100, 0.3, 3), sparclSuccess);
  const std::uint64_t index = kCount - 1;
  EXPECT_EQ(sparclMaskCreateIndices(&made[3], &index, 1, kCount), sparclSuccess);
  return made;
}

template <class T>
sparclResult_t compare(int rank, sparclComm_t comm, cudaStream_t stream, sparclDataType_t type) {
  for (const sparclMask_t mask : masks()) {
    for (const sparclRedOp_t op : {sparclSum, sparclMax, sparclMin}) {
      std::vector<T> expected = random_values<T>(9, 1);
      EXPECT_EQ(sparclAllReduceMasked(random_values<T>(rank, 0).data(), expected.data(), kCount,
                                      type, op, mask, nullptr, nullptr, comm, nullptr),
                sparclSuccess);
      const DeviceArray<T> from(random_values<T>(rank, 0)), to(random_values<T>(9, 1));
      must(cudaDeviceSynchronize());
      sparclResult_t result = sparclAllReduceMasked(from.data(), to.data(), kCount, type, op, mask,
                                                    nullptr, nullptr, comm, stream);
      if (result == sparclSuccess) result = sparclCommStreamSynchronize(comm, stream);
      if (result != sparclSuccess) return result;
      sparclReport_t report = SPARCL_REPORT_INITIALIZER;
      EXPECT_EQ(sparclCommLastReport(comm, &report), sparclSuccess);
      EXPECT_STREQ(report.algorithm, "nccl");
      EXPECT_TRUE(to.read() == expected) << "type " << type << ", op " << op;
    }
    EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess);
  }
  return sparclSuccess;
}

TEST_F(NcclOnGpus, MaskedSumsAreThoseOfTheHost) {
  run([](int rank, sparclComm_t comm, cudaStream_t stream) {
    std::vector<sparclResult_t> results{compare<float>(rank, comm, stream, sparclFloat32),
                                        compare<double>(rank, comm, stream, sparclFloat64),
                                        compare<std::uint8_t>(rank, comm, stream, sparclUint8),
                                        compare<std::int64_t>(rank, comm, stream, sparclInt64)};
    return *std::ranges::max_element(results);
  });
}

// Bits of floats, by both ways: gathered whole, and by pieces.
TEST_F(NcclOnGpus, CanonicalSumsHaveTheHostsBits) {
  setenv("SPARCL_DETERMINISM", "canonical", 1);
  run([](int rank, sparclComm_t comm, cudaStream_t stream) {
    for (const double density : {0.001, 0.7, 1.0}) {
      sparclMask_t mask = nullptr;
      EXPECT_EQ(sparclMaskCreateRandom(&mask, kCount, density, 3), sparclSuccess);
      std::vector<float> values(kCount), expected(kCount, 9);
      for (std::size_t i = 0; i < kCount; ++i)
        values[i] = std::sin(static_cast<float>(i * static_cast<std::size_t>(rank + 3)));
      EXPECT_EQ(sparclAllReduceMasked(values.data(), expected.data(), kCount, sparclFloat32,
                                      sparclAvg, mask, nullptr, nullptr, comm, nullptr),
                sparclSuccess);
      const DeviceArray<float> from(values), to(std::vector<float>(kCount, 9));
      must(cudaDeviceSynchronize());
      sparclResult_t result =
          sparclAllReduceMasked(from.data(), to.data(), kCount, sparclFloat32, sparclAvg, mask,
                                nullptr, nullptr, comm, stream);
      if (result == sparclSuccess) result = sparclCommStreamSynchronize(comm, stream);
      EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess);
      if (result != sparclSuccess) return result;
      EXPECT_TRUE(to.read() == expected) << "density " << density;
    }
    return compare<std::int16_t>(rank, comm, stream, sparclInt16);
  });
  unsetenv("SPARCL_DETERMINISM");
}

TEST_F(NcclOnGpus, CallsAreCapturedIntoGraphs) {
  run([](int rank, sparclComm_t comm, cudaStream_t stream) {
    sparclMask_t mask = nullptr;
    EXPECT_EQ(sparclMaskCreateRandom(&mask, kCount, 0.05, 3), sparclSuccess);
    const DeviceArray<float> from(random_values<float>(rank, 0)), to(random_values<float>(9, 1));
    must(cudaDeviceSynchronize());
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t launched = nullptr;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    // The first call of this communicator: NCCL connects its ranks in it.
    const sparclResult_t captured =
        sparclAllReduceMasked(from.data(), to.data(), kCount, sparclFloat32, sparclSum, mask,
                              nullptr, nullptr, comm, stream);
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    if (captured != sparclSuccess) return captured;
    must(ended);
    must(cudaGraphInstantiate(&launched, graph, 0));
    sparclResult_t result = sparclSuccess;
    for (int step = 0; step < 3; ++step) {
      std::vector<float> expected = random_values<float>(9, 1);
      EXPECT_EQ(
          sparclAllReduceMasked(random_values<float>(rank, step).data(), expected.data(), kCount,
                                sparclFloat32, sparclSum, mask, nullptr, nullptr, comm, nullptr),
          sparclSuccess);
      must(cudaMemcpy(from.data(), random_values<float>(rank, step).data(), kCount * sizeof(float),
                      cudaMemcpyHostToDevice));
      must(cudaGraphLaunch(launched, stream));
      result = sparclCommStreamSynchronize(comm, stream);
      EXPECT_TRUE(to.read() == expected) << "launch " << step;
    }
    must(cudaGraphExecDestroy(launched));
    must(cudaGraphDestroy(graph));
    EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess);
    return result;
  });
}

// A mask that is drawn anew for each call, while calls before it are still in the stream.
TEST_F(NcclOnGpus, RedrawnMasks) {
  run([](int rank, sparclComm_t comm, cudaStream_t stream) {
    sparclMask_t mask = nullptr;
    EXPECT_EQ(sparclMaskCreateRandom(&mask, kCount, 0.02, 3), sparclSuccess);
    std::vector<float> expected = random_values<float>(rank, 0);
    const DeviceArray<float> array(expected);
    must(cudaDeviceSynchronize());
    for (std::uint64_t step = 0; step < 10; ++step) {
      EXPECT_EQ(sparclMaskSetStep(mask, step), sparclSuccess);
      EXPECT_EQ(sparclAllReduceMasked(expected.data(), expected.data(), kCount, sparclFloat32,
                                      sparclSum, mask, nullptr, nullptr, comm, nullptr),
                sparclSuccess);
      const sparclResult_t result =
          sparclAllReduceMasked(array.data(), array.data(), kCount, sparclFloat32, sparclSum, mask,
                                nullptr, nullptr, comm, stream);
      if (result != sparclSuccess) return result;
    }
    EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess);
    const sparclResult_t result = sparclCommStreamSynchronize(comm, stream);
    EXPECT_TRUE(array.read() == expected);
    return result;
  });
}

}  // namespace
}  // namespace sparcl::test
