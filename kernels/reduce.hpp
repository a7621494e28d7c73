#pragma once
// Contracts of the kernels that combine the same elements of several ranks. Values are widened to
// accumulators, combined in the caller's order, and narrowed again. Floats of 8 and 16 bits
// accumulate as float32 and are rounded once, to nearest, ties to even. Other types accumulate as
// they are, integers modulo their range. Memory space: host. Runs under a FloatEnvironment
// (base/float_environment.hpp), so that all ranks round alike.
//
// Each number has one bit pattern: -0 is widened to +0, and each NaN is narrowed to its type's
// quiet NaN.

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/base/data_type.hpp"

namespace sparcl::kernels {

enum class ReduceOp : std::uint8_t {
  kSum,
  kProd,
  kMax,
  kMin
};  // a mean is a sum, divided in the end
constexpr std::size_t kReduceOps = 4;

// values: any alignment. accumulators: aligned as kAccumulatorAlignment.
constexpr std::size_t kAccumulatorAlignment = 64;
using WidenKernel = void(const std::byte* values, std::size_t count, std::byte* accumulators);
using NarrowKernel = void(const std::byte* accumulators, std::size_t count, std::byte* values);

// into[i] = into[i] op other[i], both accumulators. max and min of a NaN and anything are NaN.
// bool: sum and max are "or", prod and min are "and".
using CombineKernel = void(std::byte* into, const std::byte* other, std::size_t count);

// Each accumulator by `divisor` > 0: floats are rounded to nearest, integers towards zero.
using DivideKernel = void(std::byte* accumulators, std::size_t count, std::uint32_t divisor);

struct ReduceKernels {  // for one data type
  std::uint8_t accumulator_bytes;
  WidenKernel* widen;
  NarrowKernel* narrow;
  DivideKernel* divide;
  std::array<CombineKernel*, kReduceOps> combine;  // by ReduceOp
};

// By the number of the data type; empty if not supported.
using ReduceTable = std::array<ReduceKernels, static_cast<std::size_t>(DataType::kBool) + 1>;

}  // namespace sparcl::kernels
