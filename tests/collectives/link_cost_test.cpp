#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "collectives/sparse_sum/sparse_sum.hpp"
#include "src/comm/start/link_measurement.hpp"
#include "tests/support/sim_party.hpp"

namespace sparcl::collectives {
namespace {

using test::SimParty;
using ::testing::HasSubstr;

struct LinkWorld {
  explicit LinkWorld(int ranks)
      : party(ranks, 5), contexts(static_cast<std::size_t>(ranks)), costs(contexts.size()) {
    for (int rank = 0; rank < ranks; ++rank) {
      contexts[static_cast<std::size_t>(rank)].engine = &party.engine(rank);
      contexts[static_cast<std::size_t>(rank)].kernels = &kernels::cpu_kernels();
    }
  }
  template <class SourceOf>
  transport::SimOutcome find(SourceOf&& source_of) {
    return party.run([&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      return find_link_cost(contexts[r], {0, 0}, source_of(rank), costs[r]);
    });
  }

  SimParty party;
  std::vector<CommContext> contexts;
  std::vector<std::optional<LinkCost>> costs;
};

// The simulated network has a latency: what is measured is not the least that there can be.
TEST(LinkCost, IsMeasuredAndTheSameOnAllRanks) {
  for (const int ranks : test::rank_counts()) {
    LinkWorld world(ranks);
    ASSERT_TRUE(world.find([](int) { return comm::LinkSource::kMeasured; }).ok());
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_TRUE(world.party.result(rank).ok());
      const auto r = static_cast<std::size_t>(rank);
      ASSERT_EQ(world.costs[r].has_value(), ranks > 1);
      if (ranks == 1) continue;
      EXPECT_EQ(world.costs[r]->round_s, world.costs[0]->round_s);
      EXPECT_EQ(world.costs[r]->alpha_s, world.costs[0]->alpha_s);
      EXPECT_EQ(world.costs[r]->beta_s_per_byte, world.costs[0]->beta_s_per_byte);
      EXPECT_EQ(world.costs[r]->entry_s, world.costs[0]->entry_s);
      EXPECT_GT(world.costs[r]->round_s, 1e-7);
    }
  }
}

TEST(LinkCost, StoredFiguresAreThoseOfTheSlowestRank) {
  LinkWorld world(3);
  for (std::size_t r = 0; r < 3; ++r)
    world.costs[r] =
        LinkCost{1e-6 * static_cast<double>(r + 1), 3e-10 / static_cast<double>(r + 1)};
  ASSERT_TRUE(world.find([](int) { return comm::LinkSource::kStored; }).ok());
  for (const std::optional<LinkCost>& cost : world.costs) {
    EXPECT_EQ(cost->alpha_s, 3e-6);
    EXPECT_EQ(cost->beta_s_per_byte, 3e-10);
  }
}

TEST(LinkCost, AGuessNeedsNoFigures) {
  LinkWorld world(3);
  ASSERT_TRUE(world.find([](int) { return comm::LinkSource::kGuess; }).ok());
  for (const std::optional<LinkCost>& cost : world.costs) EXPECT_FALSE(cost);
}

TEST(LinkCost, RanksWithOtherSourcesAreToldSo) {
  LinkWorld world(4);
  ASSERT_TRUE(world
                  .find([](int rank) {
                    return rank == 2 ? comm::LinkSource::kGuess : comm::LinkSource::kMeasured;
                  })
                  .ok());
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(world.party.result(rank).code(), Code::kMismatch);
    EXPECT_THAT(world.party.result(rank).message(),
                HasSubstr("ranks 0 and 2 have different SPARCL_LINK_COST"));
  }
}

