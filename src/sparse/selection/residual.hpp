#pragma once
// What a rank sends of its selected elements, and what stays behind.

#include <cstdint>

#include "src/base/data_type.hpp"
#include "src/sparse/selection/support.hpp"

namespace sparcl::sparse {

// What values are rounded to before they are sent; sums are of what was sent.
enum class Wire : std::uint8_t { kSameType, kBfloat16, kScaled8 };

// How a value is rounded before it is sent.
struct WireType {
  DataType accumulator;    // of the call's elements
  DataType sent;           // one whose sums have these accumulators
  bool is_scaled = false;  // float32, rounded to 8 bits with scales (scaled_values.hpp)

  bool is_exact() const { return accumulator == sent && !is_scaled; }
};

// Values of types without float32 accumulators are not rounded.
WireType wire_type(DataType datatype, Wire wire);

// sent[i]: accumulators[i], rounded. Any alignment of `sent`.
void round_to_wire(const kernels::KernelSet& kernels, const WireType& wire,
                   const std::byte* accumulators, std::size_t count, std::byte* sent);

// What the receivers see of it, as accumulators.
void widen_from_wire(const kernels::KernelSet& kernels, const WireType& wire, const std::byte* sent,
                     std::size_t count, std::byte* accumulators);

// acc[i] -= what was sent of it, in place: +0 where that was all of it, infinities and NaN among
// them.
struct Rest {
  double squares = 0;    // of what stays, where that is a number
  double sent_mass = 0;  // the sum of |what was sent|
};
Rest leave_rest(const kernels::KernelSet& kernels, const WireType& wire, const std::byte* sent,
                std::size_t count, std::byte* acc);

// acc[i] -= means[i], in place, of accumulators of a float type; +0 where that is no number.
// Returns the sum of squares of what is left.
double leave_means(DataType accumulator, const std::byte* means, std::size_t count, std::byte* acc);

// acc of the support's elements: of the residual, where there is one, else of the caller's
// elements.
void gather_accumulators(const kernels::KernelSet& kernels, DataType datatype,
                         const Support& support, const std::byte* values, const std::byte* residual,
                         std::byte* accumulators);

void divide_accumulators(const kernels::KernelSet& kernels, DataType datatype,
                         std::byte* accumulators, std::size_t count, std::uint32_t divisor);

// The sum of |what was sent|.
double mass_of(DataType accumulator, const std::byte* accumulators, std::size_t count);

}  // namespace sparcl::sparse
