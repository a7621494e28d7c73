#include "src/comm/start/node_discovery.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/collectives/sparse_world.hpp"

namespace sparcl::comm {
namespace {

using collectives::test::World;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Told = std::vector<Neighbours>;

TEST(NodeMap, NodesOfTheSameSize) {
  const NodeMap filled = node_map(Told{{0, 2}, {0, 2}, {2, 2}, {2, 2}, {4, 2}, {4, 2}});
  EXPECT_THAT(filled.nodes, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5)));
  EXPECT_EQ(filled.ranks_per_node(), 2);
  EXPECT_TRUE(filled.are_subtrees());
  const NodeMap in_turn = node_map(Told{{0, 2}, {1, 2}, {0, 2}, {1, 2}});
  EXPECT_THAT(in_turn.nodes, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_FALSE(in_turn.are_subtrees());
  const NodeMap threes = node_map(Told{{0, 3}, {0, 3}, {0, 3}, {3, 3}, {3, 3}, {3, 3}});
  EXPECT_EQ(threes.ranks_per_node(), 3);
  EXPECT_FALSE(threes.are_subtrees());
}

TEST(NodeMap, NoNodesWhereNothingIsGainedByThem) {
  EXPECT_THAT(node_map(Told{{0, 1}}).nodes, IsEmpty());
  EXPECT_THAT(node_map(Told{{0, 1}, {1, 1}, {2, 1}}).nodes, IsEmpty()) << "each on its own";
  EXPECT_THAT(node_map(Told{{0, 3}, {0, 3}, {0, 3}}).nodes, IsEmpty()) << "all on one";
  EXPECT_THAT(node_map(Told{{0, 2}, {0, 2}, {2, 1}}).nodes, IsEmpty()) << "of different sizes";
  EXPECT_THAT(node_map(Told{{0, 3}, {0, 2}, {0, 2}, {3, 3}, {3, 2}, {3, 2}}).nodes, IsEmpty())
      << "0 shares with 1 and 2, but not 1 with 2";
  EXPECT_THAT(node_map(Told{{1, 2}, {1, 2}, {2, 2}, {2, 2}}).nodes, IsEmpty())
      << "what no rank would say";
  EXPECT_EQ(NodeMap{}.ranks_per_node(), 1);
}

TEST(NodeDiscovery, FindsTheMachinesThatShareWindows) {
  const auto nodes_found = [](int ranks, const std::function<std::string(int rank)>& machine_of) {
    World world(ranks, 1);
    EXPECT_TRUE(world.meet(machine_of).ok());
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(world.party.result(rank).ok());
      EXPECT_EQ(world.contexts[static_cast<std::size_t>(rank)].node_map.nodes,
                world.contexts[0].node_map.nodes);
    }
    return world.contexts[0].node_map.nodes;
  };
  EXPECT_THAT(nodes_found(6, [](int rank) { return std::to_string(rank / 2); }),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5)));
  EXPECT_THAT(nodes_found(6, [](int rank) { return std::to_string(rank % 2); }),
              ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3, 5)));
  EXPECT_THAT(nodes_found(4, [](int) { return "one"; }), IsEmpty());
  EXPECT_THAT(nodes_found(3, [](int rank) { return std::to_string(rank); }), IsEmpty());
  EXPECT_THAT(nodes_found(5, [](int rank) { return std::to_string(rank / 3); }), IsEmpty());
}

}  // namespace
}  // namespace sparcl::comm
