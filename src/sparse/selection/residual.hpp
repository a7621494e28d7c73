#pragma once
// The rounding of selected elements before they are sent, and the remainder in the residual.

#include <cstdint>

#include "src/base/data_type.hpp"
#include "src/sparse/parts/value_form.hpp"
#include "src/sparse/selection/support.hpp"

namespace sparcl::sparse {

// The type to which values are rounded before they are sent; sums are of the rounded values.
enum class Wire : std::uint8_t { kSameType, kBfloat16, kScaled8, kScaled4, kScaled2 };
constexpr Wire kLastWire = Wire::kScaled2;

// How a value is rounded before it is sent.
struct WireType {
  DataType accumulator;  // of the call's elements
  DataType sent;         // a type whose sums have these accumulators
  // Scaled: float32, rounded to fewer bits (scaled_values.hpp, group_rounding.hpp).
  ValueForm form = ValueForm::kUnmodified;

  bool is_scaled() const { return form != ValueForm::kUnmodified; }
  bool is_exact() const { return accumulator == sent && !is_scaled(); }
};

// Values of types without float32 accumulators are not rounded.
WireType wire_type(DataType datatype, Wire wire);

// sent[i]: accumulators[i], rounded. Any alignment of `sent`.
void round_to_wire(const kernels::KernelSet& kernels, const WireType& wire,
                   const std::byte* accumulators, std::size_t count, std::byte* sent);

// The values that receivers see, as accumulators.
void widen_from_wire(const kernels::KernelSet& kernels, const WireType& wire, const std::byte* sent,
                     std::size_t count, std::byte* accumulators);

// acc[i] -= its sent value, in place. The rest is +0 if both are equal, also for infinities and
// NaN.
struct Rest {
  double squares = 0;    // of the remaining values that are numbers
  double sent_mass = 0;  // the sum of |sent value|
};
Rest leave_rest(const kernels::KernelSet& kernels, const WireType& wire, const std::byte* sent,
                std::size_t count, std::byte* acc);

// acc[i] -= means[i], in place, for accumulators of a float type; +0 if the result is not a number.
// Returns the sum of squares of the remaining values.
double leave_means(DataType accumulator, const std::byte* means, std::size_t count, std::byte* acc);

// acc of the support's elements: from the residual, if there is one, otherwise from the caller's
// elements.
void gather_accumulators(const kernels::KernelSet& kernels, DataType datatype,
                         const Support& support, const std::byte* values, const std::byte* residual,
                         std::byte* accumulators);

void divide_accumulators(const kernels::KernelSet& kernels, DataType datatype,
                         std::byte* accumulators, std::size_t count, std::uint32_t divisor);

// The sum of |sent value|.
double mass_of(DataType accumulator, const std::byte* accumulators, std::size_t count);

}  // namespace sparcl::sparse