class LinkCostFile : public ::testing::Test {
 protected:
  Result<LinkCost> read(const std::string& text) {
    std::ofstream(path_) << text;
    return comm::read_link_cost(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_ = testing::TempDir() + "link_cost_" + std::to_string(::getpid());
};

TEST_F(LinkCostFile, IsReadAsItWasWritten) {
  const LinkCost cost{2e-6, 1.25e-10, 12e-6, 1.5e-9};
  const Result<LinkCost> back = read(write_link_cost(cost));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(write_link_cost(*back), write_link_cost(cost));
  EXPECT_EQ(back->alpha_s, cost.alpha_s);
}

TEST_F(LinkCostFile, SaysWhatIsWrong) {
  const std::string whole = comm::write_link_cost({});
  EXPECT_THAT(read(whole + "latency 1\n").status().message(),
              HasSubstr("'latency 1' is no figure of it"));
  EXPECT_THAT(read(whole + "byte_s fast\n").status().message(), HasSubstr("'byte_s fast'"));
  EXPECT_THAT(read(whole + "byte_s -1\n").status().message(), HasSubstr("'byte_s -1'"));
  EXPECT_THAT(read("round_s 1e-5\n").status().message(), HasSubstr("message_s is missing"));
  EXPECT_THAT(comm::read_link_cost(path_ + ".not").status().message(), HasSubstr("No such file"));
}

// What links cost changes from run to run; the bits of level `runs` must not.
TEST(SparseSumPlans, LevelRunsTakesRowsOfOneOrder) {
  SumShape shape{4, 1 << 20, 5'000, 4};
  shape.ranks_per_node = 2;
  LinkCost link;
  link.entry_s = 1e-12;  // doubling sends least
  link.round_s = link.alpha_s = 1e-9;
  link.beta_s_per_byte = 1e-6;
  bool differs = false;
  for (const sparse_sum::SparseSumRow& row : sparse_sum::sparse_sum_table()) {
    const sparse_sum::SparseSumPlan runs =
        sparse_sum::plan_sparse_sum(link, shape, Determinism::kRuns, "auto");
    EXPECT_TRUE(runs.row->in_rank_order);
    EXPECT_STREQ(sparse_sum::plan_sparse_sum(link, shape, Determinism::kRuns, row.name).row->name,
                 row.name)
        << "forced";
    differs |= !row.in_rank_order;
  }
  EXPECT_TRUE(differs) << "the table has no row to be left out";
}

// gather holds all parts at once, split three groups of them.
TEST(SparseSumPlans, WhatTakesTooMuchScratchIsNotChosen) {
  SumShape shape{8, std::uint64_t{1} << 26, 1 << 20, 4};
  LinkCost link;
  link.round_s = 100;  // one round is best
  EXPECT_STREQ(sparse_sum::plan_sparse_sum(link, shape, Determinism::kCanonical, "auto").row->name,
               "gather");
  shape.max_scratch_bytes = std::uint64_t{60} << 20;
  EXPECT_STREQ(sparse_sum::plan_sparse_sum(link, shape, Determinism::kCanonical, "auto").row->name,
               "split");
  EXPECT_STREQ(
      sparse_sum::plan_sparse_sum(link, shape, Determinism::kCanonical, "gather").row->name,
      "gather")
      << "forced";
  shape.max_scratch_bytes = 1;
  EXPECT_STREQ(sparse_sum::plan_sparse_sum(link, shape, Determinism::kCanonical, "auto").row->name,
               "split")
      << "the least";
}

TEST(SparseSumPlans, TheUnionOfTheLastCallIsExpectedAgain) {
  SumShape shape{4, 1'000'000, 10'000, 4};
  const double independent = shape.union_of(4);
  EXPECT_NEAR(independent, 39'404, 1);
  shape.union_share = shape.share_of(10'000);  // all have the same
  EXPECT_NEAR(shape.union_of(4), 10'000, 1);
  shape.union_share = shape.share_of(25'000);
  EXPECT_NEAR(shape.union_of(4), 25'000, 1);
  EXPECT_NEAR(shape.union_of(1), 10'000, 1);
  EXPECT_EQ(shape.share_of(40'000), 1);  // no two alike
}

}  // namespace
}  // namespace sparcl::collectives
