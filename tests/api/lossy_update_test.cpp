// Updates whose values are codes of 8 bits: all replicas hold the same bits, and what was left out
// is not lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "tests/api/thread_ranks.hpp"

namespace sparcl {
namespace {

using test::ThreadRanks;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr int kRanks = 4;
constexpr std::size_t kCount = 100'000;

struct LossyModel {
  std::vector<float> body = std::vector<float>(kCount, 1.0f);
  std::vector<std::uint16_t> head = std::vector<std::uint16_t>(3000, 0x3f80);  // bfloat16
  std::vector<std::int64_t> steps = std::vector<std::int64_t>(10, 5);
  sparclState_t state = nullptr;

  LossyModel() {
    const std::uint64_t shapes[] = {body.size(), head.size(), steps.size()};
    EXPECT_EQ(sparclStateCreate(&state), sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state, "body", body.data(), sparclFloat32, 1, &shapes[0]),
              sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state, "head", head.data(), sparclBfloat16, 1, &shapes[1]),
              sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state, "steps", steps.data(), sparclInt64, 1, &shapes[2]),
              sparclSuccess);
  }
  ~LossyModel() { EXPECT_EQ(sparclStateDestroy(state), sparclSuccess); }
  LossyModel(const LossyModel&) = delete;
  LossyModel& operator=(const LossyModel&) = delete;

  bool operator==(const LossyModel& other) const {
    return std::memcmp(body.data(), other.body.data(), kCount * sizeof(float)) == 0 &&
           head == other.head && steps == other.steps;
  }
  Hash hash() const {
    Hash hash{};
    EXPECT_EQ(sparclStateHash(state, hash.data()), sparclSuccess);
    return hash;
  }
};

class LossyUpdate : public testing::Test {
 protected:
  LossyUpdate() {
    options_.values = sparclValuesInt8;
    EXPECT_THAT(update(&options_), Each(sparclSuccess));
    EXPECT_TRUE(models_[3] == models_[0]) << "the first update sends all, exactly";
  }

  std::vector<sparclResult_t> update(const sparclUpdateOptions_t* options) {
    ++version_;
    return party_.run([&](int rank, sparclComm_t comm) {
      return sparclBroadcastUpdate(models_[rank].state, version_, 0, rank == 0 ? options : nullptr,
                                   comm, nullptr);
    });
  }
  sparclReport_t report(int rank) {
    sparclReport_t report = SPARCL_REPORT_INITIALIZER;
    EXPECT_EQ(sparclCommLastReport(party_.comm(rank), &report), sparclSuccess);
    return report;
  }
  void train(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0, 0.001f);
    for (std::size_t i = 0; i < kCount; i += 1 + random() % 20)
      models_[0].body[i] += normal(random);
    for (std::size_t i = 0; i < 3000; i += 1 + random() % 20) models_[0].head[i] += 1;
    models_[0].steps[3] += 1;
  }
  void expect_replicas_equal() {
    for (int rank = 2; rank < kRanks; ++rank) {
      EXPECT_TRUE(models_[rank] == models_[1]) << rank;
      EXPECT_EQ(models_[rank].hash(), models_[1].hash());
    }
    EXPECT_EQ(models_[1].steps, models_[0].steps) << "integers are exact";
  }
  double distance() const {
    double squares = 0;
    for (std::size_t i = 0; i < kCount; ++i)
      squares += std::pow(double{models_[0].body[i]} - double{models_[1].body[i]}, 2);
    return std::sqrt(squares);
  }

  ThreadRanks party_{kRanks};
  LossyModel models_[kRanks];
  sparclUpdateOptions_t options_ = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  std::uint64_t version_ = 0;
};

