#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "sparse_world.hpp"
#include "src/comm/engine/lending.hpp"

namespace sparcl::collectives {
namespace {

using test::Entries;
using test::expect_summed;
using test::random_entries;
using test::World;

struct Layout {
  int ranks, each;
};
constexpr Layout kLayouts[] = {{4, 2}, {6, 2}, {8, 2}, {8, 4}};

LinkCost slow_link() {
  LinkCost link;
  link.beta_s_per_byte = 8e-9;
  return link;
}

std::vector<Entries> random_ranks(int ranks, std::uint64_t count, double density, DataType type,
                                  SeededRandom& random) {
  std::vector<Entries> entries;
  for (int rank = 0; rank < ranks; ++rank)
    entries.push_back(random_entries(count, density, type, random));
  return entries;
}

void expect_taken(const World& world, const std::string& algorithm) {
  for (const CallReport& report : world.reports) EXPECT_EQ(report.algorithm, algorithm);
}

TEST(TwoLevel, EveryTypeAndReductionBitForBit) {
  SeededRandom random(1);
  std::uint64_t seed = 0;
  for (const Layout layout : kLayouts) {
    for (const DataType type : test::kSumTypes) {
      for (const sparse::Reduction reduction : test::kReductions) {
        SCOPED_TRACE(testing::Message()
                     << layout.ranks << " ranks, " << layout.each << " a node, " << info(type).name
                     << ", op " << static_cast<int>(reduction.op)
                     << (reduction.is_mean ? ", mean" : ""));
        World world(layout.ranks, ++seed);
        world.force("two_level");
        world.set_nodes(layout.each);
        const std::vector<Entries> entries =
            random_ranks(layout.ranks, 9000, random.unit() * 0.2, type, random);
        ASSERT_NO_FATAL_FAILURE(expect_summed(
            world, 9000, {type, reduction, Determinism::kCanonical}, entries, random.chance(0.5)));
        expect_taken(world, "two_level");
      }
    }
  }
}

// Inside a node parts are read where they lie; between nodes they are coded or not.
TEST(TwoLevel, OverWindowsThatNodesShare) {
  SeededRandom random(2);
  for (const Layout layout : kLayouts) {
    for (const double density : {0.1, 0.9}) {
      for (const std::uint64_t seed : {2, 3}) {  // coded, and as they are
        World world(layout.ranks, seed);
        ASSERT_TRUE(world.meet([&](int rank) { return std::to_string(rank / layout.each); }).ok());
        ASSERT_NE(world.contexts[0].window, nullptr);
        ASSERT_TRUE(world.contexts[0].window->is_shared_with(1));
        ASSERT_FALSE(world.contexts[0].window->is_shared_with(layout.each));
        ASSERT_EQ(world.contexts[0].node_map.ranks_per_node(), layout.each);
        for (CommContext& context : world.contexts) context.sparse_sum_algorithm = "two_level";
        SCOPED_TRACE(testing::Message() << layout.ranks << " ranks, " << layout.each
                                        << " a node, density " << density);
        ASSERT_NO_FATAL_FAILURE(
            expect_summed(world, 60'000, {},
                          random_ranks(layout.ranks, 60'000, density, DataType::kFloat32, random),
                          random.chance(0.5)));
        expect_taken(world, "two_level");
      }
    }
  }
}

// Over slow links groups are small: more of them than are in flight at once.
TEST(TwoLevel, ManyGroupsOfBlocks) {
  SeededRandom random(3);
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    World world(4, 4);
    for (CommContext& context : world.contexts) context.measured_link = slow_link();
    world.force("two_level");
    world.set_nodes(2);
    ASSERT_NO_FATAL_FAILURE(expect_summed(world, 2'000'000, {type, {}, Determinism::kCanonical},
                                          random_ranks(4, 2'000'000, 0.1, type, random), true));
    expect_taken(world, "two_level");
  }
}

// Sums of whole numbers do not depend on their order: all layouts, of which level `runs` takes any.
TEST(TwoLevel, NodesThatAreNoSubtrees) {
  SeededRandom random(4);
  using Machine = std::string (*)(int rank);
  const Machine machines[] = {[](int rank) { return std::to_string(rank % 2); },
                              [](int rank) { return std::to_string(rank / 3); },
                              [](int rank) { return std::to_string((rank + 1) / 2 % 3); }};
  for (const Machine machine : machines) {
    World world(6, 5);
    ASSERT_TRUE(world.meet(machine).ok());
    for (CommContext& context : world.contexts) context.sparse_sum_algorithm = "two_level";
    const std::vector<Entries> entries = random_ranks(6, 100'000, 0.05, DataType::kInt32, random);
    ASSERT_NO_FATAL_FAILURE(
        expect_summed(world, 100'000, {DataType::kInt32, {}, Determinism::kRuns}, entries, false));
    expect_taken(world, "two_level");
  }
}

// Floats of level `canonical` have the bits of the tree over ranks: where nodes are no subtrees of
// it, or there are none, another algorithm is taken though this one is forced.
TEST(TwoLevel, IsNotTakenWhereItsBitsWouldBeOthers) {
  SeededRandom random(5);
  using Machine = std::string (*)(int rank);
  const Machine machines[] = {[](int rank) { return std::to_string(rank % 2); },  // in turn
                              [](int rank) { return std::to_string(rank / 3); },  // of three
                              [](int) { return std::string("one"); },
                              [](int rank) { return std::to_string(rank); },
                              [](int rank) { return std::to_string(rank / 4); }};  // of 4 and 2
  for (const Machine machine : machines) {
    World world(6, 6);
    ASSERT_TRUE(world.meet(machine).ok());
    for (CommContext& context : world.contexts) context.sparse_sum_algorithm = "two_level";
    ASSERT_NO_FATAL_FAILURE(expect_summed(
        world, 50'000, {}, random_ranks(6, 50'000, 0.05, DataType::kFloat32, random), false));
    for (const CallReport& report : world.reports) {
      EXPECT_STRNE(report.algorithm, "two_level");
      EXPECT_STREQ(report.algorithm, world.reports[0].algorithm);
    }
  }
}

// What leaves a node, over all its ranks.
TEST(TwoLevel, BytesBetweenNodesAreThoseOfTheFormula) {
  SeededRandom random(6);
  constexpr std::uint64_t kCount = 1 << 20;
  for (const Layout layout : kLayouts) {
    const std::vector<Entries> entries =
        random_ranks(layout.ranks, kCount, 0.01, DataType::kFloat32, random);
    World world(layout.ranks, 10);  // coded
    ASSERT_TRUE(world.meet([&](int rank) { return std::to_string(rank / layout.each); }).ok());
    for (CommContext& context : world.contexts) context.sparse_sum_algorithm = "two_level";
    ASSERT_NO_FATAL_FAILURE(expect_summed(world, kCount, {}, entries, false));
    expect_taken(world, "two_level");
    const double nodes = layout.ranks / layout.each;
    for (int node = 0; node < layout.ranks / layout.each; ++node) {
      std::vector<std::uint64_t> together;
      double sent = 0;
      for (int rank = node * layout.each; rank < (node + 1) * layout.each; ++rank) {
        const std::vector<std::uint64_t>& own = entries[static_cast<std::size_t>(rank)].indices;
        together.insert(together.end(), own.begin(), own.end());
        for (int peer = 0; peer < layout.ranks; ++peer)
          sent += peer / layout.each == node
                      ? 0
                      : static_cast<double>(world.party.bytes_sent(rank, peer));
      }
      std::sort(together.begin(), together.end());
      together.erase(std::unique(together.begin(), together.end()), together.end());
      const double entries_sent = (nodes - 1) / nodes * static_cast<double>(together.size()) +
                                  (nodes - 1) / nodes * static_cast<double>(world.calls[0].out_nnz);
      EXPECT_LE(sent, 1.05 * entries_sent * 5.01)
          << layout.ranks << " ranks, " << layout.each << " a node";
      EXPECT_GE(sent, 0.8 * entries_sent * 4) << "what did not go between nodes";
    }
  }
}

// A call on 4 ranks in 2 nodes: that it ends at all is what is tested.
struct FaultyCall {
  FaultyCall(const transport::FaultPlan& plan, std::span<const Entries> entries)
      : world(4, plan.seed, {.faults = &plan}), outputs(4, test::Output(40'000, 4)) {
    world.force("two_level");
    for (std::size_t r = 0; r < 4; ++r) {
      world.calls[r].indices = entries[r].indices;
      world.calls[r].values = entries[r].values.data();
      world.calls[r].count = 40'000;
      world.calls[r].out_indices = outputs[r].indices.data();
      world.calls[r].out_values = outputs[r].values.data();
      world.calls[r].out_capacity = 40'000;
    }
    outcome = world.run();
  }
  World world;
  std::vector<test::Output> outputs;
  transport::SimOutcome outcome;
};

TEST(TwoLevel, ADeathEndsTheCallOnAllRanks) {
  setenv("SPARCL_DEBUG", "off", 0);
  SeededRandom random(7);
  const std::vector<Entries> entries = random_ranks(4, 40'000, 0.2, DataType::kFloat32, random);
  int poisoned = 0;
  for (const int dead : {0, 3}) {
    for (std::uint64_t at = 0; at < 24; ++at) {
      SCOPED_TRACE(testing::Message() << "rank " << dead << " dies at operation " << at);
      const transport::FaultPlan plan{at,
                                      {{.fault = transport::Fault::kKill, .at = at, .rank = dead}}};
      FaultyCall call(plan, entries);
      ASSERT_TRUE(call.outcome.ok()) << call.outcome.report;
      for (int rank = 0; rank < 4; ++rank) {
        if (call.world.party.is_killed(rank)) continue;
        const Status& result = call.world.party.result(rank);
        if (result.ok()) continue;
        ++poisoned;
        EXPECT_EQ(result.code(), Code::kRemoteError) << result.message();
        EXPECT_NE(result.message().find("rank " + std::to_string(dead)), std::string::npos)
            << result.message();
      }
    }
  }
  EXPECT_GT(poisoned, 60);
}

TEST(TwoLevel, DamagedMessagesEndIt) {
  setenv("SPARCL_DEBUG", "off", 0);
  SeededRandom random(8);
  const std::vector<Entries> entries = random_ranks(4, 40'000, 0.2, DataType::kFloat32, random);
  constexpr transport::Fault kFaults[] = {transport::Fault::kCorrupt, transport::Fault::kTruncate,
                                          transport::Fault::kDuplicate};
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const transport::FaultPlan plan = transport::FaultPlan::random(seed, 4, 30, kFaults);
    FaultyCall call(plan, entries);
    ASSERT_TRUE(call.outcome.ok()) << plan.describe() << ": " << call.outcome.report;
    refused += call.world.party.result(0).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 10);
}

TEST(TwoLevel, IsChosenWhereLinksBetweenNodesAreSlow) {
  SumShape shape{16, std::uint64_t{1} << 24, 1 << 17, 4};
  const auto chosen = [&](const LinkCost& link, Determinism determinism) {
    return std::string(sparse_sum::plan_sparse_sum(link, shape, determinism, "auto").row->name);
  };
  EXPECT_NE(chosen(slow_link(), Determinism::kCanonical), "two_level") << "no nodes";
  shape.set_nodes(test::nodes_of(16, 8));
  EXPECT_EQ(chosen(slow_link(), Determinism::kCanonical), "two_level");
  EXPECT_NE(chosen(slow_link(), Determinism::kRuns), "two_level") << "not in rank order";
  shape.nodes_are_subtrees = false;
  EXPECT_NE(chosen(slow_link(), Determinism::kCanonical), "two_level") << "other bits";
  EXPECT_STREQ(sparse_sum::plan_sparse_sum(slow_link(), shape, Determinism::kCanonical, "two_level")
                   .row->name,
               chosen(slow_link(), Determinism::kCanonical).c_str())
      << "forced, but as auto";
  EXPECT_STREQ(
      sparse_sum::plan_sparse_sum(slow_link(), shape, Determinism::kRuns, "two_level").row->name,
      "two_level")
      << "forced";
}

}  // namespace
}  // namespace sparcl::collectives
