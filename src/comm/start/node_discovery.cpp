#include "src/comm/start/node_discovery.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

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

Task find_nodes(CommContext& comm, transport::Channel channel) {
  const int rank = comm.engine->transport().rank(), ranks = comm.engine->transport().size();
  comm.oversubscription = oversubscription_of(comm);
  Neighbours own{static_cast<std::uint32_t>(rank), 0};
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
  log_debug("rank {} knows of {} nodes of {} ranks", rank, comm.node_map.nodes.size(),
            comm.node_map.ranks_per_node());
  co_return Status();
}

}  // namespace sparcl::comm
