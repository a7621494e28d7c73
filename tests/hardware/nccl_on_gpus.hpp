#pragma once
// One rank for each of the machine's GPUs, as NCCL refuses two on one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "sparcl/sparcl.h"
#include "tests/api/thread_ranks.hpp"
#include "tests/hardware/gpu_arrays.hpp"

namespace sparcl::test {

class NcclOnGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
    int gpus = 0;
    must(cudaGetDeviceCount(&gpus));
    party_ = std::make_unique<ThreadRanks>(std::min(gpus, 8));
    const auto results = party_->run([](int rank, sparclComm_t comm) {
      must(cudaSetDevice(rank));
      must(cudaFree(nullptr));
      return sparclCommUseNccl(comm, nullptr);
    });
    const std::string text = sparclGetLastError(party_->comm(0));
    if (results[0] == sparclUnsupported) GTEST_SKIP() << "skipped: " << text;
    ASSERT_THAT(results, testing::Each(sparclSuccess)) << text;
  }

  template <class Program>
  void run(Program program) {
    EXPECT_THAT(party_->run([&](int rank, sparclComm_t comm) {
      must(cudaSetDevice(rank));
      cudaStream_t stream = nullptr;
      must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      const sparclResult_t result = program(rank, comm, stream);
      must(cudaStreamDestroy(stream));
      return result;
    }),
                testing::Each(sparclSuccess))
        << sparclGetLastError(party_->comm(0));
  }

  std::unique_ptr<ThreadRanks> party_;
};

}  // namespace sparcl::test