TEST_F(LossyUpdate, LeavesAllReplicasWithTheSameBits) {
  for (const sparclValues_t values : {sparclValuesInt8, sparclValuesFloat8}) {
    for (const sparclRounding_t rounding : {sparclRoundNearest, sparclRoundStochastic}) {
      options_.values = values;
      options_.rounding = rounding;
      options_.seed = 7;
      train(static_cast<std::uint64_t>(10 * values + rounding));
      EXPECT_THAT(update(&options_), Each(sparclSuccess));
      expect_replicas_equal();
      EXPECT_FALSE(models_[1] == models_[0]);
      EXPECT_LT(distance(), 0.02) << "of changes whose norm is 0.1";
      EXPECT_NEAR(report(0).dropped_l2, distance(), 1e-9);
      EXPECT_EQ(report(1).dropped_l2, 0);
    }
  }
  EXPECT_THAT(update(nullptr), Each(sparclSuccess));  // exact: the rest comes
  expect_replicas_equal();
  EXPECT_TRUE(models_[1] == models_[0]);
}

TEST_F(LossyUpdate, IsSmallerThanAnExactOne) {
  train(1);
  EXPECT_THAT(update(nullptr), Each(sparclSuccess));
  const std::uint64_t exact = report(1).bytes_bound;
  train(2);
  EXPECT_THAT(update(&options_), Each(sparclSuccess));
  EXPECT_LT(3 * report(1).bytes_bound, 2 * exact);
}

TEST_F(LossyUpdate, SentAgainReachesTheRoot) {
  train(3);
  std::uint64_t sent = 1;
  for (int turn = 0; turn < 20 && sent > 0; ++turn) {
    EXPECT_THAT(update(&options_), Each(sparclSuccess));
    sent = report(1).nnz_out;
  }
  EXPECT_EQ(sent, 0u);
  EXPECT_TRUE(models_[3] == models_[0]);
}

TEST_F(LossyUpdate, IsAdoptedByTheRootThatWantsIt) {
  train(4);
  options_.adopt = sparclOn;
  const std::vector<float> trained = models_[0].body;
  EXPECT_THAT(update(&options_), Each(sparclSuccess));
  expect_replicas_equal();
  EXPECT_TRUE(models_[1] == models_[0]);
  EXPECT_NE(trained, models_[0].body);
  EXPECT_EQ(models_[0].hash(), models_[3].hash());
  EXPECT_THAT(update(nullptr), Each(sparclSuccess));
  EXPECT_EQ(report(1).nnz_out, 0u) << "nothing is left";
}

TEST_F(LossyUpdate, FitsABudget) {
  train(5);
  options_.select = sparclSelectBytes;
  options_.bytes = 3000;
  options_.rounding = sparclRoundStochastic;
  EXPECT_THAT(update(&options_), Each(sparclSuccess));
  EXPECT_LE(report(2).bytes_bound, 3000u);
  EXPECT_GT(report(2).bytes_bound, 2800u);
  expect_replicas_equal();
}

TEST_F(LossyUpdate, KeepsMarks) {
  models_[0].body[5] += 1.0f;
  models_[0].body[6] += 0.001f;
  const std::uint64_t named[] = {5, 6};
  EXPECT_EQ(sparclStateMarkIndices(models_[0].state, "body", named, 2), sparclSuccess);
  for (int turn = 0; turn < 5; ++turn) EXPECT_THAT(update(&options_), Each(sparclSuccess));
  EXPECT_EQ(models_[1].body, models_[0].body);
}

