// Requests, aborts, and what a communicator does after them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sparcl/sparcl.h"
#include "src/api/comm.hpp"
#include "tests/support/sanitizer_allocator.hpp"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// All ranks on this one thread, driven by sparclTest alone.
bool drive(std::vector<sparclRequest_t>& requests, std::vector<sparclResult_t>& results) {
  results.assign(requests.size(), sparclInProgress);
  for (int turn = 0; turn < 1'000'000; ++turn) {
    bool all = true;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (results[i] != sparclInProgress) continue;
      int done = 0;
      const sparclResult_t result = sparclTest(&requests[i], &done, nullptr);
      if (done != 0) results[i] = result;
      all = all && done != 0;
    }
    if (all) return true;
  }
  return false;
}

TEST(RequestApi, SeveralCallsInFlightOnOneThread) {
  constexpr int kRanks = 3, kCalls = 4;
  ThreadRanks party(kRanks);
  std::vector<std::vector<float>> held(kRanks * kCalls, std::vector<float>(5000, 1.0f));
  std::vector<sparclRequest_t> requests(held.size());
  for (int call = 0; call < kCalls; ++call) {
    for (int rank = 0; rank < kRanks; ++rank) {
      auto& weights = held[static_cast<std::size_t>(call * kRanks + rank)];
      const int root = call % kRanks;
      if (rank == root) weights[static_cast<std::size_t>(call)] = 42;
      ASSERT_EQ(sparclIBroadcastDelta(weights.data(), nullptr, weights.size(), sparclFloat32, root,
                                      nullptr, party.comm(rank), nullptr,
                                      &requests[static_cast<std::size_t>(call * kRanks + rank)]),
                sparclSuccess);
    }
  }
  std::vector<sparclResult_t> results;
  ASSERT_TRUE(drive(requests, results));
  EXPECT_THAT(results, Each(sparclSuccess));
  EXPECT_THAT(requests, Each(nullptr));
  for (int call = 0; call < kCalls; ++call) {
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(
          held[static_cast<std::size_t>(call * kRanks + rank)][static_cast<std::size_t>(call)], 42);
    }
  }
}

TEST(RequestApi, WaitGivesResultAndReport) {
  ThreadRanks party(2);
  std::vector<std::vector<float>> held(2, std::vector<float>(100, 0));
  held[0][7] = 1;
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    sparclRequest_t request = nullptr;
    EXPECT_EQ(sparclIBroadcastDelta(held[static_cast<std::size_t>(rank)].data(), nullptr, 100,
                                    sparclFloat32, 0, nullptr, comm, nullptr, &request),
              sparclSuccess);
    sparclReport_t report = SPARCL_REPORT_INITIALIZER;
    const sparclResult_t result = sparclWait(&request, &report);
    EXPECT_EQ(request, nullptr);
    EXPECT_EQ(report.applied, 1);
    EXPECT_EQ(sparclWait(&request, nullptr), sparclSuccess);
    return result;
  });
  EXPECT_THAT(results, Each(sparclSuccess));
  EXPECT_EQ(held[1], held[0]);
}

TEST(RequestApi, AReportThatCannotBeWrittenKeepsTheRequest) {
  ThreadRanks party(1);
  float value = 1;
  sparclRequest_t request = nullptr;
  ASSERT_EQ(sparclIBroadcastDelta(&value, nullptr, 1, sparclFloat32, 0, nullptr, party.comm(0),
                                  nullptr, &request),
            sparclSuccess);
  sparclReport_t report{};
  EXPECT_EQ(sparclWait(&request, &report), sparclInvalidArgument);
  EXPECT_NE(request, nullptr);
  EXPECT_EQ(sparclWait(&request, nullptr), sparclSuccess);
}

