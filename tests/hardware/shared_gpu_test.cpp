// Several processes on one GPU, over UCX: what they exchange is staged through pinned memory (NCCL
// refuses two ranks on one GPU).

#include "tests/hardware/gpu_arrays.hpp"
#include "tests/hardware/shared_gpu_checks.hpp"
#include "tests/hardware/shared_gpu_party.hpp"

namespace sparcl::test {
namespace {

class RanksThatShareAGpu : public testing::TestWithParam<int> {};

TEST_P(RanksThatShareAGpu, GetTheBitsOfTheHostsWay) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  expect_ranks_agree(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Processes, RanksThatShareAGpu, testing::Values(1, 2, 3, 4),
                         testing::PrintToStringParamName());

int check(sparclComm_t comm, int rank, int ranks) {
  must(cudaSetDevice(0));
  must(cudaFree(nullptr));
  return SharedGpuChecks<DeviceArray>(comm, rank, ranks).run();
}

}  // namespace
}  // namespace sparcl::test

int main(int argc, char** argv) {
  return sparcl::test::main_of_ranks(argc, argv, sparcl::test::check);
}