TEST_F(LossyUpdate, SaysWhatItCannotDo) {
  options_.values = static_cast<sparclValues_t>(3);
  EXPECT_THAT(update(&options_), Each(sparclInvalidArgument));
  EXPECT_THAT(sparclGetLastError(party_.comm(1)),
              HasSubstr("options.values = 3 is no sparclValues_t"));
  options_.values = sparclValuesInt8;
  options_.rounding = static_cast<sparclRounding_t>(2);
  EXPECT_THAT(update(&options_), Each(sparclInvalidArgument));
  EXPECT_THAT(sparclGetLastError(party_.comm(2)),
              HasSubstr("options.rounding = 2 is no sparclRounding_t"));
  options_.rounding = sparclRoundNearest;
  std::int32_t counts[kRanks][4] = {};
  sparclState_t states[kRanks];
  const std::uint64_t shape = 4;
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(sparclStateCreate(&states[rank]), sparclSuccess);
    EXPECT_EQ(sparclStateAdd(states[rank], "counts", counts[rank], sparclInt32, 1, &shape),
              sparclSuccess);
  }
  EXPECT_THAT(party_.run([&](int rank, sparclComm_t comm) {
    return sparclBroadcastUpdate(states[rank], 1, 0, &options_, comm, nullptr);
  }),
              Each(sparclInvalidArgument));
  EXPECT_THAT(sparclGetLastError(party_.comm(3)),
              AllOf(HasSubstr("options.values"), HasSubstr("ask for exact values")));
  for (const sparclState_t state : states) EXPECT_EQ(sparclStateDestroy(state), sparclSuccess);
}

// One who was compiled against the struct that ended with `grid` has anything in the four bytes
// behind it.
TEST_F(LossyUpdate, OptionsOfAnOlderHeaderAreExact) {
  options_.size = offsetof(sparclUpdateOptions_t, seed);
  std::memset(reinterpret_cast<char*>(&options_) + offsetof(sparclUpdateOptions_t, grid) +
                  sizeof options_.grid,
              0xee, sizeof options_ - offsetof(sparclUpdateOptions_t, grid) - sizeof options_.grid);
  train(6);
  EXPECT_THAT(update(&options_), Each(sparclSuccess));
  EXPECT_TRUE(models_[1] == models_[0]);
}

TEST_F(LossyUpdate, HasANonBlockingTwin) {
  train(8);
  const std::vector<sparclResult_t> results = party_.run([&](int rank, sparclComm_t comm) {
    sparclRequest_t request = nullptr;
    const sparclResult_t started = sparclIBroadcastUpdate(
        models_[rank].state, 9, 0, rank == 0 ? &options_ : nullptr, comm, nullptr, &request);
    return started == sparclSuccess ? sparclWait(&request, nullptr) : started;
  });
  EXPECT_THAT(results, Each(sparclSuccess));
  expect_replicas_equal();
  EXPECT_FALSE(models_[1] == models_[0]);
  EXPECT_EQ(
      sparclIBroadcastUpdate(models_[0].state, 10, 0, nullptr, party_.comm(0), nullptr, nullptr),
      sparclInvalidArgument);
  options_.values = static_cast<sparclValues_t>(9);
  EXPECT_THAT(party_.run([&](int rank, sparclComm_t comm) {
    sparclRequest_t request = nullptr;
    const sparclResult_t started =
        sparclIBroadcastUpdate(models_[rank].state, 10, 0, &options_, comm, nullptr, &request);
    return started == sparclSuccess ? sparclWait(&request, nullptr) : started;
  }),
              Each(sparclInvalidArgument));
}

TEST(LossyUpdateInCpp, IsStartedWithOptions) {
  std::vector<Comm> comms = Comm::local(2);
  std::vector<float> weights[2] = {std::vector<float>(100, 1.0f), std::vector<float>(100, 0.0f)};
  State states[2];
  for (int rank = 0; rank < 2; ++rank) states[rank].add("weights", std::span(weights[rank]), {100});
  sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  options.values = sparclValuesFloat8;
  options.adopt = sparclOn;
  for (std::uint64_t version = 1; version < 3; ++version) {
    weights[0][3] += 0.1f;
    weights[0][4] += 0.07f;
    Request first = comms[0].start_broadcast_update(states[0], version, 0, options);
    Request second = comms[1].start_broadcast_update(states[1], version, 0);
    for (bool done = false; !done;) {  // each moves on in its own call only
      const bool first_done = first.test();
      done = second.test() && first_done;
    }
    EXPECT_EQ(weights[0], weights[1]);
  }
  EXPECT_EQ(states[0].hash(), states[1].hash());
}

}  // namespace
}  // namespace sparcl
