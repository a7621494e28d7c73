// The top-k all-reduce as users reach it: the C interface of the shared library, ranks as threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "tests/support/top_k_parties.hpp"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TEST(AllReduceTopKApi, ResultsAndResidualsAreTheInputs) {
  std::uint64_t seed = 0;
  for (const int ranks : {1, 2, 3, 5, 8}) {
    ThreadRanks party(ranks);
    ASSERT_EQ(party.created(), sparclSuccess);
    for (const sparclTopKMode_t mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal}) {
      std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
      ++seed;
      (void)party.run([&](int rank, sparclComm_t comm) {
        wrong[static_cast<std::size_t>(rank)] = check_top_k(comm, mode, 30'000, 200, seed);
        return sparclSuccess;
      });
      ASSERT_THAT(wrong, Each("")) << ranks << " ranks, mode " << mode;
    }
  }
}

// A tensor with large values takes no other's share.
TEST(AllReduceTopKApi, EachTensorGivesItsShare) {
  constexpr std::array<std::uint64_t, 4> kLengths{1'000, 0, 30'000, 9'001};
  constexpr std::size_t kCount = 40'001, kK = 400;
  ThreadRanks party(3);
  ASSERT_EQ(party.created(), sparclSuccess);
  std::vector<std::vector<float>> received(3, std::vector<float>(kCount));
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    std::vector<float> sent(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      sent[i] = static_cast<float>((i * 7919) % kCount + 1) * (i < 1'000 ? 1'000 : 1);
    sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
    options.tensors = kLengths.data();
    options.tensor_count = kLengths.size();
    return sparclAllReduceTopK(sent.data(), received[static_cast<std::size_t>(rank)].data(), kCount,
                               kK, sparclFloat32, sparclSum, nullptr, &options, comm, nullptr);
  });
  ASSERT_THAT(results, Each(sparclSuccess)) << sparclGetLastError(party.comm(0));
  EXPECT_THAT(received, Each(received[0]));
  std::size_t begin = 0;
  for (const auto& [length, share] : {std::pair{1'000, 9}, {0, 0}, {30'000, 300}, {9'001, 91}}) {
    const auto first = received[0].begin() + static_cast<std::ptrdiff_t>(begin);
    EXPECT_NEAR(length - std::count(first, first + length, 0.0F), share, 1) << "of " << length;
    begin += static_cast<std::size_t>(length);
  }
  EXPECT_EQ(
      kCount - static_cast<std::size_t>(std::count(received[0].begin(), received[0].end(), 0.0F)),
      kK);
}

// What was selected, what was sent of it or besides, and what stayed, by hand: acc is 9 and 8 at
// the elements that a rank selects (those of rank 0 are 0 and 1, of rank 1 they are 2 and 3), 1 at
// the other's two, and 2 at the last one, which nobody selects.
TEST(AllReduceTopKApi, StatsSayWhatWasSelectedAndSent) {
  struct Row {
    sparclTopKMode_t mode;
    sparclResidual_t residual;
    std::uint64_t sent;  // by rank 0
    double sent_mass, dropped_l2;
  };
  const Row rows[] = {
      {sparclTopKUnion, sparclResidualSent, 4, 9 + 8 + 1 + 1, 2},
      {sparclTopKSelected, sparclResidualSent, 2, 9 + 8, std::sqrt(1 + 1 + 4)},
      {sparclTopKGlobal, sparclResidualSent, 1, 9,
       std::sqrt(1 + 1 + 4)},  // the nines are the 2 largest sums
      {sparclTopKUnion, sparclResidualMean, 4, 9 + 8 + 1 + 1, 2},
      {sparclTopKSelected, sparclResidualMean, 2, 9 + 8, 2},
  };
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.mode);
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      const std::vector<float> sent =
          rank == 0 ? std::vector<float>{9, 8, 1, 1, 2} : std::vector<float>{1, 1, 9, 8, 2};
      std::vector<float> sums(sent.size());
      Feedback feedback = Feedback::of<float>(sent.size());
      sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
      options.mode = row.mode;
      options.residual = row.residual;
      const sparclResult_t result =
          sparclAllReduceTopK(sent.data(), sums.data(), sent.size(), 2, sparclFloat32, sparclSum,
                              feedback.get(), &options, comm, nullptr);
      const sparclFeedbackStats_t stats = feedback.stats();
      EXPECT_EQ(stats.selected, 2U);
      EXPECT_EQ(stats.threshold, 8);
      EXPECT_EQ(stats.sent, row.sent);
      EXPECT_EQ(stats.sent_mass, row.sent_mass);
      EXPECT_NEAR(stats.dropped_l2, row.dropped_l2, 1e-6);
      return result;
    });
    EXPECT_THAT(results, Each(sparclSuccess)) << sparclGetLastError(party.comm(0));
  }
}

