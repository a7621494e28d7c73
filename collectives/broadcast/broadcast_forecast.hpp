#pragma once
// Predicts how long a change takes to reach all ranks, and when the whole array is faster.

#include <optional>
#include <string>

#include "src/model/files/mode_costs.hpp"

namespace sparcl::collectives::broadcast {

struct BroadcastForecast {
  std::string sparse_algorithm;
  std::string dense_algorithm;
  double sparse_seconds = 0;  // encoding overlaps with sending
  double dense_seconds = 0;
  bool sparse_wins = false;
  std::optional<double> dense_wins_above;  // a density; absent: never on this link
};

// update: the change as a root encodes it. link_gbit: between two ranks. ranks: the root included.
BroadcastForecast forecast(const model::ChangeShape& shape, const model::ModeCost& update,
                           double link_gbit, int ranks);

}  // namespace sparcl::collectives::broadcast
