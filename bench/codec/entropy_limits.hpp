#pragma once
// Lower limits for the bits of a change: plug-in entropies of the input, without headers and
// models.

#include <cstddef>
#include <cstdint>

#include "src/base/data_type.hpp"

namespace sparcl::bench {

struct Limit {            // bits a change
  double place_bits = 0;  // of its position
  double value_bits = 0;  // of its new value, given the old one
  bool known =
      false;  // false if nothing changes, or if there are too many values to count (above 16 bits)
  double bits() const { return place_bits + value_bits; }
};

struct Limits {
  std::uint64_t changed = 0;
  Limit blind;      // independent places, steps as they came
  Limit given_old;  // both given the exponent of the old value, which the receiver holds; of
                    // integers the same as blind
};

Limits limits_of(DataType type, const std::byte* base, const std::byte* target,
                 std::uint64_t count);

// Bits of all places given the chain of two states that drew them (bench_data.hpp, Clusters): the
// forward algorithm (Rabiner 1989).
double chain_place_bits(const std::uint16_t* base, const std::uint16_t* target, std::uint64_t count,
                        double inside, double leave, double enter);

// Bits of all places where a share `active` of the blocks was drawn, and in these a share `inside`
// of the elements.
double block_place_bits(const std::uint16_t* base, const std::uint16_t* target, std::uint64_t count,
                        std::uint64_t block, double active, double inside);

}  // namespace sparcl::bench
