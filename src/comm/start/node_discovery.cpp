#include "src/comm/start/node_discovery.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "src/base/log.hpp"
#include "src/comm/start/small_gather.hpp"

namespace sparcl::comm {

NodeMap node_map(std::span<const Neighbours> by_rank) {
  std::vector<std::vector<int>> by_first(by_rank.size());
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank].first > rank) return {};
    by_first[by_rank[rank].first].push_back(static_cast<int>(rank));
  }
  NodeMap map;
  for (std::vector<int>& ranks : by_first) {
    if (!ranks.empty()) map.nodes.push_back(std::move(ranks));
  }
  for (const std::vector<int>& ranks : map.nodes) {
    if (ranks.size() != map.nodes.front().size()) return {};
    for (const int rank : ranks) {
      if (by_rank[static_cast<std::size_t>(rank)].count != ranks.size()) return {};
    }
  }
  return map.nodes.size() > 1 && map.ranks_per_node() > 1 ? map : NodeMap{};
}

namespace {

using Groups = std::vector<std::vector<int>>;

// Groups by the ranks' keys, in the order of their first ranks.
template <class Key>
Groups groups_by(std::span<const Neighbours> by_rank, Key&& key) {
  Groups groups;
  std::map<std::uint64_t, std::size_t> known;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto [found, is_new] = known.emplace(key(by_rank[rank]), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(static_cast<int>(rank));
  }
  return groups;
}

// The first rank of the first group of `below` that does not lie in one group; -1: all do.
int first_split(const Groups& groups, const Groups& below, std::size_t ranks) {
  std::vector<std::size_t> group_of(ranks);
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (const int rank : groups[group]) group_of[static_cast<std::size_t>(rank)] = group;
  }
  const auto split = std::ranges::find_if(below, [&](const std::vector<int>& members) {
    return std::ranges::any_of(members, [&](int rank) {
      return group_of[static_cast<std::size_t>(rank)] !=
             group_of[static_cast<std::size_t>(members.front())];
    });
  });
  return split == below.end() ? -1 : split->front();
}

double oversubscription_of(const CommContext& comm) {
  const transport::Transport& transport = comm.engine->transport();
  int here = 1;
  for (int peer = 0; peer < transport.size(); ++peer) {
    const bool is_near = comm.window != nullptr ? comm.window->is_shared_with(peer)
                                                : transport.capabilities().single_node;
    here += peer != transport.rank() && is_near ? 1 : 0;
  }
  return std::max(1.0, here / static_cast<double>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))));
}

}  // namespace

PlaceTree place_tree(std::span<const Neighbours> by_rank, std::vector<int>* split) {
  PlaceTree tree;
  const auto add = [&](Groups groups) {
    const std::size_t before = tree.empty() ? by_rank.size() : tree.back().size();
    const int rank = tree.empty() ? -1 : first_split(groups, tree.back(), by_rank.size());
    if (rank >= 0 && split != nullptr && std::ranges::find(*split, rank) == split->end())
      split->push_back(rank);
    if (rank < 0 && groups.size() > 1 && groups.size() < before) tree.push_back(std::move(groups));
  };
  add(groups_by(by_rank, [](const Neighbours& each) { return std::uint64_t{each.first}; }));
  for (std::size_t level = kMaxPlaceLevels; level-- > 0;)
    add(groups_by(by_rank, [level](const Neighbours& each) { return each.places[level]; }));
  return tree;
}

Task find_nodes(CommContext& comm, transport::Channel channel) {
  const int rank = comm.engine->transport().rank(), ranks = comm.engine->transport().size();
  comm.oversubscription = oversubscription_of(comm);
  Neighbours own{static_cast<std::uint32_t>(rank), 0, comm.place};
  for (int peer = ranks; peer-- > 0;) {
    if (peer != rank && (comm.window == nullptr || !comm.window->is_shared_with(peer))) continue;
    own.first = static_cast<std::uint32_t>(peer);
    ++own.count;
  }
  std::vector<std::byte> all;
  Task gathering = small_gather(*comm.engine, channel, std::as_bytes(std::span(&own, 1)), all);
  SPARCL_CO_RETURN_IF_ERROR(co_await gathering);
  std::vector<Neighbours> by_rank(static_cast<std::size_t>(ranks));
  std::memcpy(by_rank.data(), all.data(), all.size());
  comm.node_map = node_map(by_rank);
  std::vector<int> split;
  comm.places = place_tree(by_rank, &split);
  for (const int other : split) {
    if (rank == 0)
      log_warn(
          "SPARCL_PLACE, or Slurm, gives ranks of the node or place of rank {} different wider "
          "places: that level is left out",
          other);
  }
  if (rank == 0) {
    for (const Groups& level : comm.places)
      log_info("places: aggregations have leaders of {} groups of the {} ranks", level.size(),
               ranks);
  }
  log_debug("rank {}: {} nodes of {} ranks (0: sparse sums do not use nodes), {} levels of places",
            rank, comm.node_map.nodes.size(), comm.node_map.ranks_per_node(), comm.places.size());
  co_return Status();
}

}  // namespace sparcl::comm