TEST(RequestApi, NonBlockingCallsLeaveTheOldStateInUseUntilTheCommit) {
  ThreadRanks party(2);
  std::vector<float> base(200'000, 1.0f), target = base, held = base;
  for (std::size_t i = 0; i < target.size(); i += 50) target[i] = 1.5f;
  sparclRequest_t root = nullptr, replica = nullptr;
  ASSERT_EQ(sparclIBroadcastDelta(target.data(), base.data(), base.size(), sparclFloat32, 0,
                                  nullptr, party.comm(0), nullptr, &root),
            sparclSuccess);
  ASSERT_EQ(sparclIBroadcastDelta(held.data(), nullptr, base.size(), sparclFloat32, 0, nullptr,
                                  party.comm(1), nullptr, &replica),
            sparclSuccess);
  int root_done = 0, replica_done = 0;
  while (replica_done == 0) {
    EXPECT_TRUE(held == base);
    ASSERT_EQ(sparclTest(&root, &root_done, nullptr), sparclSuccess);
    ASSERT_EQ(sparclTest(&replica, &replica_done, nullptr), sparclSuccess);
  }
  EXPECT_EQ(sparclWait(&root, nullptr), sparclSuccess);
  EXPECT_TRUE(held == target);
}

TEST(RequestApi, AnAbortReachesThePeersThatWait) {
  ThreadRanks party(3);
  std::vector<std::vector<float>> held(3, std::vector<float>(100, 0));
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    if (rank == 1) return sparclCommAbort(comm);
    return sparclBroadcastDelta(held[static_cast<std::size_t>(rank)].data(), nullptr, 100,
                                sparclFloat32, 0, nullptr, comm, nullptr);
  });
  EXPECT_EQ(results[1], sparclSuccess);
  EXPECT_EQ(results[0], sparclRemoteError);
  EXPECT_EQ(results[2], sparclRemoteError);
  EXPECT_THAT(sparclGetLastError(party.comm(0)),
              AllOf(StartsWith("rank 0: rank 1 ("), HasSubstr("sparclCommAbort was called")));
  for (int rank = 0; rank < 3; ++rank) {
    sparclResult_t error = sparclSuccess;
    EXPECT_EQ(sparclCommGetAsyncError(party.comm(rank), &error), sparclSuccess);
    EXPECT_EQ(error, sparclRemoteError);
    int failed = -1;
    EXPECT_EQ(sparclCommGetFailedRank(party.comm(rank), &failed), sparclSuccess);
    EXPECT_EQ(failed, 1);
    EXPECT_THAT(sparclGetLastError(party.comm(rank)),
                Not(HasSubstr("rank " + std::to_string(rank) + ": rank " + std::to_string(rank))));
    EXPECT_THAT(sparclGetLastError(party.comm(rank)), Not(HasSubstr(": rank 1: ")))
        << "who aborted is named once";
    EXPECT_EQ(sparclBroadcastDelta(held[0].data(), nullptr, 100, sparclFloat32, 0, nullptr,
                                   party.comm(rank), nullptr),
              sparclRemoteError);
  }
}

TEST(RequestApi, ADestroyedCommIsADeadPeer) {
  std::vector<sparclComm_t> comms(2);
  ASSERT_EQ(sparclCommInitLocal(comms.data(), 2), sparclSuccess);
  EXPECT_EQ(sparclCommDestroy(comms[1]), sparclSuccess);
  float value = 0;
  int failed = 7;
  EXPECT_EQ(sparclCommGetFailedRank(comms[0], &failed), sparclSuccess);
  EXPECT_EQ(failed, -1) << "nobody has failed that it waited for";
  EXPECT_EQ(sparclBroadcastDelta(&value, nullptr, 1, sparclFloat32, 0, nullptr, comms[0], nullptr),
            sparclRemoteError);
  EXPECT_THAT(sparclGetLastError(comms[0]), StartsWith("rank 0: rank 1 (host "));
  EXPECT_EQ(sparclCommGetFailedRank(comms[0], &failed), sparclSuccess);
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(sparclCommDestroy(comms[0]), sparclSuccess);
}

TEST(RequestApi, DestroyEndsRequestsInFlight) {
  std::vector<sparclComm_t> comms(2);
  ASSERT_EQ(sparclCommInitLocal(comms.data(), 2), sparclSuccess);
  std::vector<float> weights(100, 3);
  sparclRequest_t request = nullptr;
  EXPECT_EQ(sparclIBroadcastDelta(weights.data(), nullptr, 100, sparclFloat32, 0, nullptr, comms[0],
                                  nullptr, &request),
            sparclSuccess);
  EXPECT_EQ(sparclCommDestroy(comms[0]), sparclSuccess);
  EXPECT_EQ(sparclCommDestroy(comms[1]), sparclSuccess);
  EXPECT_EQ(sparclWait(&request, nullptr), sparclRemoteError);
  EXPECT_THAT(weights, Each(3.0f));
}

