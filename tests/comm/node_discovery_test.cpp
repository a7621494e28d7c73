#include "src/comm/start/node_discovery.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/collectives/sparse_world.hpp"
#include "tests/support/temp_folder.hpp"

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

// A rank of a node of `first`, at places from the widest on.
Neighbours at(std::uint32_t first, std::string_view names) {
  const Result<PlaceHashes> hashes = hash_place(names);
  EXPECT_TRUE(hashes.ok()) << hashes.status().message();
  return {first, 1, hashes.ok() ? *hashes : PlaceHashes()};
}

TEST(PlaceTree, HasALevelForEachWiderPlace) {
  using Groups = std::vector<std::vector<int>>;
  const Groups nodes{{0, 1}, {2, 3}, {4, 5}, {6, 7}}, racks{{0, 1, 2, 3}, {4, 5}, {6, 7}},
      rows{{0, 1, 2, 3, 4, 5}, {6, 7}};
  const Told told{at(0, "a.x"), at(0, "a.x"), at(2, "a.x"), at(2, "a.x"),
                  at(4, "a.y"), at(4, "a.y"), at(6, "b.x"), at(6, "b.x")};
  EXPECT_THAT(place_tree(told), ElementsAre(nodes, racks, rows));
  const Told alone{at(0, "b"), at(1, ""), at(2, "b"), at(3, "")};
  EXPECT_THAT(place_tree(alone), ElementsAre(Groups{{0, 2}, {1, 3}})) << "one rank a node";
  const Told one{at(0, "a.x"), at(0, "a.x"), at(2, "a.x")};
  EXPECT_THAT(place_tree(one), ElementsAre(Groups{{0, 1}, {2}})) << "all in one rack";
  const Told torn{at(0, "a"), at(0, "b"), at(2, "a"), at(2, "b"), at(4, "c"), at(4, "c")};
  std::vector<int> reported;
  EXPECT_THAT(place_tree(torn, &reported), ElementsAre(Groups{{0, 1}, {2, 3}, {4, 5}}))
      << "a node in two racks";
  EXPECT_THAT(reported, ElementsAre(0)) << "once";
  EXPECT_THAT(place_tree(Told{at(0, "a")}), IsEmpty());
}

TEST(PlaceTree, NamesAreTakenFromTheWidestOn) {
  const PlaceHashes short_one = at(0, "a.b").places, long_one = at(0, "a.b.c.d.e.f").places;
  EXPECT_EQ(short_one[1], short_one[3]) << "on further levels it is in its last place";
  EXPECT_NE(short_one[0], short_one[1]);
  EXPECT_EQ(long_one, at(0, "a.b.c.d").places) << "the last names do not count";
  for (const char* wrong :
       {".a", "a.", "a..b", ".", "row1/rack7", "a b", "~", "row1,rack7", "# rack"})
    EXPECT_THAT(std::string(hash_place(wrong).status().message()),
                ::testing::HasSubstr("expected names with a dot between them"));
}

TEST(PlaceTree, NamesOfAFileThatEachNodeHas) {
  const test::TempFolder folder;
  const std::string path = folder / "rack";
  std::ofstream(path) << " row1.rack7\t\nmore\n";
  ::setenv("SPARCL_PLACE", path.c_str(), 1);
  const Result<PlaceHashes> read = own_place();
  ::setenv("SPARCL_PLACE", (path + ".none").c_str(), 1);
  const Result<PlaceHashes> missing = own_place();
  std::ofstream(path) << "a..b";
  ::setenv("SPARCL_PLACE", path.c_str(), 1);
  const Result<PlaceHashes> wrong = own_place();
  std::ofstream(path) << "\nrow1";
  const Result<PlaceHashes> empty = own_place();
  ::unsetenv("SPARCL_PLACE");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, at(0, "row1.rack7").places);
  EXPECT_THAT(std::string(missing.status().message()),
              ::testing::AllOf(::testing::HasSubstr("SPARCL_PLACE: "),
                               ::testing::HasSubstr(path + ".none")));
  for (const Result<PlaceHashes>& each : {wrong, empty})
    EXPECT_THAT(std::string(each.status().message()), ::testing::HasSubstr(path + ": "));
}

TEST(PlaceTree, SlurmsSwitches) {
  EXPECT_EQ(switches_in("s0.s4.s8.n17", "switch.switch.switch.node"), "s0.s4.s8");
  EXPECT_EQ(switches_in("n17", "node"), "");
  EXPECT_EQ(switches_in("s0.n17", "block.node"), "");
  EXPECT_EQ(switches_in("s0.s4.n17", "switch.node"), "");
  EXPECT_EQ(switches_in("", ""), "");
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
