// Aggregation as users reach it: the C interface of the shared library, ranks as threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sparcl/sparcl.h"
#include "src/base/seeded_random.hpp"
#include "tests/api/thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::size_t kAggregated = 200'000;  // elements: four shards at most

struct SparseVector {
  std::vector<std::uint64_t> indices;
  std::vector<float> values;

  bool operator==(const SparseVector& other) const {
    return indices == other.indices && values.size() == other.values.size() &&
           std::equal(values.begin(), values.end(), other.values.begin(), [](float a, float b) {
             return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
           });
  }
};

SparseVector random_update(SeededRandom& random, std::size_t entries) {
  std::set<std::uint64_t> indices;
  while (indices.size() < entries)  // half of them at elements that other ranks have, too
    indices.insert(random.chance(0.5) ? random.below(5'000) * 40 : random.below(kAggregated));
  SparseVector update{{indices.begin(), indices.end()}, {}};
  for (std::size_t i = 0; i < entries; ++i)
    update.values.push_back(
        static_cast<float>(std::ldexp(random.unit() - 0.5, static_cast<int>(random.below(12)))));
  return update;
}

float weight_of(int rank) { return 0.5F + static_cast<float>(rank); }

// The definition, dense, an element at a time.
class DenseReference {
 public:
  explicit DenseReference(const sparclAggregatorOptions_t& options)
      : options_(options), moments_(kAggregated), residual_(kAggregated) {}

  SparseVector round(const std::vector<SparseVector>& updates) {
    const int ranks = static_cast<int>(updates.size());
    std::vector<std::map<int, float>> given(kAggregated);
    double total = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const SparseVector& own = updates[static_cast<std::size_t>(rank)];
      total += weight_of(rank);
      for (std::size_t i = 0; i < own.indices.size(); ++i)
        given[own.indices[i]][rank] = own.values[i] * weight_of(rank);
    }
    std::vector<float> result(kAggregated);
    std::set<std::uint64_t> touched;
    for (std::uint64_t i = 0; i < kAggregated; ++i) {
      if (!given[i].empty()) touched.insert(i);
      result[i] = given[i].empty() ? 0 : mean(given[i], total, ranks);
      if (options_.outer == sparclOuterNesterov) {
        moments_[i] = static_cast<float>(options_.momentum * moments_[i] + result[i]);
        result[i] = static_cast<float>(options_.learning_rate *
                                       (double{result[i]} + options_.momentum * moments_[i]));
      }
    }
    return options_.keep > 0 ? cut(result) : all_of(result, touched);
  }

 private:
  static float tree(const std::map<int, float>& values, int first, int ranks, bool& is_there) {
    const auto begin = values.lower_bound(first);
    is_there = begin != values.end() && begin->first < first + ranks;
    if (!is_there) return 0;
    if (ranks == 1) return begin->second;
    bool left = false, right = false;
    const float a = tree(values, first, ranks / 2, left),
                b = tree(values, first + ranks / 2, ranks / 2, right);
    return left && right ? a + b : left ? a : b;
  }

  float mean(const std::map<int, float>& values, double total, int ranks) const {
    bool is_there = false;
    const float sum = tree(values, 0, 8, is_there);
    float contributors = 0;
    std::map<int, float> weights;
    for (const auto& [rank, value] : values) weights[rank] = weight_of(rank);
    contributors = tree(weights, 0, 8, is_there);
    const double divisor = options_.mean == sparclMeanByWeight           ? total
                           : options_.mean == sparclMeanOverWorkers      ? ranks
                           : options_.mean == sparclMeanOverContributors ? contributors
                                                                         : 1;
    return static_cast<float>(sum / divisor);
  }

  SparseVector all_of(const std::vector<float>& result,
                      const std::set<std::uint64_t>& touched) const {
    SparseVector all;
    for (std::uint64_t i = 0; i < kAggregated; ++i) {
      if (options_.outer == sparclOuterNone ? !touched.contains(i) : result[i] == 0) continue;
      all.indices.push_back(i);
      all.values.push_back(result[i]);
    }
    return all;
  }

  SparseVector cut(const std::vector<float>& result) {
    std::vector<std::uint64_t> order;
    for (std::uint64_t i = 0; i < kAggregated; ++i) {
      residual_[i] += result[i];
      if (residual_[i] != 0) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::uint64_t a, std::uint64_t b) {
      return std::abs(residual_[a]) > std::abs(residual_[b]);
    });
    order.resize(std::min(order.size(), options_.keep));
    std::sort(order.begin(), order.end());
    SparseVector kept{order, {}};
    for (const std::uint64_t i : order) kept.values.push_back(std::exchange(residual_[i], 0.0F));
    return kept;
  }

  sparclAggregatorOptions_t options_;
  std::vector<float> moments_, residual_;
};

