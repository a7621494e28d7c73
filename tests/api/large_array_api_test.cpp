// More than 2^32 elements and more than 4 GiB through the C interface, in address space without
// memory behind it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "sparcl/sparcl.h"
#include "tests/support/sparse_memory.hpp"
#include "tests/support/tier.hpp"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::Each;

TEST(LargeArrayApi, BroadcastDeltaReachesPastFourGigaElements) {
  if (!long_tier()) GTEST_SKIP() << "reads nine gigabytes: in the long tier";
  constexpr std::uint64_t kFourGi = std::uint64_t{1} << 32;
  constexpr std::uint64_t kCount = kFourGi + 70'000;
  const SparseMemory base(kCount), target(kCount), held(kCount);
  if (base.data() == nullptr || target.data() == nullptr || held.data() == nullptr)
    GTEST_SKIP() << "no 12 GiB of address space";
  const std::uint64_t changed[] = {0,       65'536,           kFourGi / 2, kFourGi - 1,
                                   kFourGi, kFourGi + 65'536, kCount - 1};
  for (const std::uint64_t index : changed)
    target.data()[index] = static_cast<std::byte>(index % 250 + 1);

  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    const sparclResult_t result =
        rank == 0 ? sparclBroadcastDelta(target.data(), base.data(), kCount, sparclUint8, 0,
                                         nullptr, comm, nullptr)
                  : sparclBroadcastDelta(held.data(), nullptr, kCount, sparclUint8, 0, nullptr,
                                         comm, nullptr);
    return result == sparclSuccess && rank == 1 ? sparclCommLastReport(comm, &report) : result;
  });
  EXPECT_THAT(results, Each(sparclSuccess));
  EXPECT_EQ(report.nnz_out, std::size(changed));
  EXPECT_EQ(report.bytes_dense, kCount);
  EXPECT_LT(report.bytes_received, 1'000u);
  for (const std::uint64_t index : changed)
    EXPECT_EQ(held.data()[index], target.data()[index]) << index;
  EXPECT_EQ(held.data()[kFourGi + 1], std::byte{0});
}

}  // namespace
}  // namespace sparcl::test
