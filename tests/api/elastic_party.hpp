#pragma once
// Models, aggregators and workers of one process, through the C interface.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl::test::party {

constexpr std::size_t kElasticElements = 200'000;  // several blocks

#define SPARCL_OK(...) ASSERT_EQ(__VA_ARGS__, sparclSuccess) << sparclGetLastError(nullptr)

// A model of one tensor.
struct Model {
  explicit Model(std::size_t elements = kElasticElements, float value = 0)
      : weights(elements, value) {
    const std::uint64_t shape = elements;
    EXPECT_EQ(sparclStateCreate(&state), sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state, "w", weights.data(), sparclFloat32, 1, &shape), sparclSuccess);
  }
  ~Model() { EXPECT_EQ(sparclStateDestroy(state), sparclSuccess) << sparclGetLastError(nullptr); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  std::vector<float> weights;
  sparclState_t state = nullptr;
};

// An aggregator that serves.
struct Root {
  Root(Model& served, const sparclServeOptions_t& options,
       const sparclAggregatorOptions_t& how = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER) {
    EXPECT_EQ(sparclAggregatorCreate(&aggregator, served.weights.size(), &how), sparclSuccess);
    result = sparclAggregatorServe(aggregator, served.state, &options);
    if (result != sparclSuccess) return;
    char text[256];
    EXPECT_EQ(sparclAggregatorAddress(aggregator, text, nullptr, sizeof text), sparclSuccess);
    address = text;
  }
  ~Root() { end(); }
  void end() {
    EXPECT_EQ(sparclAggregatorDestroy(aggregator), sparclSuccess) << sparclGetLastError(nullptr);
    aggregator = nullptr;
  }
  sparclRoundReport_t next(double seconds = 30) const {
    sparclRoundReport_t report = SPARCL_ROUND_REPORT_INITIALIZER;
    EXPECT_EQ(sparclAggregatorNext(aggregator, seconds, &report), sparclSuccess)
        << sparclGetLastError(nullptr);
    return report;
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  sparclAggregator_t aggregator = nullptr;
  sparclResult_t result = sparclSuccess;
  std::string address;
};

struct Trainer {
  explicit Trainer(const std::string& address,
                   const sparclWorkerOptions_t& options = SPARCL_WORKER_OPTIONS_INITIALIZER) {
    EXPECT_EQ(sparclWorkerCreate(&worker, model.state, address.c_str(), &options), sparclSuccess)
        << sparclGetLastError(nullptr);
  }
  ~Trainer() { end(); }
  void end() {
    EXPECT_EQ(sparclWorkerDestroy(worker), sparclSuccess);
    worker = nullptr;
  }
  std::uint64_t next(double seconds = 30) {
    std::uint64_t version = 0;
    EXPECT_EQ(sparclWorkerNext(worker, seconds, &version), sparclSuccess)
        << sparclGetLastError(nullptr);
    return version;
  }
  sparclWorkerStats_t stats() const {
    sparclWorkerStats_t stats = SPARCL_WORKER_STATS_INITIALIZER;
    EXPECT_EQ(sparclWorkerStats(worker, &stats), sparclSuccess);
    return stats;
  }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  Model model;
  sparclWorker_t worker = nullptr;
};

}  // namespace sparcl::test::party
