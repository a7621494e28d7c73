#pragma once
// What a change looks like, what it costs in each mode, and how long it takes to reach all ranks.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::tool {

struct ModeCost {
  std::string name;
  std::uint64_t bytes = 0;
  double seconds = 0;  // of encoding, here and now, reading the files included
};

struct ChangeShape {
  std::uint64_t elements = 0;
  std::uint64_t changed = 0;
  std::uint64_t dense_bytes = 0;
  // Of groups of 128 elements, how many hold a change where changes are strewn independently, over
  // how many do: 1 not clustered.
  double clustering = 1;
  // Entropy of the positions in bits a change: blind, and given the top eight bits of the old
  // magnitude, which the receiver knows.
  double position_bits = 0;
  double position_bits_given_old = 0;
  double unit_steps = 0;  // share of changes by one unit in the last place

  double density() const {
    return elements == 0 ? 0 : static_cast<double>(changed) / static_cast<double>(elements);
  }
};

struct Advice {
  ChangeShape shape;
  std::vector<ModeCost> modes;  // of files, as sparcl diff --mode writes them; the first: auto, the
                                // cheapest for each block
  ModeCost broadcast;           // as a root sends it: sooner encoded, and sometimes larger
  std::string best_mode;        // of those that are forced
  std::string sparse_algorithm;
  std::string dense_algorithm;
  double sparse_seconds = 0;  // encoding overlaps with sending
  double dense_seconds = 0;
  bool sparse_wins = false;
  std::optional<double> dense_wins_above;  // a density; absent: never on this link
};

struct AdviseOptions {
  std::string first;
  std::string second;
  double link_gbit = 10;
  int ranks = 8;
};

// Fills the predictions of an advice whose shape and modes are known.
void predict(const AdviseOptions& options, Advice& advice);

// Mismatch where the two files have not the same tensors.
Result<Advice> advise(const AdviseOptions& options);

}  // namespace sparcl::tool