TEST(CommApi, NullAndBadArgumentsAreNamed) {
  EXPECT_EQ(sparclCommInitLocal(nullptr, 2), sparclInvalidArgument);
  sparclComm_t comm = nullptr;
  EXPECT_EQ(sparclCommInitLocal(&comm, 0), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("nranks"));
  EXPECT_EQ(sparclCommDestroy(nullptr), sparclSuccess);
  EXPECT_EQ(sparclStateDestroy(nullptr), sparclSuccess);
  EXPECT_EQ(sparclCommUserRank(nullptr, nullptr), sparclInvalidArgument);
  EXPECT_STREQ(sparclGetLastError(nullptr), "sparclCommUserRank: comm is NULL");
  EXPECT_EQ(sparclBroadcastDelta(nullptr, nullptr, 0, sparclFloat32, 0, nullptr, nullptr, nullptr),
            sparclInvalidArgument);
  int version = 0;
  EXPECT_EQ(sparclGetVersion(&version), sparclSuccess);
  EXPECT_GT(version, 0);
  for (int code = 0; code < 40; ++code)
    EXPECT_STRNE(sparclGetErrorString(static_cast<sparclResult_t>(code)), "");
}

TEST(CommApi, ACallThatTakesNoPartLeavesItsTextUnderTheCommAndUnderNull) {
  ThreadRanks party(1);
  const sparclComm_t comm = party.comm(0);
  float value = 1;
  sparclRequest_t request = nullptr;
  ASSERT_EQ(
      sparclIBroadcastDelta(&value, nullptr, 1, sparclFloat32, 0, nullptr, comm, nullptr, &request),
      sparclSuccess);
  sparclReport_t unset{};
  std::size_t nnz = 0;
  const std::vector<std::pair<const char*, std::function<sparclResult_t()>>> calls{
      {"sparclIBroadcastDelta: request is NULL",
       [&] {
         return sparclIBroadcastDelta(&value, nullptr, 1, sparclFloat32, 0, nullptr, comm, nullptr,
                                      nullptr);
       }},
      {"sparclIBroadcastUpdate: request is NULL",
       [&] { return sparclIBroadcastUpdate(nullptr, 1, 0, nullptr, comm, nullptr, nullptr); }},
      {"sparclIBroadcastSparse: request is NULL",
       [&] {
         return sparclIBroadcastSparse(nullptr, nullptr, &nnz, 0, sparclFloat32, 0, nullptr, comm,
                                       nullptr, nullptr);
       }},
      {"sparclTest: done is NULL", [&] { return sparclTest(&request, nullptr, nullptr); }},
      {"sparclWait: report->size is 0: expected ", [&] { return sparclWait(&request, &unset); }},
      {"sparclCommCount: count is NULL", [&] { return sparclCommCount(comm, nullptr); }},
      {"sparclCommUserRank: rank is NULL", [&] { return sparclCommUserRank(comm, nullptr); }},
      {"sparclCommGetAsyncError: error is NULL",
       [&] { return sparclCommGetAsyncError(comm, nullptr); }},
      {"sparclCommGetFailedRank: rank is NULL",
       [&] { return sparclCommGetFailedRank(comm, nullptr); }},
      {"sparclCommLastReport: report is NULL", [&] { return sparclCommLastReport(comm, nullptr); }},
      {"report->size is 0: expected ", [&] { return sparclCommLastReport(comm, &unset); }},
  };
  for (const auto& [text, call] : calls) {
    EXPECT_EQ(call(), sparclInvalidArgument) << text;
    EXPECT_THAT(sparclGetLastError(comm), AllOf(StartsWith("rank 0: "), HasSubstr(text)));
    EXPECT_STREQ(sparclGetLastError(nullptr), sparclGetLastError(comm));
  }
  sparclResult_t error = sparclInternalError;
  EXPECT_EQ(sparclCommGetAsyncError(comm, &error), sparclSuccess);
  EXPECT_EQ(error, sparclSuccess);
  EXPECT_THAT(sparclGetLastError(comm), HasSubstr("report->size"))
      << "a look at the state must not lose the text";
  EXPECT_EQ(sparclWait(&request, nullptr), sparclSuccess);
  EXPECT_THAT(sparclGetLastError(comm), HasSubstr("report->size")) << "nor does a success";
}

