// Trees of aggregators: the same contributions give the same bits through any of them, and what an
// aggregator loses comes again.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/seeded_random.hpp"
#include "tests/api/elastic_party.hpp"

namespace {

using namespace sparcl::test::party;

constexpr int kWorkers = 9, kRounds = 3;
constexpr int kRoot = -1;

// The aggregator of each branch, an earlier branch or the root, and that of each worker.
struct Tree {
  const char* name;
  std::vector<int> branches;
  std::vector<int> workers;
};

const Tree kTrees[] = {
    {"one_branch", {kRoot}, {0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"two_branches", {kRoot, kRoot}, {0, 0, 0, 0, 1, 1, 1, 1, 1}},
    {"interleaved", {kRoot, kRoot}, {0, 1, kRoot, 0, 1, kRoot, 0, 1, 0}},
    {"chain", {kRoot, 0, 1}, {kRoot, 0, 1, 2, 2, 2, 2, 1, 0}},
    {"forest", {kRoot, kRoot, 0, 0, 1}, {2, 2, 3, 3, 4, 4, 1, 0, kRoot}},
};

// An aggregator with a parent, which works until it ends.
class Branch {
 public:
  explicit Branch(const std::string& parent) : aggregator_(model_, options_of(parent)) {
    EXPECT_EQ(aggregator_.result, sparclSuccess) << sparclGetLastError(nullptr);
    thread_ = std::thread([this] { work(); });
  }
  ~Branch() {
    ends_ = true;
    thread_.join();
  }
  Branch(const Branch&) = delete;
  Branch& operator=(const Branch&) = delete;
  const std::string& address() const { return aggregator_.address; }
  std::uint64_t rounds() const { return rounds_; }

 private:
  static sparclServeOptions_t options_of(const std::string& parent) {
    sparclServeOptions_t options = SPARCL_SERVE_OPTIONS_INITIALIZER;
    options.parent = parent.c_str();
    return options;
  }
  void work() {
    while (!ends_) {
      sparclRoundReport_t report = SPARCL_ROUND_REPORT_INITIALIZER;
      const sparclResult_t result = sparclAggregatorNext(aggregator_.aggregator, 0.05, &report);
      if (result == sparclTimeout) continue;
      ASSERT_EQ(result, sparclSuccess) << sparclGetLastError(nullptr);
      ++rounds_;
    }
  }

  Model model_;
  Root aggregator_;
  std::atomic<bool> ends_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::thread thread_;
};

// Some elements, most of them in several workers' steps.
void train(Trainer& own, int worker, std::uint64_t round) {
  sparcl::SeededRandom random(100 * round + static_cast<std::uint64_t>(worker));
  for (int i = 0; i < 4000; ++i)
    own.model.weights[random.below(20'000) * 7] += static_cast<float>(random.unit() - 0.3);
}

struct Outcome {
  std::vector<float> weights;
  std::uint64_t bytes = 0;  // that reached the root
};

Outcome outcome_of(const Tree& tree, const sparclAggregatorOptions_t& how) {
  Model model;
  sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  serve.round = sparclRoundQuorum;
  serve.quorum = kWorkers;
  const Root root(model, serve, how);
  EXPECT_EQ(root.result, sparclSuccess) << sparclGetLastError(nullptr);
  std::vector<std::unique_ptr<Branch>> branches;
  const auto address_of = [&](int at) {
    return at == kRoot ? root.address : branches[static_cast<std::size_t>(at)]->address();
  };
  for (const int parent : tree.branches)
    branches.push_back(std::make_unique<Branch>(address_of(parent)));
  std::vector<std::thread> threads;
  for (int worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([&, worker] {
      sparclWorkerOptions_t options = SPARCL_WORKER_OPTIONS_INITIALIZER;
      options.number = static_cast<std::uint64_t>(worker) + 1;
      Trainer own(address_of(tree.workers[static_cast<std::size_t>(worker)]), options);
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        ASSERT_EQ(own.next(), round);
        train(own, worker, round);
        SPARCL_OK(sparclWorkerContribute(own.worker, 0.1 + worker));
      }
      SPARCL_OK(sparclWorkerFlush(own.worker, 30));
      EXPECT_EQ(own.stats().committed, static_cast<std::uint64_t>(kRounds));
    });
  }
  Outcome outcome;
  for (int round = 0; round < kRounds; ++round) {
    const sparclRoundReport_t report = root.next();
    EXPECT_EQ(report.listed, static_cast<std::uint64_t>(kWorkers));
    outcome.bytes += report.bytes;
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& branch : branches)
    EXPECT_EQ(branch->rounds(), static_cast<std::uint64_t>(kRounds));
  outcome.weights = model.weights;
  return outcome;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Sum {
  const char* name;
  sparclMean_t mean;
  double clip_l2, clip_median;
};
const Sum kSums[] = {{"by_weight", sparclMeanByWeight, 0, 0},
                     {"over_contributors", sparclMeanOverContributors, 15, 0},
                     {"median", sparclMeanNone, 0, 0.9}};

class AnySum : public testing::TestWithParam<Sum> {};

TEST_P(AnySum, HasTheSameBitsThroughAnyTree) {
  sparclAggregatorOptions_t how = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
  how.mean = GetParam().mean;
  how.clip_l2 = GetParam().clip_l2;
  how.clip_median = GetParam().clip_median;
  const Outcome flat = outcome_of({"flat", {}, std::vector<int>(kWorkers, kRoot)}, how);
  for (const Tree& tree : kTrees) {
    SCOPED_TRACE(tree.name);
    const Outcome outcome = outcome_of(tree, how);
    EXPECT_TRUE(same_bits(outcome.weights, flat.weights));
    if (tree.branches.size() == 1) {
      EXPECT_LT(outcome.bytes, flat.bytes) << "one sum instead of nine";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, AnySum, testing::ValuesIn(kSums),
                         [](const auto& sum) { return sum.param.name; });

void wait_for_listed(const Root& root, const char* listed) {
  for (int i = 0; i < 500; ++i) {
    sparclRoundReport_t report = SPARCL_ROUND_REPORT_INITIALIZER;
    ASSERT_EQ(sparclAggregatorNext(root.aggregator, 0.02, &report), sparclTimeout);
    if (std::strstr(sparclGetLastError(nullptr), listed) != nullptr) return;
  }
  FAIL() << sparclGetLastError(nullptr);
}

TEST(ElasticTree, WhatABranchLosesComesAgain) {
  Model model;
  sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  serve.round = sparclRoundQuorum;
  serve.quorum = 2;
  sparclAggregatorOptions_t how = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
  how.mean = sparclMeanNone;
  const Root root(model, serve, how);
  auto branch = std::make_unique<Branch>(root.address);
  Trainer below(branch->address() + "," + root.address), direct(root.address);
  EXPECT_EQ(below.next(), 1u);
  below.model.weights[5] += 1;
  SPARCL_OK(sparclWorkerContribute(below.worker, 1));
  wait_for_listed(root, "1 contributions");
  branch.reset();
  EXPECT_EQ(direct.next(), 1u);
  direct.model.weights[5] += 2;
  SPARCL_OK(sparclWorkerContribute(direct.worker, 1));
  EXPECT_EQ(root.next().listed, 2u);
  EXPECT_EQ(model.weights[5], 3);
}

TEST(ElasticTree, AWorkerWithAnothersNumberIsTurnedAway) {
  Model model;
  const sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  const Root root(model, serve);
  const Branch branch(root.address);
  sparclWorkerOptions_t options = SPARCL_WORKER_OPTIONS_INITIALIZER;
  options.number = 3;
  Trainer first(root.address, options);
  EXPECT_EQ(first.next(), 1u);
  const Trainer second(branch.address(), options);
  std::string why;
  for (int i = 0; i < 20 && why.find("number 3") == std::string::npos; ++i) {
    sparclRoundReport_t report = SPARCL_ROUND_REPORT_INITIALIZER;
    (void)sparclAggregatorNext(root.aggregator, 0, &report);
    EXPECT_NE(sparclWorkerFlush(second.worker, 0.1), sparclInternalError);
    std::uint64_t version = 0;
    (void)sparclWorkerNext(second.worker, 0.2, &version);
    why = sparclGetLastError(nullptr);
  }
  EXPECT_NE(why.find("another worker has number 3"), std::string::npos) << why;
}

TEST(ElasticTree, OptionsThatDoNotFitAParentAreRefused) {
  Model model;
  sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  serve.parent = "127.0.0.1:1";
  serve.folder = "/tmp/rounds";
  const Root root(model, serve);
  EXPECT_EQ(root.result, sparclInvalidArgument);
  EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("options.folder"), std::string::npos);
  serve.folder = nullptr;
  for (const char* const parent : {"nowhere", "h:1,nowhere", ""}) {
    serve.parent = parent;
    const Root none(model, serve);
    EXPECT_EQ(none.result, sparclInvalidArgument) << parent;
    EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("options.parent: "), std::string::npos);
  }
}

}  // namespace
