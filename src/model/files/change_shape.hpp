#pragma once
// Statistics of a change: density, clustering, predictability.

#include <cstdint>

#include "kernels/kernel_set.hpp"
#include "src/model/files/held_state.hpp"

namespace sparcl::model {

struct ChangeShape {
  std::uint64_t elements = 0;
  std::uint64_t changed = 0;
  std::uint64_t dense_bytes = 0;
  // Groups of 128 elements with a change: the number expected of independent changes, divided by
  // the actual number. 1: not clustered.
  double clustering = 1;
  // Entropy of the positions in bits for each change: without context, and given the top eight bits
  // of the old magnitude, which the receiver knows.
  double position_bits = 0;
  double position_bits_given_old = 0;
  double unit_steps = 0;  // share of changes by one unit in the last place

  double density() const {
    return elements == 0 ? 0 : static_cast<double>(changed) / static_cast<double>(elements);
  }
};

// One pass over two states of one schema; samples evenly spread pieces of very large ones. The
// caller checks the sources' status().
ChangeShape measure_shape(const StateView& base, const StateView& target,
                          const kernels::KernelSet& kernels);

// -p log2 p - (1 - p) log2 (1 - p)
double binary_entropy(double p);

}  // namespace sparcl::model