class Aggregators {
 public:
  Aggregators(ThreadRanks& party, int ranks, const sparclAggregatorOptions_t* options)
      : party_(party), handles_(static_cast<std::size_t>(ranks)) {
    for (sparclAggregator_t& each : handles_)
      EXPECT_EQ(sparclAggregatorCreate(&each, kAggregated, options), sparclSuccess)
          << sparclGetLastError(nullptr);
  }
  ~Aggregators() {
    for (const sparclAggregator_t each : handles_) (void)sparclAggregatorDestroy(each);
  }

  // The same for all ranks.
  std::vector<sparclResult_t> call(const std::vector<SparseVector>& updates,
                                   std::vector<SparseVector>& results,
                                   std::size_t capacity = kAggregated) {
    results.assign(handles_.size(), {});
    return party_.run([&](int rank, sparclComm_t comm) {
      const auto at = static_cast<std::size_t>(rank);
      SparseVector& result = results[at];
      result.indices.resize(capacity);
      result.values.resize(capacity);
      sparclAggregateOptions_t options = SPARCL_AGGREGATE_OPTIONS_INITIALIZER;
      options.aggregator = handles_[at];
      options.ranks = owners.empty() ? nullptr : owners.data();
      options.rank_count = owners.size();
      std::size_t nnz = 0;
      const sparclResult_t called = sparclAggregate(
          updates[at].values.data(), updates[at].indices.data(), updates[at].indices.size(),
          kAggregated, static_cast<double>(weight_of(rank)), result.values.data(),
          result.indices.data(), &nnz, capacity, sparclFloat32, &options, comm, nullptr);
      result.indices.resize(std::min(nnz, capacity));
      result.values.resize(std::min(nnz, capacity));
      return called;
    });
  }

  sparclAggregator_t& operator[](int rank) { return handles_[static_cast<std::size_t>(rank)]; }
  sparclAggregatorStats_t stats(int rank) {
    sparclAggregatorStats_t stats = SPARCL_AGGREGATOR_STATS_INITIALIZER;
    EXPECT_EQ(sparclAggregatorStats((*this)[rank], &stats), sparclSuccess);
    return stats;
  }

  std::vector<int> owners;  // ranks that aggregate; none: all

 private:
  ThreadRanks& party_;
  std::vector<sparclAggregator_t> handles_;
};

