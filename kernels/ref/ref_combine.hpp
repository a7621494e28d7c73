#pragma once
// One element of a rank with the same one of another.

#include <cstdint>
#include <type_traits>

#include "kernels/reduce.hpp"

namespace sparcl::kernels::ref {

// Signed integers that wrap around are computed as unsigned ones.
template <class T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                             std::type_identity<T>>::type;

template <class T>
bool is_nan(T value) {
  return value != value;
}

template <class T, ReduceOp kOp>
T combined(T a, T b) {
  using W = Wrapping<T>;
  // Products of 16 bits would be signed integers by promotion, and might not fit.
  using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  if constexpr (kOp == ReduceOp::kSum)
    return static_cast<T>(static_cast<W>(static_cast<Wide>(a) + static_cast<Wide>(b)));
  if constexpr (kOp == ReduceOp::kProd)
    return static_cast<T>(static_cast<W>(static_cast<Wide>(a) * static_cast<Wide>(b)));
  if constexpr (kOp == ReduceOp::kMax) return a > b || is_nan(a) ? a : b;
  if constexpr (kOp == ReduceOp::kMin) return a < b || is_nan(a) ? a : b;
}

}  // namespace sparcl::kernels::ref