TEST(AllReduceTopKApi, BadArgumentsOfOneRankAreToldToAll) {
  static float sent[4] = {1, 2, 3, 4}, received[4];
  struct Row {
    sparclResult_t result;
    const char* text;
    sparclResult_t (*call)(sparclComm_t comm);
  };
  const Row rows[] = {
      {sparclInvalidArgument, "sendbuff is NULL",
       [](sparclComm_t c) {
         return sparclAllReduceTopK(nullptr, received, 4, 2, sparclFloat32, sparclSum, nullptr,
                                    nullptr, c, nullptr);
       }},
      {sparclInvalidArgument, "op: sparclSum or sparclAvg",
       [](sparclComm_t c) {
         return sparclAllReduceTopK(sent, received, 4, 2, sparclFloat32, sparclMax, nullptr,
                                    nullptr, c, nullptr);
       }},
      {sparclUnsupported, "top-k of int8",
       [](sparclComm_t c) {
         return sparclAllReduceTopK(sent, received, 4, 2, sparclInt8, sparclSum, nullptr, nullptr,
                                    c, nullptr);
       }},
      {sparclInvalidArgument, "options.mode = 7",
       [](sparclComm_t c) {
         sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
         options.mode = static_cast<sparclTopKMode_t>(7);
         return sparclAllReduceTopK(sent, received, 4, 2, sparclFloat32, sparclSum, nullptr,
                                    &options, c, nullptr);
       }},
      {sparclInvalidArgument, "options.tensors: 2 lengths that are not 4 in sum",
       [](sparclComm_t c) {
         static constexpr std::uint64_t kLengths[] = {3, ~std::uint64_t{0}};
         sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
         options.tensors = kLengths;
         options.tensor_count = 2;
         return sparclAllReduceTopK(sent, received, 4, 2, sparclFloat32, sparclSum, nullptr,
                                    &options, c, nullptr);
       }},
      {sparclInvalidArgument, "options.tensor_count = 2, but options.tensors is NULL",
       [](sparclComm_t c) {
         sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
         options.tensor_count = 2;
         return sparclAllReduceTopK(sent, received, 4, 2, sparclFloat32, sparclSum, nullptr,
                                    &options, c, nullptr);
       }},
      {sparclInvalidArgument, "options.reuse_threshold = 3 is no sparclToggle_t",
       [](sparclComm_t c) {
         sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
         options.reuse_threshold = static_cast<sparclToggle_t>(3);
         return sparclAllReduceTopK(sent, received, 4, 2, sparclFloat32, sparclSum, nullptr,
                                    &options, c, nullptr);
       }},
      {sparclInvalidArgument, "options.device_kernels = 4 is no sparclToggle_t",
       [](sparclComm_t c) {
         sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
         options.device_kernels = static_cast<sparclToggle_t>(4);
         return sparclAllReduceTopK(sent, received, 4, 2, sparclFloat32, sparclSum, nullptr,
                                    &options, c, nullptr);
       }},
      {sparclInvalidArgument, "options.algorithm = 'fast'",
       [](sparclComm_t c) {
         sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
         options.algorithm = "fast";
         return sparclAllReduceTopK(sent, received, 4, 2, sparclFloat32, sparclSum, nullptr,
                                    &options, c, nullptr);
       }},
      {sparclInvalidArgument, "the feedback is of 5 elements of float32, the call of 4 of float32",
       [](sparclComm_t c) {
         Feedback feedback(5, sparclFloat32);
         return sparclAllReduceTopK(sent, received, 4, 2, sparclFloat32, sparclSum, feedback.get(),
                                    nullptr, c, nullptr);
       }}};
  ThreadRanks party(3);
  ASSERT_EQ(party.created(), sparclSuccess);
  for (const Row& row : rows) {
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      if (rank == 1) return row.call(comm);
      const float own[4] = {1, 2, 3, 4};
      float all[4];
      return sparclAllReduceTopK(own, all, 4, 2, sparclFloat32, sparclSum, nullptr, nullptr, comm,
                                 nullptr);
    });
    EXPECT_THAT(results, Each(row.result)) << row.text;
    EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr(row.text));
  }
}