std::vector<SparseVector> random_updates(SeededRandom& random, int ranks) {
  std::vector<SparseVector> updates;
  for (int rank = 0; rank < ranks; ++rank)
    updates.push_back(random_update(random, random.chance(0.1) ? 0 : 1 + random.below(2'000)));
  return updates;
}

sparclAggregatorOptions_t aggregator_options() { return SPARCL_AGGREGATOR_OPTIONS_INITIALIZER; }

TEST(AggregateApi, IsTheDefinitionBitForBit) {
  std::vector<sparclAggregatorOptions_t> rows;
  for (const sparclMean_t mean :
       {sparclMeanByWeight, sparclMeanOverWorkers, sparclMeanOverContributors, sparclMeanNone}) {
    rows.push_back(aggregator_options());
    rows.back().mean = mean;
  }
  rows.push_back(aggregator_options());
  rows.back().keep = 700;
  rows.push_back(rows.back());
  rows.back().outer = sparclOuterNesterov;
  rows.back().momentum = 0.9;
  rows.back().learning_rate = 0.7;
  rows.push_back(rows.back());
  rows.back().keep = 0;
  SeededRandom random(11);
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    ThreadRanks party(ranks);
    ASSERT_EQ(party.created(), sparclSuccess);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      Aggregators aggregators(party, ranks, &rows[row]);
      for (int rank = 0; rank < ranks; ++rank) {
        if (random.chance(0.4)) aggregators.owners.push_back(rank);
      }
      DenseReference reference(rows[row]);
      for (int round = 0; round < 3; ++round) {
        const std::vector<SparseVector> updates = random_updates(random, ranks);
        std::vector<SparseVector> results;
        ASSERT_THAT(aggregators.call(updates, results), Each(sparclSuccess))
            << sparclGetLastError(party.comm(0));
        const SparseVector expected = reference.round(updates);
        for (int rank = 0; rank < ranks; ++rank)
          ASSERT_TRUE(results[static_cast<std::size_t>(rank)] == expected)
              << ranks << " ranks, row " << row << ", round " << round << ", rank " << rank;
      }
    }
  }
}

// Nothing to aggregate, elements without entries, duplicates, and values of 16 bits.
TEST(AggregateApi, SmallAndOddInputs) {
  ThreadRanks party(3);
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kAggregated}) {
    std::vector<std::size_t> nnz(3, 9);
    EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
      return sparclAggregate(nullptr, nullptr, 0, count, 1, nullptr, nullptr,
                             &nnz[static_cast<std::size_t>(rank)], 0, sparclFloat32, nullptr, comm,
                             nullptr);
    }),
                Each(sparclSuccess))
        << count << ": " << sparclGetLastError(party.comm(0));
    EXPECT_THAT(nnz, Each(0)) << count;
  }
  for (const bool has_duplicates : {false, true}) {
    std::vector<std::uint16_t> out(6);
    EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
      const std::uint16_t values[] = {0x3f80, 0x4000, 0x40c0};  // bfloat16: 1, 2, 6
      const std::uint64_t indices[] = {70'000, 5, has_duplicates && rank == 1 ? 5u : 6u};
      std::uint64_t out_indices[6];
      std::size_t nnz = 0;
      std::uint16_t own[6] = {};
      const sparclResult_t called =
          sparclAggregate(values, indices, 3, 80'000, 1, own, out_indices, &nnz, 6, sparclBfloat16,
                          nullptr, comm, nullptr);
      if (rank == 2) std::copy(own, own + 6, out.begin());
      return called;
    }),
                Each(sparclSuccess))
        << sparclGetLastError(party.comm(0));
    const std::uint16_t at_five = has_duplicates ? 0x4080 : 0x4000;  // (2 + 8 + 2) / 3, or 2
    const std::uint16_t at_six = has_duplicates ? 0x4080 : 0x40c0;   // (6 + 6) / 3, or 6
    EXPECT_EQ(out, (std::vector<std::uint16_t>{at_five, at_six, 0x3f80, 0, 0, 0}));
  }
}

TEST(AggregateApi, WithoutAnAggregatorItIsTheMeanByWeight) {
  ThreadRanks party(2);
  std::vector<float> results(2);
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    const float value = rank == 0 ? 1 : 4;
    const std::uint64_t index = 7;
    std::uint64_t out_index = 0;
    std::size_t nnz = 0;
    return sparclAggregate(&value, &index, 1, 10, rank == 0 ? 1 : 2,
                           &results[static_cast<std::size_t>(rank)], &out_index, &nnz, 1,
                           sparclFloat32, nullptr, comm, nullptr);
  }),
              Each(sparclSuccess));
  EXPECT_THAT(results, Each(3));
}

TEST(AggregateApi, OneDecisionOfValuesThatAreNotFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  ThreadRanks party(3);
  const std::vector<SparseVector> updates{{{1}, {2}}, {{1, 5}, {kNan, 8}}, {{1}, {6}}};
  std::vector<SparseVector> results;
  for (const sparclNonFinite_t policy :
       {sparclNonFiniteFail, sparclNonFiniteRefuse, sparclNonFiniteZero}) {
    sparclAggregatorOptions_t options = aggregator_options();
    options.non_finite = policy;
    options.mean = sparclMeanNone;
    Aggregators aggregators(party, 3, &options);
    const std::vector<sparclResult_t> called = aggregators.call(updates, results);
    if (policy == sparclNonFiniteFail) {
      EXPECT_THAT(called, Each(sparclInvalidArgument));
      EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr("1 of the 2 values of rank 1"));
      continue;
    }
    ASSERT_THAT(called, Each(sparclSuccess));
    const bool is_refused = policy == sparclNonFiniteRefuse;
    const SparseVector expected = is_refused
                                      ? SparseVector{{1}, {2 * 0.5F + 6 * 2.5F}}
                                      : SparseVector{{1, 5}, {2 * 0.5F + 6 * 2.5F, 8 * 1.5F}};
    EXPECT_TRUE(results[0] == expected);
    EXPECT_TRUE(results[2] == expected);
    EXPECT_EQ(aggregators.stats(1).own_refused, is_refused ? 1 : 0);
    EXPECT_EQ(aggregators.stats(0).own_refused, 0);
    EXPECT_EQ(aggregators.stats(0).listed, is_refused ? 2u : 3u);
  }
}

