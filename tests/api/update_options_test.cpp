// sparclUpdateOptions_t: which changes reach the replicas, and that none is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sparcl/sparcl.h"
#include "tests/api/thread_ranks.hpp"

namespace sparcl {
namespace {

using test::ThreadRanks;
using testing::Each;
using testing::HasSubstr;

constexpr std::size_t kModelCount = 50'000;

struct SelectedModel {
  std::vector<float> body = std::vector<float>(kModelCount, 1.0f);
  std::vector<float> head = std::vector<float>(1000, 2.0f);
  sparclState_t state = nullptr;

  explicit SelectedModel(int head_priority = 0) {
    const std::uint64_t body_shape[] = {kModelCount};
    const std::uint64_t head_shape[] = {10, 100};
    EXPECT_EQ(sparclStateCreate(&state), sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state, "body", body.data(), sparclFloat32, 1, body_shape),
              sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state, "head", head.data(), sparclFloat32, 2, head_shape),
              sparclSuccess);
    EXPECT_EQ(sparclStateSetPriority(state, "head", head_priority), sparclSuccess);
  }
  ~SelectedModel() { EXPECT_EQ(sparclStateDestroy(state), sparclSuccess); }
  SelectedModel(const SelectedModel&) = delete;
  SelectedModel& operator=(const SelectedModel&) = delete;
};

// A root, two replicas, and one update that all of them hold.
class UpdateOptions : public testing::Test {
 protected:
  UpdateOptions() { EXPECT_THAT(update(1, nullptr), Each(sparclSuccess)); }

  std::vector<sparclResult_t> update(std::uint64_t version, const sparclUpdateOptions_t* options) {
    return party_.run([&](int rank, sparclComm_t comm) {
      return sparclBroadcastUpdate(models_[rank].state, version, 0, rank == 0 ? options : nullptr,
                                   comm, nullptr);
    });
  }
  sparclReport_t report() {
    sparclReport_t report = SPARCL_REPORT_INITIALIZER;
    EXPECT_EQ(sparclCommLastReport(party_.comm(1), &report), sparclSuccess);
    return report;
  }
  void expect_equal() {
    EXPECT_EQ(models_[1].body, models_[0].body);
    EXPECT_EQ(models_[2].head, models_[0].head);
  }

  ThreadRanks party_{3};
  SelectedModel models_[3];
};

TEST_F(UpdateOptions, WhatAThresholdLeavesOutComesLater) {
  models_[0].body[10] += 0.25f;
  models_[0].body[20] += 0.001f;
  sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  options.select = sparclSelectThreshold;
  options.threshold = 0.01;
  EXPECT_THAT(update(2, &options), Each(sparclSuccess));
  EXPECT_EQ(report().nnz_out, 1u);
  EXPECT_EQ(models_[1].body[10], 1.25f);
  EXPECT_EQ(models_[1].body[20], 1.0f);
  models_[0].body[20] += 0.02f;  // together with what was left out it is above the threshold
  EXPECT_THAT(update(3, &options), Each(sparclSuccess));
  expect_equal();
}

TEST_F(UpdateOptions, TopKSendsTheLargestOfAllTensors) {
  for (std::size_t i = 0; i < 100; ++i) models_[0].body[i] += 0.5f;
  models_[0].head[7] += 1.0f;
  sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  options.select = sparclSelectTopK;
  options.count = 3;
  EXPECT_THAT(update(2, &options), Each(sparclSuccess));
  EXPECT_EQ(models_[2].head[7], 3.0f);
  EXPECT_EQ(models_[1].body[1], 1.5f);
  EXPECT_EQ(models_[1].body[2], 1.0f);
  EXPECT_THAT(update(3, nullptr), Each(sparclSuccess));
  expect_equal();
}

TEST_F(UpdateOptions, GridSendsWhatShowsInBfloat16) {
  models_[0].body[1] += 1e-4f;
  models_[0].body[2] += 1e-2f;
  sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  options.select = sparclSelectGrid;
  options.grid = sparclBfloat16;
  EXPECT_THAT(update(2, &options), Each(sparclSuccess));
  EXPECT_EQ(models_[1].body[1], 1.0f);
  EXPECT_EQ(models_[1].body[2], models_[0].body[2]);
}

