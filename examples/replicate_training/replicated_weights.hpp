#pragma once
// The part of this program that is about sparcl: weights that are the same, bit for bit, on all
// ranks.

#include <cstdint>
#include <language_model/parameter_layout.hpp>
#include <span>
#include <vector>

#include "sparcl/sparcl.hpp"

namespace training {

class ReplicatedWeights {
 public:
  ReplicatedWeights(sparcl::Comm& comm, const ParameterLayout& layout);

  // This rank's own copy. Rank 0 writes new weights here before it calls update.
  std::span<sparcl::bfloat16> values() { return values_; }

  // Collective. All ranks receive the changes since the last update, then hold rank 0's values, and
  // check them against rank 0's hash. Throws sparcl::Error, or std::runtime_error if the hashes
  // differ.
  sparcl::Report update(std::uint64_t version);

  sparcl::Hash hash() const { return state_.hash(); }

 private:
  sparcl::Comm& comm_;
  std::vector<sparcl::bfloat16> values_;
  sparcl::State state_;
};

}  // namespace training
