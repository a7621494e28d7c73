#pragma once
// The part of this program that is about sparcl: weights that are the same, bit for bit, on all ranks.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parameter_layout.hpp"
#include "sparcl/sparcl.hpp"

namespace training {

class ReplicatedWeights {
 public:
  ReplicatedWeights(sparcl::Comm& comm, const ParameterLayout& layout);

  // This rank's own copy. Rank 0 writes new weights here before it calls update.
  std::span<sparcl::bfloat16> values() { return values_; }

  // Collective: on return all ranks hold rank 0's values, having received what changed since the last update, and have checked them
  // against rank 0's hash. Throws sparcl::Error, or std::runtime_error if the hashes differ.
  sparcl::Report update(std::uint64_t version);

  sparcl::Hash hash() const { return state_.hash(); }

 private:
  sparcl::Comm& comm_;
  std::vector<sparcl::bfloat16> values_;
  sparcl::State state_;
};

// Collective: everybody's `mine` (as many elements on each rank), in rank order, on every rank.
template <class T>
std::vector<T> gather_from_all(sparcl::Comm& comm, std::span<const T> mine) {
  std::vector<T> all(mine.size() * static_cast<std::size_t>(comm.size()));
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::span<T> part = std::span(all).subspan(mine.size() * static_cast<std::size_t>(rank), mine.size());
    if (rank == comm.rank()) std::copy(mine.begin(), mine.end(), part.begin());
    comm.broadcast_delta(part, {}, rank);  // no base: the ranks hold nothing yet
  }
  return all;
}

// Collective: rank 0's text on every rank.
std::string share_text(sparcl::Comm& comm, const std::string& text);

}  // namespace training