TEST(StateApi, RefusesWhatCannotBeATensor) {
  sparclState_t state = nullptr;
  ASSERT_EQ(sparclStateCreate(&state), sparclSuccess);
  float data[4] = {};
  const std::uint64_t shape[] = {4}, huge[] = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
  EXPECT_EQ(sparclStateAdd(state, "x", data, sparclFloat32, 1, shape), sparclSuccess);
  EXPECT_EQ(sparclStateAdd(state, "x", data, sparclFloat32, 1, shape), sparclInvalidArgument);
  EXPECT_EQ(sparclStateAdd(state, "y", nullptr, sparclFloat32, 1, shape), sparclInvalidArgument);
  EXPECT_EQ(sparclStateAdd(state, "y", data, static_cast<sparclDataType_t>(50), 1, shape),
            sparclInvalidArgument);
  EXPECT_EQ(sparclStateAdd(state, "y", data, sparclFloat32, -1, shape), sparclInvalidArgument);
  EXPECT_EQ(sparclStateAdd(state, "y", data, sparclFloat32, 2, huge), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr),
              HasSubstr("sparclStateAdd: tensor 'y': the shape's product"));
  EXPECT_EQ(sparclStateAdd(state, "y", data, sparclFloat32, 1'000'000'000, shape),
            sparclInvalidArgument);
  EXPECT_STREQ(sparclGetLastError(nullptr),
               "sparclStateAdd: 'y': ndim is 1000000000: a tensor has at most 64 dimensions");
  for (const char* name : {"", "\xff", "\xc0\xaf", "cut \xe2\x82", "\xed\xa0\x80"}) {
    EXPECT_EQ(sparclStateAdd(state, name, data, sparclFloat32, 1, shape), sparclInvalidArgument)
        << name;
    EXPECT_THAT(sparclGetLastError(nullptr),
                HasSubstr(*name == '\0' ? "name is empty" : "is not valid UTF-8"));
  }
  float scalar = 0;
  const std::uint64_t tail[] = {1};
  EXPECT_EQ(sparclStateAdd(state, "scalar", &scalar, sparclFloat32, 0, nullptr), sparclSuccess);
  EXPECT_EQ(sparclStateAdd(state, "tied", data, sparclFloat32, 1, shape), sparclInvalidArgument);
  EXPECT_EQ(sparclStateAdd(state, "inside", data + 3, sparclFloat32, 1, tail),
            sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("shares memory with 'x'"));
  const std::uint64_t descending[] = {2, 1}, outside[] = {4};
  EXPECT_EQ(sparclStateMarkIndices(state, "x", descending, 2), sparclInvalidArgument);
  EXPECT_EQ(sparclStateMarkIndices(state, "x", outside, 1), sparclInvalidArgument);
  EXPECT_EQ(sparclStateMarkIndices(state, "x", outside, SIZE_MAX), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr),
              HasSubstr("sparclStateMarkIndices: nnz is 18446744073709551615: no array"));
  EXPECT_EQ(sparclStateMarkIndices(state, "z", outside, 1), sparclInvalidArgument);
  EXPECT_EQ(sparclStateMarkBlocks(state, "x", outside, 0), sparclInvalidArgument);
  std::uint8_t hash[16];
  EXPECT_EQ(sparclStateHash(state, hash), sparclSuccess);
  EXPECT_EQ(sparclStateAdd(state, "late", data, sparclFloat32, 1, shape), sparclInvalidUsage);
  EXPECT_EQ(sparclStateDestroy(state), sparclSuccess);
}

