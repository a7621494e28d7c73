// Workers and an aggregator through the C interface, as threads of one process.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sparcl/sparcl.h"
#include "tests/api/elastic_party.hpp"
#include "tests/support/temp_folder.hpp"

namespace {

using namespace sparcl::test::party;
using sparcl::test::TempFolder;

TEST(ElasticApi, RoundsAreMeansByWeight) {
  Model model(kElasticElements, 1);
  const sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  const Root root(model, serve);
  ASSERT_EQ(root.result, sparclSuccess) << sparclGetLastError(nullptr);
  constexpr int kWorkers = 3, kRounds = 3;
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (int i = 0; i < kWorkers; ++i) trainers.push_back(std::make_unique<Trainer>(root.address));
  std::vector<float> expected(kElasticElements, 1);
  for (int round = 1; round <= kRounds; ++round) {
    for (int i = 0; i < kWorkers; ++i) {
      Trainer& own = *trainers[static_cast<std::size_t>(i)];
      EXPECT_EQ(own.next(), static_cast<std::uint64_t>(round));
      EXPECT_EQ(own.model.weights, expected);
    }
    for (int i = 0; i < kWorkers; ++i) {  // small integers: sums are exact
      Trainer& own = *trainers[static_cast<std::size_t>(i)];
      const auto step = static_cast<std::size_t>(7 + i);
      for (std::size_t e = 0; e < kElasticElements; e += step)
        own.model.weights[e] += static_cast<float>(4 * (i + round));
      SPARCL_OK(sparclWorkerContribute(own.worker, i == 0 ? 2 : 1));
    }
    for (int i = 0; i < kWorkers; ++i) {
      const auto step = static_cast<std::size_t>(7 + i);
      for (std::size_t e = 0; e < kElasticElements; e += step)
        expected[e] += static_cast<float>(4 * (i + round) * (i == 0 ? 2 : 1)) / 4;
    }
    const sparclRoundReport_t report = root.next();
    EXPECT_EQ(report.version, static_cast<std::uint64_t>(round + 1));
    EXPECT_EQ(report.listed, static_cast<std::uint64_t>(kWorkers));
    EXPECT_EQ(report.weight, 4);
    EXPECT_EQ(model.weights, expected);
  }
  SPARCL_OK(sparclWorkerFlush(trainers[0]->worker, 10));
  EXPECT_EQ(trainers[0]->stats().committed, static_cast<std::uint64_t>(kRounds));
}

TEST(ElasticApi, AWorkerThatLeavesIsNotAwaited) {
  Model model;
  const sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  const Root root(model, serve);
  Trainer stays(root.address), leaves(root.address);
  stays.next();
  leaves.next();
  stays.model.weights[5] = 3;
  SPARCL_OK(sparclWorkerContribute(stays.worker, 1));
  EXPECT_EQ(sparclAggregatorNext(root.aggregator, 0.3, nullptr), sparclTimeout);
  leaves.end();
  EXPECT_EQ(root.next().listed, 1U);
  EXPECT_EQ(model.weights[5], 3);
  stays.next();
}

TEST(ElasticApi, ALateContributionCountsInTheNextRound) {
  Model model;
  sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  serve.round = sparclRoundQuorum;
  serve.quorum = 1;
  serve.grace_min_s = serve.grace_max_s = 0.5;  // in which the late contribution of round 1 comes
  sparclAggregatorOptions_t how = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
  how.mean = sparclMeanNone;
  const Root root(model, serve, how);
  Trainer early(root.address), late(root.address);
  early.next();
  late.next();
  early.model.weights[0] = 1;
  SPARCL_OK(sparclWorkerContribute(early.worker, 1));
  EXPECT_EQ(root.next().listed, 1U);
  late.model.weights[0] = 2;
  SPARCL_OK(sparclWorkerContribute(late.worker, 1));
  EXPECT_EQ(early.next(), 2U);
  EXPECT_EQ(early.model.weights[0], 1);
  early.model.weights[0] = 11;
  SPARCL_OK(sparclWorkerContribute(early.worker, 1));
  const sparclRoundReport_t report = root.next();
  EXPECT_EQ(report.listed, 2U);
  EXPECT_EQ(report.late, 1U);
  EXPECT_EQ(model.weights[0], 1 + 2 + 10);
  SPARCL_OK(sparclWorkerFlush(late.worker, 10));
  EXPECT_EQ(late.stats().late, 1U);
}

TEST(ElasticApi, WhatIsRefusedCountsLater) {
  Model model;
  const sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  sparclAggregatorOptions_t how = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
  how.mean = sparclMeanOverWorkers;
  how.non_finite = sparclNonFiniteRefuse;
  const Root root(model, serve, how);
  Trainer own(root.address);
  own.next();
  own.model.weights[3] = 5;
  own.model.weights[4] = std::numeric_limits<float>::quiet_NaN();
  SPARCL_OK(sparclWorkerContribute(own.worker, 1));
  SPARCL_OK(sparclWorkerFlush(own.worker, 10));
  EXPECT_EQ(own.stats().refused, 1U);
  EXPECT_EQ(root.next().listed, 0U);  // nobody is awaited any more
  EXPECT_EQ(own.next(), 2U);
  SPARCL_OK(sparclWorkerContribute(own.worker, 1));  // the residual has what was finite
  EXPECT_EQ(root.next().listed, 1U);
  EXPECT_EQ(model.weights[3], 5);
  EXPECT_EQ(model.weights[4], 0);
}

TEST(ElasticApi, ZeroWeightsFailTheRoundAndTheWeightsStay) {
  Model model;
  const sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  const Root root(model, serve);
  Trainer own(root.address);
  own.next();
  own.model.weights[3] = 5;
  SPARCL_OK(sparclWorkerContribute(own.worker, 0));
  EXPECT_EQ(root.next().listed, 0U);
  EXPECT_EQ(own.next(), 2U);
  EXPECT_EQ(own.model.weights[3], 0);
  SPARCL_OK(sparclWorkerFlush(own.worker, 10));
  SPARCL_OK(sparclWorkerContribute(own.worker, 1));  // the residual has it
  EXPECT_EQ(root.next().listed, 1U);
  EXPECT_EQ(model.weights[3], 5);
}

// The next process goes on with the same state, and no contribution counts twice.
TEST(ElasticApi, AnotherProcessGoesOnFromTheFolder) {
  const TempFolder temporary;
  const std::string folder = temporary / "rounds";
  sparclAggregatorOptions_t how = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
  how.outer = sparclOuterNesterov;
  how.learning_rate = 0.5;
  how.momentum = 0.5;
  sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  serve.folder = folder.c_str();
  Model undisturbed_model, first_model, second_model;
  sparclServeOptions_t plain = SPARCL_SERVE_OPTIONS_INITIALIZER;
  const Root undisturbed(undisturbed_model, plain, how);
  Root first(first_model, serve, how);
  ASSERT_EQ(first.result, sparclSuccess) << sparclGetLastError(nullptr);
  serve.listen = first.address.c_str();
  const auto train = [](Trainer& own, int round) {
    for (std::size_t e = 0; e < kElasticElements; e += 11)
      own.model.weights[e] += static_cast<float>(round);
    ASSERT_EQ(sparclWorkerContribute(own.worker, 1), sparclSuccess) << sparclGetLastError(nullptr);
  };
  Trainer reference(undisturbed.address), own(first.address);
  for (int round = 1; round <= 4; ++round) {
    reference.next();
    train(reference, round);
    undisturbed.next();
  }
  own.next();
  train(own, 1);
  first.next();
  own.next();
  train(own, 2);
  first.next();
  const std::vector<float> between = first_model.weights;
  own.next();
  first.end();
  train(own, 3);  // nobody is there
  const std::string address = serve.listen;
  serve.listen = address.c_str();
  const Root second(second_model, serve, how);
  ASSERT_EQ(second.result, sparclSuccess) << sparclGetLastError(nullptr);
  EXPECT_EQ(second_model.weights, between);
  EXPECT_EQ(second.next().version, 4U);
  EXPECT_EQ(own.next(), 4U);
  train(own, 4);
  second.next();
  EXPECT_EQ(second_model.weights, undisturbed_model.weights);
  SPARCL_OK(sparclWorkerFlush(own.worker, 10));
  EXPECT_EQ(own.stats().committed, 4U);
}

TEST(ElasticApi, AnAggregatorThatWasReplacedEnds) {
  const TempFolder temporary;
  const std::string folder = temporary / "rounds";
  sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  serve.folder = folder.c_str();
  Model old_model, new_model;
  const Root old_root(old_model, serve);
  Trainer own(old_root.address);
  own.next();  // before the old publisher can notice that it was replaced
  const Root new_root(new_model, serve);
  ASSERT_EQ(new_root.result, sparclSuccess) << sparclGetLastError(nullptr);
  own.model.weights[0] = 1;
  SPARCL_OK(sparclWorkerContribute(own.worker, 1));
  EXPECT_EQ(sparclAggregatorNext(old_root.aggregator, 10, nullptr), sparclInvalidUsage);
  EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("taken over"), std::string::npos);
}