TEST_F(UpdateOptions, BytesBoundWhatAReplicaReceives) {
  for (std::size_t i = 0; i < kModelCount; i += 2)
    models_[0].body[i] += 1e-3f * static_cast<float>(i % 977);
  sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  options.select = sparclSelectBytes;
  options.bytes = 10'000;
  std::uint64_t version = 2;
  int updates = 0;
  for (std::uint64_t sent = 1; sent > 0 && updates < 100; ++updates, ++version) {
    EXPECT_THAT(update(version, &options), Each(sparclSuccess));
    EXPECT_LE(report().bytes_bound, 10'000u);
    sent = report().nnz_out;
  }
  EXPECT_GT(updates, 3);  // one is far too small for all of it
  EXPECT_LT(updates, 100);
  expect_equal();
}

TEST_F(UpdateOptions, MarksHoldOnWhereARuleLeftSomethingOut) {
  models_[0].body[5] += 0.001f;
  const std::uint64_t named[] = {5};
  EXPECT_EQ(sparclStateMarkIndices(models_[0].state, "body", named, 1), sparclSuccess);
  sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  options.select = sparclSelectThreshold;
  options.threshold = 0.01;
  EXPECT_THAT(update(2, &options), Each(sparclSuccess));
  const std::uint64_t other[] = {6};
  EXPECT_EQ(sparclStateMarkIndices(models_[0].state, "body", other, 1), sparclSuccess);
  EXPECT_THAT(update(3, nullptr), Each(sparclSuccess));
  expect_equal();
}

TEST_F(UpdateOptions, WhatDoesNotTrainIsNotSent) {
  EXPECT_EQ(sparclStateSetTrainable(models_[0].state, "body", 0), sparclSuccess);
  models_[0].body[5] = 7;
  models_[0].head[5] = 7;
  EXPECT_THAT(update(2, nullptr), Each(sparclSuccess));
  EXPECT_EQ(models_[1].body[5], 1.0f);
  EXPECT_EQ(models_[1].head[5], 7.0f);
  EXPECT_EQ(sparclStateSetTrainable(models_[0].state, "body", 1), sparclSuccess);
  EXPECT_THAT(update(3, nullptr), Each(sparclSuccess));
  expect_equal();
}

TEST_F(UpdateOptions, BadOptionsAreAnAgreedError) {
  sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  options.select = static_cast<sparclSelect_t>(17);
  EXPECT_THAT(update(2, &options), Each(sparclInvalidArgument));
  EXPECT_THAT(sparclGetLastError(party_.comm(1)),
              HasSubstr("options.select = 17 is no sparclSelect_t"));
  options.select = sparclSelectThreshold;
  options.threshold = std::nan("");
  EXPECT_THAT(update(2, &options), Each(sparclInvalidArgument));
  options.select = sparclSelectGrid;
  options.grid = sparclInt64;
  EXPECT_THAT(update(2, &options), Each(sparclInvalidArgument));
  options.select = sparclSelectBytes;
  options.bytes = 3;
  EXPECT_THAT(update(2, &options), Each(sparclInvalidArgument));
  EXPECT_THAT(sparclGetLastError(party_.comm(2)), HasSubstr("a budget of 3 bytes"));
  options.size = 2;
  EXPECT_THAT(update(2, &options), Each(sparclInvalidArgument));
  EXPECT_THAT(update(2, nullptr), Each(sparclSuccess));
}

// What a program passes that was compiled against another sparcl.h.
struct OtherOptions {
  sparclUpdateOptions_t known = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  std::uint64_t later[4] = {};  // fields of a newer one
};

TEST_F(UpdateOptions, AnOptionOfANewerHeaderIsRefusedAndNotIgnored) {
  OtherOptions newer;
  newer.known.size = sizeof newer;
  EXPECT_THAT(update(2, &newer.known), Each(sparclSuccess)) << "it sets none of them";
  newer.later[3] = 1;
  EXPECT_THAT(update(3, &newer.known), Each(sparclInvalidArgument));
  EXPECT_THAT(sparclGetLastError(party_.comm(1)),
              HasSubstr("options: the program was compiled against a newer sparcl.h"));
  newer.known.size = sizeof newer - sizeof newer.later[3];
  EXPECT_THAT(update(3, &newer.known), Each(sparclSuccess))
      << "what is behind the struct is no part of it";
}

TEST_F(UpdateOptions, SizesThatNoHeaderHasAreRefused) {
  sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  std::uint64_t version = 1;
  for (std::size_t size = sizeof(size_t); size <= sizeof options; ++size) {
    options.size = size;
    const bool is_whole = size % sizeof(std::uint64_t) == 0;
    EXPECT_THAT(update(++version, &options), Each(is_whole ? sparclSuccess : sparclInvalidArgument))
        << size;
    if (is_whole) continue;
    EXPECT_THAT(sparclGetLastError(party_.comm(2)),
                HasSubstr("no version of this struct ends there"));
  }
}

TEST(StatePriority, BringsTensorsForwardAndMustBeTheSameEverywhere) {
  ThreadRanks party(2);
  SelectedModel first(5), second(5), third;
  first.head[0] = 9;
  const auto run = [&](SelectedModel& replica, std::uint64_t version) {
    return party.run([&](int rank, sparclComm_t comm) {
      return sparclBroadcastUpdate(rank == 0 ? first.state : replica.state, version, 0, nullptr,
                                   comm, nullptr);
    });
  };
  EXPECT_THAT(run(second, 1), Each(sparclSuccess));
  EXPECT_EQ(second.head[0], 9.0f);
  EXPECT_THAT(run(third, 2), Each(sparclMismatch));
  EXPECT_EQ(sparclStateSetPriority(first.state, "body", 9), sparclInvalidUsage);
  EXPECT_EQ(sparclStateSetPriority(first.state, "tail", 9), sparclInvalidArgument);
  // What was named before the tensors were put in order still belongs to its tensor.
  SelectedModel root(1), replica(1);
  const std::uint64_t named[] = {3};
  EXPECT_EQ(sparclStateMarkIndices(root.state, "head", named, 1), sparclSuccess);
  for (std::uint64_t version = 1; version < 3; ++version) {
    root.head[3] += 1;
    root.body[3] += 1;
    EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
      return sparclBroadcastUpdate(rank == 0 ? root.state : replica.state, version, 0, nullptr,
                                   comm, nullptr);
    }),
                Each(sparclSuccess));
    EXPECT_EQ(replica.head, root.head);
    EXPECT_EQ(replica.body, root.body);
  }
}

}  // namespace
}  // namespace sparcl