TEST(AggregateApi, ClipsLargeContributions) {
  ThreadRanks party(3);
  sparclAggregatorOptions_t options = aggregator_options();
  options.clip_median = 1;
  options.mean = sparclMeanNone;
  Aggregators aggregators(party, 3, &options);
  std::vector<SparseVector> results;
  ASSERT_THAT(aggregators.call({{{0}, {1}}, {{1}, {-2}}, {{2}, {1000}}}, results),
              Each(sparclSuccess));
  EXPECT_EQ(results[0].values, (std::vector<float>{0.5F, -3, 2 * 2.5F}));
  EXPECT_EQ(aggregators.stats(2).own_clipped, 1);
  EXPECT_EQ(aggregators.stats(1).own_clipped, 0);
}

TEST(AggregateApi, WhatIsRoundedOffIsSentLater) {
  ThreadRanks party(2);
  for (const sparclWire_t wire :
       {sparclWireBfloat16, sparclWireInt8, sparclWireInt4, sparclWireInt2}) {
    sparclAggregatorOptions_t options = aggregator_options();
    options.wire = wire;
    options.mean = sparclMeanNone;
    Aggregators aggregators(party, 2, &options);
    SeededRandom random(3);
    std::vector<double> given(kAggregated), received(kAggregated);
    const int rounds = wire >= sparclWireInt4 ? 40 : 12;
    for (int round = 0; round < rounds; ++round) {
      std::vector<SparseVector> updates(2), results;
      if (round < 8) updates = random_updates(random, 2);
      for (std::size_t rank = 0; rank < 2; ++rank) {
        for (std::size_t i = 0; i < updates[rank].indices.size(); ++i)
          given[updates[rank].indices[i]] +=
              static_cast<double>(updates[rank].values[i] * weight_of(static_cast<int>(rank)));
      }
      ASSERT_THAT(aggregators.call(updates, results), Each(sparclSuccess));
      ASSERT_TRUE(results[0] == results[1]);
      for (std::size_t i = 0; i < results[0].indices.size(); ++i)
        received[results[0].indices[i]] += static_cast<double>(results[0].values[i]);
    }
    double largest = 0;
    for (std::size_t i = 0; i < kAggregated; ++i)
      largest = std::max(largest, std::abs(given[i] - received[i]));
    EXPECT_LT(largest, 0.1) << "wire " << wire;
  }
}

TEST(AggregateApi, AStateIsSavedAndRestoredBitForBit) {
  const std::string folder = ::testing::TempDir() + "aggregators." + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  ThreadRanks party(3);
  sparclAggregatorOptions_t options = aggregator_options();
  options.outer = sparclOuterAdam;
  options.momentum = 0.9;
  options.keep = 500;
  options.wire = sparclWireInt2;
  Aggregators kept(party, 3, &options), restored(party, 3, nullptr);
  SeededRandom random(4);
  std::vector<SparseVector> results, again;
  for (int round = 0; round < 3; ++round)
    ASSERT_THAT(kept.call(random_updates(random, 3), results), Each(sparclSuccess));
  for (int rank = 0; rank < 3; ++rank) {
    const std::string path = folder + "/rank" + std::to_string(rank);
    ASSERT_EQ(sparclAggregatorSave(kept[rank], path.c_str()), sparclSuccess)
        << sparclGetLastError(nullptr);
    ASSERT_EQ(sparclAggregatorDestroy(restored[rank]), sparclSuccess);
    ASSERT_EQ(sparclAggregatorLoad(&restored[rank], path.c_str()), sparclSuccess)
        << sparclGetLastError(nullptr);
  }
  for (int round = 0; round < 2; ++round) {
    const std::vector<SparseVector> updates = random_updates(random, 3);
    ASSERT_THAT(kept.call(updates, results), Each(sparclSuccess));
    ASSERT_THAT(restored.call(updates, again), Each(sparclSuccess));
    EXPECT_TRUE(results[1] == again[1]);
  }
  EXPECT_EQ(restored.stats(0).rounds, 5u);
  // A damaged file, and one of something else.
  const std::string path = folder + "/rank0";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  sparclAggregator_t none = nullptr;
  EXPECT_NE(sparclAggregatorLoad(&none, path.c_str()), sparclSuccess);
  EXPECT_EQ(none, nullptr);
  std::filesystem::remove_all(folder);
}

