#pragma once
// How elements of each type are widened, combined and narrowed: kernels/reduce.hpp, on a device.

#include <type_traits>

#include "kernels/cuda/accumulator.cuh"
#include "kernels/reduce.hpp"
#include "src/base/data_type.hpp"

namespace sparcl::kernels::cuda {

template <DataType kType>
struct Combined;

// As DivideKernel.
template <class T>
__device__ inline T divided_by(T value, std::uint32_t divisor) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool is_power = (divisor & (divisor - 1)) == 0;  // of two: the product is the quotient
    return is_power ? value * (1 / static_cast<T>(divisor)) : value / static_cast<T>(divisor);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(value) / static_cast<std::int64_t>(divisor));
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(value) / divisor);
  }
}

// Integers of 8 and 16 bits are combined in 32 bits; the lowest bits are the result.
template <class T>
struct CombinedNative {
  using Stored = T;
  using Word = std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>;
  using Accumulator = std::conditional_t<(sizeof(T) < 4), Word, T>;
  // -0 counts as +0.
  __device__ static Accumulator widen(T value) {
    if constexpr (std::is_floating_point_v<T>) return value == 0 ? T{0} : value;
    return value;
  }
  __device__ static T finished(Accumulator value, std::uint32_t divisor) {
    const T result = static_cast<T>(value);
    return with_one_nan(divisor > 1 ? divided_by(result, divisor) : result);
  }
};

template <class Small, class Word>
struct CombinedSmall {
  using Stored = Word;
  using Accumulator = float;
  __device__ static float widen(Word value) {
    return CombinedNative<float>::widen(Small::widen(value));
  }
  __device__ static Word finished(float value, std::uint32_t divisor) {
    return static_cast<Word>(Small::narrow(divisor > 1 ? divided_by(value, divisor) : value));
  }
};

struct CombinedTruth : CombinedNative<std::uint8_t> {
  __device__ static Accumulator widen(std::uint8_t value) { return value != 0 ? 1 : 0; }
};

// clang-format off
template <> struct Combined<DataType::kInt8> : CombinedNative<std::int8_t> {};
template <> struct Combined<DataType::kUint8> : CombinedNative<std::uint8_t> {};
template <> struct Combined<DataType::kInt16> : CombinedNative<std::int16_t> {};
template <> struct Combined<DataType::kUint16> : CombinedNative<std::uint16_t> {};
template <> struct Combined<DataType::kInt32> : CombinedNative<std::int32_t> {};
template <> struct Combined<DataType::kUint32> : CombinedNative<std::uint32_t> {};
template <> struct Combined<DataType::kInt64> : CombinedNative<std::int64_t> {};
template <> struct Combined<DataType::kUint64> : CombinedNative<std::uint64_t> {};
template <> struct Combined<DataType::kFloat32> : CombinedNative<float> {};
template <> struct Combined<DataType::kFloat64> : CombinedNative<double> {};
template <> struct Combined<DataType::kFloat16> : CombinedSmall<Float16, std::uint16_t> {};
template <> struct Combined<DataType::kBfloat16> : CombinedSmall<Bfloat16, std::uint16_t> {};
template <> struct Combined<DataType::kFloat8e4m3> : CombinedSmall<Float8e4m3, std::uint8_t> {};
template <> struct Combined<DataType::kFloat8e5m2> : CombinedSmall<Float8e5m2, std::uint8_t> {};
template <> struct Combined<DataType::kBool> : CombinedTruth {};
// clang-format on

// bool: a sum is "or", a product is "and".
template <DataType kType, ReduceOp kOp>
constexpr ReduceOp kOpOf = kType != DataType::kBool ? kOp
                           : kOp == ReduceOp::kSum  ? ReduceOp::kMax
                           : kOp == ReduceOp::kProd ? ReduceOp::kMin
                                                    : kOp;

// As CombineKernel: a comes before b; integers wrap around; a NaN makes max and min NaN.
template <ReduceOp kOp, class T>
__device__ inline T combined(T a, T b) {
  using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  if constexpr (kOp == ReduceOp::kSum)
    return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  if constexpr (kOp == ReduceOp::kProd)
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
  if constexpr (kOp == ReduceOp::kMax) return a > b || a != a ? a : b;
  if constexpr (kOp == ReduceOp::kMin) return a < b || a != a ? a : b;
}

}  // namespace sparcl::kernels::cuda
