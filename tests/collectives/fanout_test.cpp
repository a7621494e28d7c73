#include "collectives/broadcast/fanout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace sparcl::collectives {
namespace {

constexpr LinkCost kLink{1e-6, 1e-10};

// Every rank has one parent that names it as a child, and the root reaches all.
void expect_spanning_tree(const broadcast::FanoutRow& row, int root, int size) {
  SCOPED_TRACE(std::string(row.name) + " root " + std::to_string(root) + " of " +
               std::to_string(size));
  std::vector<int> parents(static_cast<std::size_t>(size), -1);
  int edges = 0;
  for (int rank = 0; rank < size; ++rank) {
    for (const int child : row.links(rank, root, size).children) {
      ASSERT_GE(child, 0);
      ASSERT_LT(child, size);
      EXPECT_EQ(parents[static_cast<std::size_t>(child)], -1);
      EXPECT_EQ(row.links(child, root, size).parent, rank);
      parents[static_cast<std::size_t>(child)] = rank;
      ++edges;
    }
  }
  EXPECT_EQ(edges, size - 1);
  EXPECT_EQ(row.links(root, root, size).parent, -1);
  for (int rank = 0; rank < size; ++rank) {
    int at = rank, hops = 0;
    while (at != root && at >= 0 && hops <= size) {
      at = parents[static_cast<std::size_t>(at)];
      ++hops;
    }
    EXPECT_EQ(at, root);
  }
}

TEST(Fanout, EveryRowSpansAllRanksFromEveryRoot) {
  for (const broadcast::FanoutRow& row : broadcast::fanout_table()) {
    for (int size = 1; size <= 17; ++size) {
      for (int root = 0; root < size; ++root) expect_spanning_tree(row, root, size);
    }
    expect_spanning_tree(row, 700, 1024);
  }
}

TEST(Fanout, BinomialRootSendsLogPTimes) {
  EXPECT_EQ(broadcast::binomial_tree_links(0, 0, 8).children, (std::vector<int>{4, 2, 1}));
  EXPECT_EQ(broadcast::binomial_tree_links(6, 0, 7).parent, 4);
  EXPECT_TRUE(broadcast::binomial_tree_links(6, 0, 7).children.empty());
}

TEST(Fanout, PlanHonoursForcedNameAndFragment) {
  for (const broadcast::FanoutRow& row : broadcast::fanout_table()) {
    const broadcast::FanoutPlan plan = broadcast::plan_fanout(kLink, 5, 1 << 20, row.name, 131072);
    EXPECT_STREQ(plan.row->name, row.name);
    EXPECT_EQ(plan.fragment_bytes, 131072u);
  }
}

TEST(Fanout, PlanTakesTheLeastPredictedTime) {
  for (const int size : {2, 3, 4, 8, 64, 1024}) {
    for (const std::uint64_t bytes :
         {std::uint64_t{100}, std::uint64_t{1} << 20, std::uint64_t{1} << 30}) {
      const broadcast::FanoutPlan plan = broadcast::plan_fanout(kLink, size, bytes, "auto", 0);
      for (const broadcast::FanoutRow& row : broadcast::fanout_table()) {
        for (std::uint32_t fragment = broadcast::kMinFragmentBytes;
             fragment <= broadcast::kMaxFragmentBytes; fragment *= 2) {
          EXPECT_LE(plan.seconds, row.seconds(kLink, size, bytes, fragment));
        }
      }
    }
  }
}

TEST(Fanout, LongStreamsOverFewRanksTakeTheChainAndSmallOnesOverManyATree) {
  EXPECT_STREQ(broadcast::plan_fanout(kLink, 4, std::uint64_t{1} << 30, "auto", 0).row->name,
               "chain");
  EXPECT_STRNE(broadcast::plan_fanout(kLink, 1024, 100, "auto", 0).row->name, "chain");
}

}  // namespace
}  // namespace sparcl::collectives