TEST(AggregateApi, RanksThatDifferGetAMismatch) {
  ThreadRanks party(2);
  sparclAggregatorOptions_t options = aggregator_options();
  Aggregators aggregators(party, 2, &options);
  sparclAggregator_t other = nullptr;
  options.mean = sparclMeanNone;
  ASSERT_EQ(sparclAggregatorCreate(&other, kAggregated, &options), sparclSuccess);
  std::swap(other, aggregators[1]);
  std::vector<SparseVector> results;
  const std::vector<SparseVector> updates{{{1}, {2}}, {{1}, {2}}};
  EXPECT_THAT(aggregators.call(updates, results), Each(sparclMismatch));
  std::swap(other, aggregators[1]);
  for (const std::vector<int>& wrong : {std::vector<int>{2}, {-1}, {1, 0}, {0, 0}}) {
    aggregators.owners = wrong;
    EXPECT_THAT(aggregators.call(updates, results), Each(sparclInvalidArgument));
    EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr("options.ranks["));
  }
  aggregators.owners.clear();
  EXPECT_THAT(aggregators.call(updates, results), Each(sparclSuccess));
  // A new one is a round behind.
  ASSERT_EQ(sparclAggregatorDestroy(aggregators[1]), sparclSuccess);
  ASSERT_EQ(sparclAggregatorCreate(&aggregators[1], kAggregated, nullptr), sparclSuccess);
  EXPECT_THAT(aggregators.call(updates, results), Each(sparclMismatch));
  (void)sparclAggregatorDestroy(other);
}

TEST(AggregateApi, ATooSmallRoomIsTruncatedAndNothingHasHappened) {
  ThreadRanks party(2);
  Aggregators aggregators(party, 2, nullptr);
  std::vector<SparseVector> results;
  const std::vector<SparseVector> updates{{{1, 2}, {2, 3}}, {{3}, {2}}};
  EXPECT_THAT(aggregators.call(updates, results, 2), Each(sparclTruncated));
  EXPECT_EQ(aggregators.stats(0).rounds, 0u);
  EXPECT_THAT(aggregators.call(updates, results, 3), Each(sparclSuccess));
  sparclAggregatorOptions_t options = aggregator_options();
  options.keep = 5;
  Aggregators cut(party, 2, &options);
  EXPECT_THAT(cut.call(updates, results, 4), Each(sparclInvalidArgument));
  EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr("out_capacity is 4"));
}

TEST(AggregateApi, BadArgumentsAreNamed) {
  sparclAggregator_t made = nullptr;
  const auto refused = [&](auto change) {
    sparclAggregatorOptions_t options = aggregator_options();
    change(options);
    EXPECT_EQ(sparclAggregatorCreate(&made, 10, &options), sparclInvalidArgument);
    return std::string(sparclGetLastError(nullptr));
  };
  EXPECT_THAT(refused([](auto& o) { o.momentum = 1; }), HasSubstr("momentum is 1"));
  EXPECT_THAT(refused([](auto& o) { o.clip_l2 = -1; }), HasSubstr("clip_l2 is -1"));
  EXPECT_THAT(refused([](auto& o) { o.mean = static_cast<sparclMean_t>(9); }),
              HasSubstr("options.mean = 9 is no sparclMean_t"));
  EXPECT_EQ(sparclAggregatorCreate(nullptr, 10, nullptr), sparclInvalidArgument);
  ThreadRanks party(1);
  const float value = 1;
  const std::uint64_t index = 3;
  std::uint64_t out_index = 0;
  float out = 0;
  std::size_t nnz = 0;
  const auto call = [&](double weight, sparclDataType_t type) {
    return party.run([&](int, sparclComm_t comm) {
      return sparclAggregate(&value, &index, 1, 10, weight, &out, &out_index, &nnz, 1, type,
                             nullptr, comm, nullptr);
    })[0];
  };
  EXPECT_EQ(call(-1, sparclFloat32), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr("weight is -1"));
  EXPECT_EQ(call(1, sparclFloat64), sparclUnsupported);
  EXPECT_EQ(call(0, sparclFloat32), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr("weights of all contributions"));
}

}  // namespace
}  // namespace sparcl::test