// Nobody is taken over from by a process that cannot serve.
TEST(ElasticApi, AStartThatFailsHarmsNoOther) {
  const TempFolder temporary;
  const std::string folder = temporary / "rounds";
  sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  serve.folder = folder.c_str();
  Model model, other_model(kElasticElements, 7);
  const Root root(model, serve);
  Trainer own(root.address);
  sparclAggregatorOptions_t other = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
  other.learning_rate = 0.5;
  other.outer = sparclOuterSgd;
  EXPECT_EQ(Root(other_model, serve, other).result, sparclMismatch);
  serve.listen = root.address.c_str();  // taken
  EXPECT_EQ(Root(other_model, serve).result, sparclSystemError);
  EXPECT_EQ(other_model.weights[0], 7);
  own.next();
  own.model.weights[0] = 1;
  SPARCL_OK(sparclWorkerContribute(own.worker, 1));
  EXPECT_EQ(root.next().listed, 1U);
}

TEST(ElasticApi, WorkersFollowAnAggregatorThatHasLostItsRounds) {
  Model first_model, second_model(kElasticElements, 9);
  sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  auto first = std::make_unique<Root>(first_model, serve);
  const std::string address = first->address;
  Trainer own(address);
  for (int round = 0; round < 3; ++round) {
    own.next();
    own.model.weights[0] += 1;
    SPARCL_OK(sparclWorkerContribute(own.worker, 1));
    first->next();
  }
  EXPECT_EQ(own.next(), 4U);
  first.reset();
  serve.listen = address.c_str();
  const Root second(second_model, serve);
  ASSERT_EQ(second.result, sparclSuccess) << sparclGetLastError(nullptr);
  EXPECT_EQ(own.next(), 1U);
  EXPECT_EQ(own.model.weights[0], 9);
  own.model.weights[0] = 10;
  SPARCL_OK(sparclWorkerContribute(own.worker, 1));
  EXPECT_EQ(second.next().listed, 1U);
  EXPECT_EQ(second_model.weights[0], 10);
}

