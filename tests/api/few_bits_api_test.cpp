// Values of 4 and 2 bits as users reach them: every rank has the same bits, and sums plus residuals
// are the inputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "sparcl/sparcl.h"
#include "src/base/seeded_random.hpp"
#include "tests/api/thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::Each;

constexpr sparclWire_t kFewBits[] = {sparclWireInt4, sparclWireInt2};
constexpr std::size_t kFewElements = 20'000, kFewSelected = 1'000;

std::vector<float> few_bits_gradient(int rank, int turn) {
  SeededRandom random(static_cast<std::uint64_t>(100 * turn + rank + 1));
  std::vector<float> values(kFewElements);
  for (float& value : values)
    value = static_cast<float>(-std::log(1 - random.unit()) * (random.chance(0.5) ? 1 : -1));
  return values;
}

// One rank's calls.
struct TopKRank {
  std::vector<double> given = std::vector<double>(kFewElements), left = given;
  std::vector<std::vector<float>> sums;
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;

  sparclResult_t run(int rank, sparclComm_t comm, sparclTopKMode_t mode, sparclWire_t wire) {
    sparclFeedback_t feedback = nullptr;
    (void)sparclFeedbackCreate(&feedback, kFewElements, sparclFloat32);
    sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
    options.mode = mode;
    options.wire = wire;
    sparclResult_t result = sparclSuccess;
    for (int turn = 0; turn < 3 && result == sparclSuccess; ++turn) {
      const std::vector<float> values = few_bits_gradient(rank, turn);
      for (std::size_t i = 0; i < kFewElements; ++i) given[i] += static_cast<double>(values[i]);
      std::vector<float>& sum = sums.emplace_back(kFewElements);
      result = sparclAllReduceTopK(values.data(), sum.data(), kFewElements, kFewSelected,
                                   sparclFloat32, sparclSum, feedback, &options, comm, nullptr);
    }
    (void)sparclCommLastReport(comm, &report);
    const void* residual = nullptr;
    std::size_t count = 0;
    sparclDataType_t type = sparclFloat32;
    (void)sparclFeedbackGetResidual(feedback, &residual, &count, &type);
    for (std::size_t i = 0; i < count; ++i)
      left[i] = static_cast<double>(static_cast<const float*>(residual)[i]);
    (void)sparclFeedbackDestroy(feedback);
    return result;
  }
};

TEST(FewBits, TopKSumsAndResidualsAreTheInputsOfAllRanks) {
  for (const int ranks : kRankCounts) {
    ThreadRanks party(ranks);
    for (const sparclWire_t wire : kFewBits) {
      const sparclTopKMode_t mode = ranks % 3 == 0 ? sparclTopKUnion : sparclTopKSelected;
      std::vector<TopKRank> all(static_cast<std::size_t>(ranks));
      ASSERT_THAT(party.run([&](int rank, sparclComm_t comm) {
        return all[static_cast<std::size_t>(rank)].run(rank, comm, mode, wire);
      }),
                  Each(sparclSuccess))
          << sparclGetLastError(party.comm(0));
      double largest = 0;
      for (std::size_t i = 0; i < kFewElements; ++i) {
        double rest = 0;
        for (const TopKRank& rank : all) rest += rank.given[i] - rank.left[i];
        for (const std::vector<float>& sum : all[0].sums) rest -= static_cast<double>(sum[i]);
        largest = std::max(largest, std::abs(rest));
      }
      EXPECT_LT(largest, 1e-4) << ranks << " ranks, wire " << wire;
      for (const TopKRank& rank : all) EXPECT_TRUE(rank.sums == all[0].sums);
    }
  }
}

// Entries whose values are far from 0, as selected ones.
struct SparseRank {
  std::vector<float> values, sum;
  std::vector<std::uint64_t> indices, union_of_all;
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;

  sparclResult_t run(int rank, int ranks, sparclComm_t comm, sparclWire_t wire) {
    SeededRandom random(static_cast<std::uint64_t>(rank + 7));
    for (std::uint64_t i = 0; i < kFewElements; i += 1 + random.below(8)) {
      indices.push_back(i);
      const double size = 2.4 - 0.35 * std::log(1 - random.unit());
      values.push_back(static_cast<float>(random.chance(0.5) ? size : -size));
    }
    sparclSparseOptions_t options = SPARCL_SPARSE_OPTIONS_INITIALIZER;
    options.wire = wire;
    const std::size_t room = kFewElements * static_cast<std::size_t>(ranks);
    sum.resize(room);
    union_of_all.resize(room);
    std::size_t found = 0;
    const sparclResult_t result = sparclAllReduceSparse(
        values.data(), indices.data(), values.size(), kFewElements, sum.data(), union_of_all.data(),
        &found, room, sparclFloat32, sparclSum, &options, comm, nullptr);
    sum.resize(found);
    union_of_all.resize(found);
    (void)sparclCommLastReport(comm, &report);
    return result;
  }
};

TEST(FewBits, SparseSumsAreNearTheExactSums) {
  for (const int ranks : kRankCounts) {
    ThreadRanks party(ranks);
    for (const sparclWire_t wire : kFewBits) {
      std::vector<SparseRank> all(static_cast<std::size_t>(ranks));
      ASSERT_THAT(party.run([&](int rank, sparclComm_t comm) {
        return all[static_cast<std::size_t>(rank)].run(rank, ranks, comm, wire);
      }),
                  Each(sparclSuccess))
          << sparclGetLastError(party.comm(0));
      std::vector<double> exact(kFewElements);
      double squares = 0, error = 0;
      for (const SparseRank& rank : all) {
        EXPECT_TRUE(rank.sum == all[0].sum && rank.union_of_all == all[0].union_of_all);
        for (std::size_t i = 0; i < rank.values.size(); ++i) {
          exact[rank.indices[i]] += static_cast<double>(rank.values[i]);
          squares += std::pow(static_cast<double>(rank.values[i]), 2);
        }
      }
      for (std::size_t i = 0; i < all[0].sum.size(); ++i)
        error += std::pow(static_cast<double>(all[0].sum[i]) - exact[all[0].union_of_all[i]], 2);
      EXPECT_LT(error / squares, wire == sparclWireInt4 ? 0.007 : 0.015) << ranks << " ranks";
    }
  }
}

// Over a transport whose ranks read nothing of each other's memory.
TEST(FewBits, FewerBitsAreSent) {
  setenv("SPARCL_ALGO_ALLREDUCE_SPARSE", "gather", 1);
  ThreadRanks party(2);
  unsetenv("SPARCL_ALGO_ALLREDUCE_SPARSE");
  std::vector<std::uint64_t> sent;
  for (const sparclWire_t wire : {sparclWireInt8, sparclWireInt4, sparclWireInt2}) {
    std::vector<TopKRank> all(2);
    ASSERT_THAT(party.run([&](int rank, sparclComm_t comm) {
      return all[static_cast<std::size_t>(rank)].run(rank, comm, sparclTopKSelected, wire);
    }),
                Each(sparclSuccess));
    if (all[0].report.wire_datatype != sparclInt8) GTEST_SKIP() << "values are sent as float32";
    sent.push_back(all[0].report.bytes_sent);
  }
  EXPECT_LT(sent[1] + kFewSelected * 4 / 10, sent[0]);
  EXPECT_LT(sent[2] + kFewSelected * 2 / 10, sent[1]);
}

}  // namespace
}  // namespace sparcl::test
