// Top-k of arrays on GPUs against the host's way, bit for bit: ranks that share GPU 0, and one rank
// a GPU over NCCL.

#include "tests/fakes/nccl/top_k_values.hpp"
#include "tests/hardware/nccl_on_gpus.hpp"

namespace sparcl::test {
namespace {

using testing::Each;

constexpr std::size_t kTopKCount = 1'000'003, kK = 5000;
constexpr sparclTopKMode_t kModes[] = {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal};

template <class T>
std::vector<T> residual_of(sparclFeedback_t feedback) {
  const void* residual = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(sparclFeedbackGetResidual(feedback, &residual, &count, nullptr), sparclSuccess);
  const T* const begin = static_cast<const T*>(residual);
  return {begin, begin + count};
}

// Three calls with feedback by both ways. wait: until the stream is through.
template <class T, class A, class Wait>
sparclResult_t compare(int rank, sparclComm_t comm, cudaStream_t stream, sparclDataType_t type,
                       sparclTopKMode_t mode, sparclWire_t wire, const Wait& wait) {
  SCOPED_TRACE(testing::Message() << "rank " << rank << ", type " << type << ", mode " << mode
                                  << ", wire " << wire);
  sparclFeedback_t host = nullptr, device = nullptr;
  EXPECT_EQ(sparclFeedbackCreate(&host, kTopKCount, type), sparclSuccess);
  EXPECT_EQ(sparclFeedbackCreate(&device, kTopKCount, type), sparclSuccess);
  sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
  options.mode = mode;
  options.wire = wire;
  sparclResult_t result = sparclSuccess;
  for (int step = 0; step < 3 && result == sparclSuccess; ++step) {
    const std::vector<T> sent = values_of<T>(type, rank, step, kTopKCount, step == 2);
    std::vector<T> expected(kTopKCount);
    EXPECT_EQ(sparclAllReduceTopK(sent.data(), expected.data(), kTopKCount, kK, type, sparclSum,
                                  host, &options, comm, nullptr),
              sparclSuccess);
    const DeviceArray<T> from(sent), to(kTopKCount);
    must(cudaDeviceSynchronize());
    result = sparclAllReduceTopK(from.data(), to.data(), kTopKCount, kK, type, sparclSum, device,
                                 &options, comm, stream);
    if (result == sparclSuccess) result = wait();
    EXPECT_TRUE(same_bits(to.read(), expected)) << "step " << step;
    EXPECT_TRUE(same_bits(residual_of<A>(device), residual_of<A>(host))) << "step " << step;
  }
  EXPECT_EQ(sparclFeedbackDestroy(host), sparclSuccess);
  EXPECT_EQ(sparclFeedbackDestroy(device), sparclSuccess);
  return result;
}

template <class Wait>
sparclResult_t compare_all(int rank, sparclComm_t comm, cudaStream_t stream, const Wait& wait) {
  for (const sparclTopKMode_t mode : kModes) {
    for (const sparclWire_t wire : {sparclWireSame, sparclWireBfloat16}) {
      const sparclResult_t result =
          compare<float, float>(rank, comm, stream, sparclFloat32, mode, wire, wait);
      if (result != sparclSuccess) return result;
    }
    for (const sparclResult_t result :
         {compare<std::uint16_t, float>(rank, comm, stream, sparclBfloat16, mode, sparclWireSame,
                                        wait),
          compare<double, double>(rank, comm, stream, sparclFloat64, mode, sparclWireSame, wait),
          compare<std::int64_t, std::int64_t>(rank, comm, stream, sparclInt64, mode, sparclWireSame,
                                              wait)}) {
      if (result != sparclSuccess) return result;
    }
  }
  return sparclSuccess;
}

TEST(TopKOnAGpu, IsThatOfTheHost) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  ThreadRanks party(2);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    must(cudaSetDevice(0));
    cudaStream_t stream = nullptr;
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const sparclResult_t result = compare_all(rank, comm, stream, [] { return sparclSuccess; });
    must(cudaStreamDestroy(stream));
    return result;
  }),
              Each(sparclSuccess))
      << sparclGetLastError(party.comm(0));
}

TEST_F(NcclOnGpus, TopKIsThatOfTheHost) {
  run([](int rank, sparclComm_t comm, cudaStream_t stream) {
    return compare_all(rank, comm, stream,
                       [&] { return sparclCommStreamSynchronize(comm, stream); });
  });
}

TEST_F(NcclOnGpus, TopKIsCapturedIntoGraphs) {
  run([](int rank, sparclComm_t comm, cudaStream_t stream) {
    sparclFeedback_t host = nullptr, device = nullptr;
    EXPECT_EQ(sparclFeedbackCreate(&host, kTopKCount, sparclFloat32), sparclSuccess);
    EXPECT_EQ(sparclFeedbackCreate(&device, kTopKCount, sparclFloat32), sparclSuccess);
    const DeviceArray<float> array(kTopKCount);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t launched = nullptr;
    must(cudaDeviceSynchronize());
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    const sparclResult_t captured =
        sparclAllReduceTopK(array.data(), array.data(), kTopKCount, kK, sparclFloat32, sparclSum,
                            device, nullptr, comm, stream);
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    if (captured != sparclSuccess) return captured;
    must(ended);
    must(cudaGraphInstantiate(&launched, graph, 0));
    sparclResult_t result = sparclSuccess;
    for (int step = 0; step < 3; ++step) {
      std::vector<float> expected = values_of<float>(sparclFloat32, rank, step, kTopKCount);
      must(cudaMemcpy(array.data(), expected.data(), kTopKCount * sizeof(float),
                      cudaMemcpyHostToDevice));
      EXPECT_EQ(sparclAllReduceTopK(expected.data(), expected.data(), kTopKCount, kK, sparclFloat32,
                                    sparclSum, host, nullptr, comm, nullptr),
                sparclSuccess);
      must(cudaGraphLaunch(launched, stream));
      result = sparclCommStreamSynchronize(comm, stream);
      EXPECT_TRUE(same_bits(array.read(), expected)) << "launch " << step;
      EXPECT_TRUE(same_bits(residual_of<float>(device), residual_of<float>(host)))
          << "launch " << step;
    }
    must(cudaGraphExecDestroy(launched));
    must(cudaGraphDestroy(graph));
    EXPECT_EQ(sparclFeedbackDestroy(host), sparclSuccess);
    EXPECT_EQ(sparclFeedbackDestroy(device), sparclSuccess);
    return result;
  });
}

}  // namespace
}  // namespace sparcl::test
