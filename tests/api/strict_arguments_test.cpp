// What was taken silently once: k beyond the array, types of the wire, versions that go back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

sparclResult_t top_k(sparclComm_t comm, std::vector<float>& data, std::size_t k,
                     sparclFeedback_t feedback = nullptr,
                     const sparclTopKOptions_t* options = nullptr) {
  return sparclAllReduceTopK(data.data(), data.data(), data.size(), k, sparclFloat32, sparclSum,
                             feedback, options, comm, nullptr);
}

TEST(StrictArguments, MoreThanAllElementsCannotBeSelected) {
  ThreadRanks party(3);
  for (const std::size_t k : {std::size_t{9}, SIZE_MAX}) {
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      std::vector<float> data(8, 1);
      const sparclResult_t result = top_k(comm, data, rank == 1 ? k : 8);
      EXPECT_THAT(sparclGetLastError(comm),
                  HasSubstr("k is " + std::to_string(k) + ", but the array has 8 elements"));
      EXPECT_THAT(data, Each(1.0F));
      return result;
    });
    EXPECT_THAT(results, Each(sparclInvalidArgument));
  }
}

TEST(StrictArguments, NoneSelectedIsAllInTheFeedback) {
  ThreadRanks party(2);
  const auto results = party.run([&](int, sparclComm_t comm) {
    sparclFeedback_t feedback = nullptr;
    EXPECT_EQ(sparclFeedbackCreate(&feedback, 8, sparclFloat32), sparclSuccess);
    std::vector<float> data{1, 2, 3, 4, 5, 6, 7, 8};
    const sparclResult_t result = top_k(comm, data, 0, feedback);
    EXPECT_THAT(data, Each(0.0F));
    const void* residual = nullptr;
    EXPECT_EQ(sparclFeedbackGetResidual(feedback, &residual, nullptr, nullptr), sparclSuccess);
    EXPECT_EQ(static_cast<const float*>(residual)[7], 8);
    EXPECT_EQ(sparclFeedbackDestroy(feedback), sparclSuccess);
    return result;
  });
  EXPECT_THAT(results, Each(sparclSuccess));
}

// Over a transport whose ranks read nothing of each other's memory what was asked for travels, or
// the report says what did.
TEST(StrictArguments, TheReportSaysInWhichTypeValuesTravelled) {
  constexpr std::size_t kCount = 100'000, kSelected = 10'000;
  // One algorithm for all: what is cheapest depends on links, which a busy machine makes slow.
  setenv("SPARCL_ALGO_ALLREDUCE_SPARSE", "gather", 1);
  ThreadRanks party(2);
  unsetenv("SPARCL_ALGO_ALLREDUCE_SPARSE");
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    std::vector<float> data(kCount), received(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      data[i] = std::sin(static_cast<float>(i + 1) * static_cast<float>(rank + 1));
    sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
    std::array<sparclReport_t, 5> reports{};
    for (int wire = 0; wire < 5; ++wire) {
      for (const sparclTopKMode_t mode : {sparclTopKUnion, sparclTopKSelected}) {
        options.mode = mode;
        options.wire = static_cast<sparclWire_t>(wire);
        sparclReport_t& report = reports[static_cast<std::size_t>(wire)];
        report = SPARCL_REPORT_INITIALIZER;
        EXPECT_EQ(sparclAllReduceTopK(data.data(), received.data(), kCount, kSelected,
                                      sparclFloat32, sparclSum, nullptr, &options, comm, nullptr),
                  sparclSuccess);
        EXPECT_EQ(sparclCommLastReport(comm, &report), sparclSuccess);
        EXPECT_TRUE(mode == sparclTopKSelected || report.wire_datatype == sparclFloat32);
      }
    }
    EXPECT_EQ(reports[0].wire_datatype, sparclFloat32);
    EXPECT_EQ(reports[1].wire_datatype, sparclBfloat16);
    for (const int wire : {sparclWireInt8, sparclWireInt4, sparclWireInt2}) {
      const sparclReport_t& scaled = reports[static_cast<std::size_t>(wire)];
      if (scaled.wire_datatype == sparclInt8) {
        EXPECT_LT(scaled.bytes_sent, (&scaled - 1)->bytes_sent) << "few bits that save nothing";
      } else {
        EXPECT_EQ(scaled.wire_datatype, sparclFloat32);
        EXPECT_GE(scaled.bytes_sent, reports[1].bytes_sent);
      }
    }
    return sparclBroadcastDelta(data.data(), nullptr, kCount, sparclFloat32, 0, nullptr, comm,
                                nullptr);
  });
  EXPECT_THAT(results, Each(sparclSuccess));
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  EXPECT_EQ(sparclCommLastReport(party.comm(0), &report), sparclSuccess);
  EXPECT_EQ(report.wire_datatype, -1);
}

// One rank's part in updates of one tensor.
struct Replica {
  Replica() { state.add("w", weights, {100}); }
  sparclResult_t update(sparclComm_t comm, std::uint64_t version) {
    return sparclBroadcastUpdate(state.get(), version, 0, nullptr, comm, nullptr);
  }
  std::vector<float> weights = std::vector<float>(100, 1);
  State state;
};

TEST(StrictArguments, VersionsOfUpdatesAscendOnEveryRank) {
  ThreadRanks party(3);
  std::vector<Replica> replicas(3);
  const auto expect_each = [&](sparclResult_t expected, std::uint64_t of_root,
                               std::uint64_t of_others, const char* says) {
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      const sparclResult_t result =
          replicas[static_cast<std::size_t>(rank)].update(comm, rank == 0 ? of_root : of_others);
      EXPECT_THAT(expected != sparclSuccess ? sparclGetLastError(comm) : says, HasSubstr(says))
          << rank;
      return result;
    });
    EXPECT_THAT(results, Each(expected)) << of_root << " " << of_others;
  };
  expect_each(sparclInvalidArgument, 0, 0, "version is 0, which is none: begin with 1");
  expect_each(sparclSuccess, 5, 0, "");
  expect_each(sparclInvalidArgument, 3, 3, "version 3 does not come after version 5");
  expect_each(sparclInvalidArgument, 3, 0, "version 3 does not come after version 5");
  expect_each(sparclInvalidArgument, 5, 5, "version 5 does not come after version 5");
  expect_each(sparclInvalidArgument, 0, 7, "version is 0");
  expect_each(sparclMismatch, 8, 7, "");
  expect_each(sparclSuccess, 8, 8, "");
}

TEST(StrictArguments, TheLastVersionMayBeRepeatedOnANewComm) {
  std::vector<Replica> replicas(2);
  for (int attempt = 0; attempt < 2; ++attempt) {
    ThreadRanks party(2);
    EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
      return replicas[static_cast<std::size_t>(rank)].update(comm, 4);
    }),
                Each(sparclSuccess));
  }
  ThreadRanks party(2);
  replicas[0] = Replica();  // a root that begins anew, behind what the other holds
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    const sparclResult_t result =
        replicas[static_cast<std::size_t>(rank)].update(comm, rank == 0 ? 3 : 0);
    EXPECT_THAT(sparclGetLastError(comm),
                AllOf(HasSubstr("version 3 of the root, rank 0"), HasSubstr("after version 4")));
    return result;
  });
  EXPECT_THAT(results, Each(sparclInvalidArgument));
}

}  // namespace
}  // namespace sparcl::test
