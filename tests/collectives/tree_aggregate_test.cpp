// Aggregation by leaders of nodes and of wider places: the bits of the way without them, whatever
// the tree.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "collectives/aggregate/aggregation.hpp"
#include "collectives/aggregate/shard_plan.hpp"
#include "sparse_world.hpp"

namespace sparcl::collectives {
namespace {

using aggregate::AggregateCall;
using sparcl::aggregate::Aggregator;
using sparcl::aggregate::AggregatorOptions;
using sparcl::aggregate::MeanKind;
using test::Entries;
using test::Output;

constexpr std::uint64_t kCount = 300'000;  // five shards at most
constexpr int kRounds = 2;

// The machine of each rank, and the wider places of each machine: its racks, then its rows.
struct Places {
  const char* name;
  std::vector<int> machines;
  std::vector<std::vector<int>> wider = {};
};
const Places kPlaces[] = {{"blocks of 2", {0, 0, 1, 1}},
                          {"turns", {0, 1, 0, 1, 0, 1}},
                          {"blocks of 3", {0, 0, 0, 1, 1, 1}},
                          {"three machines", {0, 1, 2, 2, 1, 0}},
                          {"blocks of 4", {0, 0, 0, 0, 1, 1, 1, 1}},
                          {"pairs apart", {0, 1, 2, 3, 3, 2, 1, 0}},
                          {"unequal machines", {0, 0, 0, 1, 2, 2}},
                          {"racks of two", {0, 0, 1, 1, 2, 2, 3, 3}, {{0, 0, 1, 1}}},
                          {"racks in turns", {0, 1, 2, 3, 3, 2, 1, 0}, {{0, 1, 0, 1}}},
                          {"unequal racks", {0, 0, 1, 2, 3, 3, 4}, {{0, 0, 1, 1, 1}}},
                          {"racks and rows of single ranks",
                           {0, 1, 2, 3, 4, 5, 6, 7},
                           {{0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 0, 0, 1, 1, 1, 1}}}};

comm::PlaceTree tree_of(const Places& places) {
  std::vector<comm::Neighbours> by_rank;
  for (const int machine : places.machines) {
    const auto first = std::ranges::find(places.machines, machine) - places.machines.begin();
    comm::Neighbours& own = by_rank.emplace_back();
    own.first = static_cast<std::uint32_t>(first);
    for (std::size_t level = 0; level < places.wider.size(); ++level)
      own.places[comm::kMaxPlaceLevels - 1 - level] =
          static_cast<std::uint64_t>(1 + places.wider[level][static_cast<std::size_t>(machine)]);
  }
  return comm::place_tree(by_rank);
}

// Floats alone, so that a mean by weight has no NaN but where it is wanted.
// Large parts come in a front and a rest.
std::vector<Entries> contributions(SeededRandom& random, int ranks, bool has_nan, bool is_large) {
  std::vector<Entries> all(static_cast<std::size_t>(ranks));
  const std::size_t max_entries = is_large ? 250'000 : 4'000;
  const double nan_chance = 0.4 / static_cast<double>(max_entries);
  for (Entries& each : all) {
    const std::size_t entries = random.chance(0.1) ? 0 : random.below(max_entries);
    std::uint64_t index = 0;
    for (std::size_t i = 0; i < entries; ++i) {
      index += is_large ? 1 + (i % 50 == 0) : 1 + random.below(random.chance(0.5) ? 3 : 130);
      if (index >= kCount) break;
      const float value = has_nan && random.chance(nan_chance)
                              ? std::numeric_limits<float>::quiet_NaN()
                              : static_cast<float>(random.unit() - 0.4);
      each.indices.push_back(index);
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      each.values.insert(each.values.end(), bytes, bytes + sizeof value);
    }
  }
  return all;
}

struct Row {
  const char* name;
  AggregatorOptions options;
  std::vector<int> owners;
  bool has_nan = false;
};

std::vector<Row> rows() {
  std::vector<Row> all{{"mean by weight", {}, {}}, {"one shard's rank", {}, {2}}};
  all.push_back({"over contributors", {}, {0, 3}});
  all.back().options.mean = MeanKind::kOverContributors;
  all.push_back({"cut", {}, {}});
  all.back().options.keep = 500;
  all.push_back({"clipped by the median", {}, {1, 2, 3}});
  all.back().options.screen.clip.median_factor = 0.8;
  all.push_back({"refused ranks", {}, {}, true});
  all.back().options.screen.non_finite = sparcl::aggregate::NonFinite::kRefuse;
  return all;
}

// The results of all ranks in all rounds.
std::vector<Output> results_of(const Places& places, const Row& row, const char* way,
                               std::uint64_t seed, bool is_large = false) {
  const int ranks = static_cast<int>(places.machines.size());
  test::World world(ranks, seed);
  const auto machine = [&](int rank) {
    return std::to_string(places.machines[static_cast<std::size_t>(rank)]);
  };
  const bool has_windows = is_large;
  EXPECT_TRUE(!has_windows || world.meet(machine).ok());
  std::vector<Aggregator> aggregators;
  for (int rank = 0; rank < ranks; ++rank) {
    CommContext& context = world.contexts[static_cast<std::size_t>(rank)];
    if (!is_large) context.places = tree_of(places);
    context.aggregate_algorithm = way;
    aggregators.push_back(*Aggregator::create(kCount, row.options));
  }
  std::vector<Output> results;
  SeededRandom random(7);
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<Entries> given = contributions(random, ranks, row.has_nan, is_large);
    std::vector<AggregateCall> calls(static_cast<std::size_t>(ranks));
    const std::size_t first = results.size();
    for (int rank = 0; rank < ranks; ++rank)
      results.emplace_back(std::size_t{kCount}, sizeof(float));
    for (std::size_t rank = 0; rank < calls.size(); ++rank) {
      AggregateCall& call = calls[rank];
      call.indices = given[rank].indices;
      call.values = given[rank].values.data();
      call.count = kCount;
      call.weight = 0.25 + static_cast<double>(rank);
      call.aggregator = &aggregators[rank];
      call.ranks = row.owners;
      call.out_values = results[first + rank].values.data();
      call.out_indices = results[first + rank].indices.data();
      call.out_capacity = kCount;
    }
    const std::uint32_t number = world.calls_made++;
    const transport::SimOutcome outcome = world.party.run([&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      return aggregate::aggregate(world.contexts[r], number, calls[r], world.reports[r]);
    });
    EXPECT_TRUE(outcome.ok()) << outcome.report;
    for (std::size_t rank = 0; rank < calls.size(); ++rank) {
      EXPECT_TRUE(world.party.result(static_cast<int>(rank)).ok())
          << world.party.result(static_cast<int>(rank)).message();
      EXPECT_EQ(world.reports[rank].algorithm, way);
      Output& own = results[first + rank];
      own.indices.resize(calls[rank].out_nnz);
      own.values.resize(calls[rank].out_nnz * sizeof(float));
    }
  }
  return results;
}

TEST(AggregateLeaders, GiveTheBitsOfTheWayWithoutThem) {
  std::uint64_t seed = 0;
  for (const Places& places : kPlaces) {
    for (const Row& row : rows()) {
      SCOPED_TRACE(testing::Message() << places.name << ", " << row.name);
      const std::vector<Output> expected = results_of(places, row, "shards", ++seed);
      const std::vector<Output> given = results_of(places, row, "leaders", ++seed);
      ASSERT_EQ(given.size(), expected.size());
      for (std::size_t i = 0; i < given.size(); ++i) {
        ASSERT_EQ(given[i].indices, expected[i].indices) << i;
        ASSERT_EQ(given[i].values, expected[i].values) << i;
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(AggregateLeaders, LargePartsOfRanksThatDoNotCountAreTaken) {
  std::uint64_t seed = 0;
  for (const Places& places : {kPlaces[0], kPlaces[1]}) {
    for (const Row& row : {rows().front(), rows().back()}) {
      SCOPED_TRACE(testing::Message() << places.name << ", " << row.name);
      const std::vector<Output> expected = results_of(places, row, "shards", ++seed, true);
      const std::vector<Output> given = results_of(places, row, "leaders", ++seed, true);
      for (std::size_t i = 0; i < given.size(); ++i) {
        ASSERT_EQ(given[i].indices, expected[i].indices) << i;
        ASSERT_EQ(given[i].values, expected[i].values) << i;
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(AggregateLeaders, RanksThatAggregateLeadTheirGroups) {
  const aggregate::ShardPlan plan(
      kCount * 10, {1, 4, 6}, {{{0, 1}, {2, 3}, {4, 5, 6, 7}}, {{0, 1, 2, 3}, {4, 5, 6, 7}}}, 8);
  ASSERT_EQ(plan.top(), 2u);
  for (std::uint64_t shard = 0; shard < plan.shards(); ++shard) {
    EXPECT_EQ(plan.leader(0, 0, shard), 1);
    EXPECT_TRUE(plan.leader(0, 1, shard) == 2 || plan.leader(0, 1, shard) == 3);
    EXPECT_TRUE(plan.leader(0, 2, shard) == 4 || plan.leader(0, 2, shard) == 6);
    EXPECT_EQ(plan.leader(1, 0, shard), 1) << "no rank of the other node aggregates";
    EXPECT_EQ(plan.leader(2, 0, shard), plan.owner(shard));
  }
}

// A leader of a wide group leads a group of each level below.
TEST(AggregateLeaders, LeadersAreThoseOfAGroupBelow) {
  const Places& places = kPlaces[std::size(kPlaces) - 1];
  const aggregate::ShardPlan plan(kCount * 10, {}, tree_of(places), 8);
  ASSERT_EQ(plan.top(), 2u);
  std::set<int> leaders;
  for (std::uint64_t shard = 0; shard < plan.shards(); ++shard) {
    for (const std::size_t row : {0U, 1U}) {
      const int leader = plan.leader(1, row, shard);
      EXPECT_EQ(plan.leader_of(0, leader, shard), leader);
      EXPECT_EQ(plan.group_of(1, leader), row);
      leaders.insert(leader);
    }
  }
  EXPECT_EQ(leaders.size(), 8u);
}

// The leaders are spread over a node, but for the owner's own node.
TEST(AggregateLeaders, EachRankOfANodeLeadsSomeShards) {
  const aggregate::ShardPlan plan(kCount * 10, {}, {{{0, 1, 2, 3}, {4, 5, 6, 7}}}, 8);
  std::set<int> leaders;
  for (std::uint64_t shard = 0; shard < plan.shards(); ++shard) {
    EXPECT_EQ(plan.leader_of(0, plan.owner(shard), shard), plan.owner(shard));
    for (const std::size_t node : {0U, 1U}) {
      EXPECT_EQ(plan.group_of(0, plan.leader(0, node, shard)), node);
      leaders.insert(plan.leader(0, node, shard));
    }
  }
  EXPECT_EQ(leaders.size(), 8u);
}

}  // namespace
}  // namespace sparcl::collectives
