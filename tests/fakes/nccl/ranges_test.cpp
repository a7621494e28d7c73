// Calls and their stages reach a profiler as ranges. NVTX_INJECTION64_PATH names the profiler
// (range_recorder.cpp).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/api/thread_ranks.hpp"

namespace sparcl::test {
namespace {

TEST(Ranges, OfCallsAndStagesReachAProfiler) {
  if (std::getenv("NVTX_INJECTION64_PATH") == nullptr)
    GTEST_SKIP() << "skipped: NVTX_INJECTION64_PATH names no profiler";
  const std::string path = testing::TempDir() + "ranges." + std::to_string(::getpid());
  setenv("RANGE_RECORD", path.c_str(), 1);  // before the first range
  ThreadRanks party(2);
  EXPECT_THAT(party.run([](int, sparclComm_t comm) {
    std::vector<float> values(1000, 1), base(1000, 0);
    sparclMask_t mask = nullptr;
    EXPECT_EQ(sparclMaskCreateRandom(&mask, values.size(), 0.5, 1), sparclSuccess);
    EXPECT_EQ(sparclAllReduceMasked(values.data(), values.data(), values.size(), sparclFloat32,
                                    sparclSum, mask, nullptr, nullptr, comm, nullptr),
              sparclSuccess);
    EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess);
    EXPECT_EQ(sparclAllReduceTopK(values.data(), values.data(), values.size(), 10, sparclFloat32,
                                  sparclSum, nullptr, nullptr, comm, nullptr),
              sparclSuccess);
    base = values;
    return sparclBroadcastDelta(values.data(), base.data(), values.size(), sparclFloat32, 0,
                                nullptr, comm, nullptr);
  }),
              testing::Each(sparclSuccess));
  std::ifstream file(path);
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) names.push_back(line);
  std::remove(path.c_str());
  for (const char* name : {"domain sparcl", "AllReduceMasked", "AllReduceTopK", "BroadcastDelta",
                           "agree", "select", "exchange", "encode", "commit"})
    EXPECT_THAT(names, testing::Contains(name));
}

}  // namespace
}  // namespace sparcl::test