TEST(AllReduceTopKApi, AFeedbackInFlightIsNotFree) {
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto results = party.run([](int, sparclComm_t comm) {
    std::vector<float> values(1'000, 1.0f);
    sparclFeedback_t feedback = nullptr;
    EXPECT_EQ(sparclFeedbackCreate(&feedback, values.size(), sparclFloat32), sparclSuccess);
    sparclRequest_t request = nullptr;
    EXPECT_EQ(sparclIAllReduceTopK(values.data(), values.data(), values.size(), 10, sparclFloat32,
                                   sparclSum, feedback, nullptr, comm, nullptr, &request),
              sparclSuccess);
    EXPECT_EQ(sparclFeedbackDestroy(feedback), sparclInvalidUsage);
    EXPECT_EQ(sparclWait(&request, nullptr), sparclSuccess);
    EXPECT_EQ(std::count(values.begin(), values.end(), 2.0f), 10);
    return sparclFeedbackDestroy(feedback);
  });
  EXPECT_THAT(results, Each(sparclSuccess));
}

TEST(AllReduceTopKApi, ASecondCallWithAFeedbackInFlightIsRefusedByAll) {
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto results = party.run([](int rank, sparclComm_t comm) {
    std::vector<float> values(1'000, 1.0f), first(1'000), second(1'000, 7.0f);
    Feedback own(values.size(), sparclFloat32), other(values.size(), sparclFloat32);
    sparclRequest_t requests[2] = {};
    const sparclFeedback_t again = rank == 0 ? own.get() : other.get();
    EXPECT_EQ(sparclIAllReduceTopK(values.data(), first.data(), values.size(), 10, sparclFloat32,
                                   sparclSum, own.get(), nullptr, comm, nullptr, &requests[0]),
              sparclSuccess);
    EXPECT_EQ(sparclIAllReduceTopK(values.data(), second.data(), values.size(), 10, sparclFloat32,
                                   sparclSum, again, nullptr, comm, nullptr, &requests[1]),
              sparclSuccess);
    EXPECT_EQ(sparclWait(&requests[1], nullptr), sparclInvalidUsage);
    EXPECT_THAT(sparclGetLastError(comm), HasSubstr("a call with this feedback is in flight"));
    EXPECT_EQ(second, std::vector<float>(1'000, 7.0f));
    EXPECT_EQ(sparclWait(&requests[0], nullptr), sparclSuccess);
    EXPECT_EQ(std::count(first.begin(), first.end(), 2.0f), 10);
    return sparclAllReduceTopK(values.data(), values.data(), values.size(), 10, sparclFloat32,
                               sparclSum, own.get(), nullptr, comm, nullptr);
  });
  EXPECT_THAT(results, Each(sparclSuccess));
}

TEST(AllReduceTopKApi, InCpp) {
  std::vector<Comm> comms = Comm::local(2);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < comms.size(); ++rank) {
    threads.emplace_back([rank, &comm = comms[rank]] {
      std::vector<double> values(100);
      values[rank] = 5;
      values[50] = 1;
      Feedback feedback = Feedback::of<double>(values.size());
      std::vector<double> sums(values.size());
      EXPECT_EQ(comm.all_reduce_top_k(values, std::span(sums), 1, &feedback).nnz_out, 2U);
      EXPECT_EQ(sums[0], 5);
      EXPECT_EQ(sums[1], 5);
      EXPECT_EQ(sums[50], 0);  // stays in the residual
      const std::vector<double> zeros(values.size());
      (void)comm.all_reduce_top_k(zeros, std::span(sums), 1, &feedback);
      EXPECT_EQ(sums[50], 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sparcl::test
