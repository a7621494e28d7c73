#pragma once
// How few bits a change can take: plug-in entropies of what is there. Headers and models are not in
// them.

#include <cstddef>
#include <cstdint>

#include "src/base/data_type.hpp"

namespace sparcl::bench {

struct Limit {            // bits a change
  double place_bits = 0;  // where it is
  double value_bits = 0;  // what it becomes, given what it was
  bool known = false;     // false where nothing changes, or where values are too many to be counted
                          // (above 16 bits)
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