TEST(StateApi, SlicesAreTensorsOfTheirExtents) {
  sparclState_t state = nullptr;
  ASSERT_EQ(sparclStateCreate(&state), sparclSuccess);
  float fused[12] = {}, other[4] = {}, whole[4] = {};
  const std::uint64_t shape[] = {6, 4}, extent[] = {1, 4}, nothing[] = {0, 4}, beyond[] = {6, 1},
                      far[] = {~std::uint64_t{0}, 0};
  const auto add = [&](const char* name, void* data, const std::uint64_t(&begin)[2],
                       const std::uint64_t(&of)[2]) {
    return sparclStateAddSlice(state, name, data, sparclFloat32, 2, shape, begin, of);
  };
  EXPECT_EQ(add("qkv", fused, {0, 0}, extent), sparclSuccess);
  EXPECT_EQ(add("qkv", fused + 4, {2, 0}, extent), sparclSuccess);
  EXPECT_EQ(add("qkv", fused + 8, {4, 0}, extent), sparclSuccess);
  EXPECT_EQ(add("empty", nullptr, {6, 0}, nothing), sparclSuccess);
  EXPECT_EQ(add("qkv", other, {2, 0}, extent), sparclInvalidArgument);
  EXPECT_THAT(
      sparclGetLastError(nullptr),
      HasSubstr("sparclStateAddSlice: tensor 'qkv': the slice float32 [1, 4] at [2, 0] of"));
  EXPECT_EQ(add("qkv", fused, {1, 0}, extent), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("shares memory"));
  EXPECT_EQ(add("qkv", other, {0, 0}, shape), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("whole and as a slice"));
  EXPECT_EQ(sparclStateAdd(state, "qkv", other, sparclFloat32, 2, shape), sparclInvalidArgument);
  EXPECT_EQ(add("x", other, {0, 1}, extent), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr),
              HasSubstr("the slice of [1, 4] elements at [0, 1] does not lie inside [6, 4]"));
  EXPECT_EQ(add("x", other, {1, 0}, beyond), sparclInvalidArgument);
  EXPECT_EQ(add("x", other, {~std::uint64_t{0}, 0}, extent), sparclInvalidArgument);
  EXPECT_EQ(add("x", other, {1, 0}, far), sparclInvalidArgument);
  EXPECT_EQ(add("x", nullptr, {0, 0}, extent), sparclInvalidArgument);
  EXPECT_EQ(sparclStateAddSlice(state, "x", other, sparclFloat32, 2, shape, nullptr, extent),
            sparclInvalidArgument);
  EXPECT_EQ(sparclStateAddSlice(state, "x", other, sparclFloat32, 2, shape, extent, nullptr),
            sparclInvalidArgument);
  EXPECT_EQ(sparclStateAddSlice(nullptr, "x", other, sparclFloat32, 2, shape, extent, extent),
            sparclInvalidArgument);
  EXPECT_EQ(
      sparclStateAddSlice(state, "scalar", whole, sparclFloat32, 0, nullptr, nullptr, nullptr),
      sparclSuccess);

  const std::uint64_t marked[] = {3};
  EXPECT_EQ(sparclStateMarkIndices(state, "qkv", marked, 1), sparclInvalidUsage);
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("sparclStateMarkIndices: 'qkv' has 3 slices"));
  EXPECT_EQ(sparclStateMarkBlocks(state, "qkv", marked, 1), sparclInvalidUsage);
  EXPECT_EQ(add("one", other, {3, 0}, extent), sparclSuccess);
  EXPECT_EQ(sparclStateMarkIndices(state, "one", marked, 1), sparclSuccess);
  const std::uint64_t outside[] = {4};
  EXPECT_EQ(sparclStateMarkIndices(state, "one", outside, 1), sparclInvalidArgument);
  EXPECT_EQ(sparclStateSetTrainable(state, "qkv", 0), sparclSuccess);
  EXPECT_EQ(sparclStateSetPriority(state, "qkv", 3), sparclSuccess);
  std::uint8_t hash[16];
  EXPECT_EQ(sparclStateHash(state, hash), sparclSuccess);
  EXPECT_EQ(sparclStateDestroy(state), sparclSuccess);
}

// The slice that is all of a tensor is the tensor.
TEST(StateApi, AWholeSliceIsTheTensor) {
  float one[8] = {}, other[8] = {};
  const std::uint64_t shape[] = {2, 4}, begin[] = {0, 0}, half[] = {1, 4};
  std::uint8_t hashes[3][16];
  for (int i = 0; i < 3; ++i) {
    sparclState_t state = nullptr;
    ASSERT_EQ(sparclStateCreate(&state), sparclSuccess);
    const sparclResult_t added = i == 0 ? sparclStateAdd(state, "x", one, sparclFloat32, 2, shape)
                                        : sparclStateAddSlice(state, "x", other, sparclFloat32, 2,
                                                              shape, begin, i == 1 ? shape : half);
    EXPECT_EQ(added, sparclSuccess);
    EXPECT_EQ(sparclStateHash(state, hashes[i]), sparclSuccess);
    EXPECT_EQ(sparclStateDestroy(state), sparclSuccess);
  }
  EXPECT_EQ(std::memcmp(hashes[0], hashes[1], 16), 0);
  EXPECT_NE(std::memcmp(hashes[0], hashes[2], 16), 0);
}