TEST(ElasticApi, SmallFloatsAreSummedInFloat32) {
  constexpr std::uint64_t kShape = 1000;
  std::vector<std::uint16_t> served(kShape, 0x4380), trained(kShape);  // 256 in bfloat16
  sparclState_t state = nullptr, own = nullptr;
  SPARCL_OK(sparclStateCreate(&state));
  SPARCL_OK(sparclStateAdd(state, "w", served.data(), sparclBfloat16, 1, &kShape));
  SPARCL_OK(sparclStateCreate(&own));
  SPARCL_OK(sparclStateAdd(own, "w", trained.data(), sparclBfloat16, 1, &kShape));
  sparclAggregator_t aggregator = nullptr;
  sparclAggregatorOptions_t how = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
  how.outer = sparclOuterSgd;
  how.learning_rate = 0.25;  // 0.5 a round: a quarter of a step of bfloat16
  SPARCL_OK(sparclAggregatorCreate(&aggregator, kShape, &how));
  SPARCL_OK(sparclAggregatorServe(aggregator, state, nullptr));
  char address[128];
  SPARCL_OK(sparclAggregatorAddress(aggregator, address, nullptr, sizeof address));
  sparclWorker_t worker = nullptr;
  SPARCL_OK(sparclWorkerCreate(&worker, own, address, nullptr));
  for (int round = 0; round < 4; ++round) {
    SPARCL_OK(sparclWorkerNext(worker, 30, nullptr));
    trained[7] += 1;  // 2 more
    SPARCL_OK(sparclWorkerContribute(worker, 1));
    SPARCL_OK(sparclAggregatorNext(aggregator, 30, nullptr));
  }
  EXPECT_EQ(served[7], 0x4381);
  SPARCL_OK(sparclWorkerDestroy(worker));
  SPARCL_OK(sparclAggregatorDestroy(aggregator));
  SPARCL_OK(sparclStateDestroy(state));
  SPARCL_OK(sparclStateDestroy(own));
}

TEST(ElasticApi, WrongArgumentsAreRefusedByName) {
  Model model;
  sparclAggregator_t aggregator = nullptr;
  SPARCL_OK(sparclAggregatorCreate(&aggregator, kElasticElements + 1, nullptr));
  EXPECT_EQ(sparclAggregatorServe(aggregator, model.state, nullptr), sparclInvalidArgument);
  EXPECT_EQ(sparclAggregatorNext(aggregator, 0, nullptr), sparclInvalidUsage);
  sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  serve.listen = "0.0.0.0:0";
  EXPECT_EQ(sparclAggregatorServe(aggregator, model.state, &serve), sparclInvalidArgument);
  EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("secret"), std::string::npos);
  SPARCL_OK(sparclAggregatorDestroy(aggregator));
  sparclWorker_t worker = nullptr;
  EXPECT_EQ(sparclWorkerCreate(&worker, model.state, "nowhere", nullptr), sparclInvalidArgument);
  SPARCL_OK(sparclWorkerCreate(&worker, model.state, "127.0.0.1:1", nullptr));
  EXPECT_EQ(sparclWorkerContribute(worker, 1), sparclInvalidUsage);
  EXPECT_EQ(sparclWorkerNext(worker, 0.5, nullptr), sparclRemoteError);
  SPARCL_OK(sparclWorkerDestroy(worker));
}

TEST(ElasticApi, AWorkerOfAnotherModelIsTold) {
  Model model;
  const sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  const Root root(model, serve);
  Model other(kElasticElements / 2);
  sparclWorker_t worker = nullptr;
  SPARCL_OK(sparclWorkerCreate(&worker, other.state, root.address.c_str(), nullptr));
  EXPECT_EQ(sparclWorkerNext(worker, 1, nullptr), sparclMismatch);
  SPARCL_OK(sparclWorkerDestroy(worker));
}

}  // namespace
