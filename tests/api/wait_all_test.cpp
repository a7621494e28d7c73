// sparclWaitAll: many requests, of one communicator and of several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

sparclRequest_t start(sparclComm_t comm, std::vector<float>& weights, int root = 0) {
  sparclRequest_t request = nullptr;
  EXPECT_EQ(sparclIBroadcastDelta(weights.data(), nullptr, weights.size(), sparclFloat32, root,
                                  nullptr, comm, nullptr, &request),
            sparclSuccess);
  return request;
}

TEST(WaitAll, WaitsForEveryRequestOfACommunicator) {
  ThreadRanks party(3);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    std::vector<std::vector<float>> held(5, std::vector<float>(10'000, static_cast<float>(rank)));
    std::vector<sparclRequest_t> requests(6, nullptr);  // one of them none
    for (std::size_t i = 0; i < held.size(); ++i)
      requests[i] = start(comm, held[i], static_cast<int>(i) % 3);
    std::vector<sparclResult_t> each(6, sparclInternalError);
    const sparclResult_t result = sparclWaitAll(6, requests.data(), each.data());
    EXPECT_THAT(requests, Each(nullptr));
    EXPECT_THAT(each, Each(sparclSuccess));
    for (std::size_t i = 0; i < held.size(); ++i)
      EXPECT_THAT(held[i], Each(static_cast<float>(i % 3)));
    return result;
  });
  EXPECT_THAT(results, Each(sparclSuccess));
}

// Waiting for one after the other would never end: each rank names them in another order.
TEST(WaitAll, OrderOfCommunicatorsDoesNotMatter) {
  ThreadRanks first(2), second(2);
  const auto results = first.run([&](int rank, sparclComm_t) {
    std::vector<float> a(300'000, static_cast<float>(rank)), b = a;
    std::vector<sparclRequest_t> requests = {start(first.comm(rank), a, 0),
                                             start(second.comm(rank), b, 1)};
    if (rank == 1) std::swap(requests[0], requests[1]);
    const sparclResult_t result = sparclWaitAll(2, requests.data(), nullptr);
    EXPECT_THAT(requests, Each(nullptr));
    EXPECT_THAT(a, Each(0.0f));
    EXPECT_THAT(b, Each(1.0f));
    return result;
  });
  EXPECT_THAT(results, Each(sparclSuccess));
}

TEST(WaitAll, GivesTheFirstErrorAndItsTextAndWaitsForAll) {
  for (const bool is_one_comm : {true, false}) {
    ThreadRanks party(2), other(2);
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      std::vector<std::vector<float>> held(4, std::vector<float>(100, static_cast<float>(rank)));
      std::vector<sparclRequest_t> requests(4);
      for (std::size_t i = 0; i < 4; ++i) {
        // The ranks name other roots in call 1, and other counts in call 2.
        if (i == 2) held[i].resize(100 + static_cast<std::size_t>(rank));
        const int root = i == 1 ? rank : 0;
        const bool is_other = i == 3 && !is_one_comm;
        requests[i] = start(is_other ? other.comm(rank) : comm, held[i], root);
      }
      std::vector<sparclResult_t> each(4, sparclInternalError);
      const sparclResult_t result = sparclWaitAll(4, requests.data(), each.data());
      EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("differ in their roots"));
      EXPECT_THAT(requests, Each(nullptr));
      EXPECT_THAT(each, ElementsAre(sparclSuccess, sparclMismatch, sparclMismatch, sparclSuccess));
      EXPECT_THAT(held[3], Each(0.0f));
      return result;
    });
    EXPECT_THAT(results, Each(sparclMismatch));
  }
}

TEST(WaitAll, RefusesWhatIsNoRequest) {
  EXPECT_EQ(sparclWaitAll(0, nullptr, nullptr), sparclSuccess);
  EXPECT_EQ(sparclWaitAll(1, nullptr, nullptr), sparclInvalidArgument);
  EXPECT_STREQ(sparclGetLastError(nullptr), "sparclWaitAll: requests is NULL");
  ThreadRanks party(1);
  std::vector<float> weights(10, 1.0f);
  sparclRequest_t twice = start(party.comm(0), weights);
  sparclRequest_t requests[3] = {twice, reinterpret_cast<sparclRequest_t>(weights.data()), twice};
  sparclResult_t results[3] = {};
  EXPECT_EQ(sparclWaitAll(3, requests, results), sparclInvalidArgument);
  EXPECT_THAT(results, ElementsAre(sparclSuccess, sparclInvalidArgument, sparclInvalidUsage));
  EXPECT_EQ(requests[0], nullptr);
  EXPECT_NE(requests[1], nullptr) << "it is not the library's to end";
}

TEST(WaitAll, InCpp) {
  std::vector<Comm> comms = Comm::local(1);
  std::vector<float> a(10, 1.0f), b = a;
  std::vector<Request> requests;
  requests.push_back(comms[0].start_broadcast_delta(a, {}, 0));
  requests.push_back(comms[0].start_broadcast_delta(b, {}, 0));
  wait_all(requests);
  EXPECT_TRUE(requests[0].test());
  EXPECT_EQ(requests[1].wait().applied, 0) << "there is nothing to wait for any more";
  requests[0] = comms[0].start_broadcast_delta(a, {}, 0);
  comms.clear();
  EXPECT_THROW(wait_all(requests), Error) << "its communicator ended it";
  EXPECT_TRUE(requests[0].test()) << "nothing is left to wait for";
}

}  // namespace
}  // namespace sparcl::test