// Nothing is touched of what there is: its bytes would be more than any address space has.
TEST(StateApi, WithoutMemoryThereIsATextAllTheSame) {
  if (kAllocatorAborts) GTEST_SKIP() << "this allocator aborts where memory is short";
  sparclState_t state = nullptr;
  ASSERT_EQ(sparclStateCreate(&state), sparclSuccess);
  std::int8_t data = 0;
  const std::uint64_t shape[] = {std::uint64_t{1} << 60}, bits[] = {1};
  ASSERT_EQ(sparclStateAdd(state, "x", &data, sparclInt8, 1, shape), sparclSuccess);
  EXPECT_EQ(sparclStateMarkBlocks(state, "nothing", bits, 1),
            sparclInvalidArgument);  // its text does not stay
  EXPECT_EQ(sparclStateMarkBlocks(state, "x", bits, 1), sparclOutOfMemory);
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("out of memory"));
  EXPECT_EQ(sparclStateDestroy(state), sparclSuccess);
}

TEST(CommApi, AStructOfAnotherSizeIsToldWithBothSizes) {
  ThreadRanks party(1);
  ASSERT_EQ(party.created(), sparclSuccess);
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  const std::string expected =
      "expected " + std::to_string(sizeof report) + ", to which its INITIALIZER macro sets it";
  report.size = 100'000;
  EXPECT_EQ(sparclCommLastReport(party.comm(0), &report), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("report->size is 100000: " + expected));
  sparclUniqueId id;
  if (sparclGetUniqueId(&id) != sparclSuccess) return;  // a build without UCX
  sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;
  config.size = 100'000;
  sparclComm_t comm = nullptr;
  EXPECT_EQ(sparclCommInitRank(&comm, 1, id, 0, &config), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr),
              HasSubstr("config.size is 100000: expected " + std::to_string(sizeof config)));
}

TEST(CommApi, ANumberOfRanksThatThereIsNotIsNamed) {
  sparclUniqueId id;
  if (sparclGetUniqueId(&id) != sparclSuccess) GTEST_SKIP() << "a build without UCX";
  sparclComm_t comm = nullptr;
  EXPECT_EQ(sparclCommInitRank(&comm, 0, id, 0, nullptr), sparclInvalidArgument);
  EXPECT_STREQ(sparclGetLastError(nullptr), "sparclCommInitRank: nranks is 0, must be at least 1");
  EXPECT_EQ(sparclCommInitRank(&comm, 2, id, 2, nullptr), sparclInvalidArgument);
  EXPECT_STREQ(sparclGetLastError(nullptr),
               "sparclCommInitRank: rank 2 of 2: ranks are 0 to nranks - 1");
}

TEST(CommApi, AConfigThatAsksForHeartbeatsTakesTheOtherSettingsOfThem) {
  setenv("SPARCL_HEARTBEAT", "off", 1);
  setenv("SPARCL_HEARTBEAT_MS", "40", 1);
  setenv("SPARCL_LIVENESS_S", "2", 1);
  sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;
  std::optional<net::HeartbeatOptions> options;
  EXPECT_EQ(sparclInternalHeartbeat(&config, &options), sparclSuccess);
  EXPECT_FALSE(options.has_value());
  config.heartbeat = sparclOn;
  EXPECT_EQ(sparclInternalHeartbeat(&config, &options), sparclSuccess);
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->period_s, 0.04);
  EXPECT_EQ(options->silence_s, 2);
  for (const char* name : {"SPARCL_HEARTBEAT", "SPARCL_HEARTBEAT_MS", "SPARCL_LIVENESS_S"})
    unsetenv(name);
}

}  // namespace
}  // namespace sparcl::test
