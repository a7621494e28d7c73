#pragma once
// Small things that every rank tells all others.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sparcl/sparcl.hpp"

namespace training {

// Collective: `mine` of all ranks (equally many elements each), in rank order, on every rank.
template <class T>
std::vector<T> gather_from_all(sparcl::Comm& comm, std::span<const T> mine) {
  std::vector<T> all(mine.size() * static_cast<std::size_t>(comm.size()));
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::span<T> part =
        std::span(all).subspan(mine.size() * static_cast<std::size_t>(rank), mine.size());
    if (rank == comm.rank()) std::copy(mine.begin(), mine.end(), part.begin());
    comm.broadcast_delta(part, {}, rank);  // no base: the ranks hold nothing yet
  }
  return all;
}

// Collective: rank 0's text on every rank.
std::string share_text(sparcl::Comm& comm, const std::string& text);

}  // namespace training
