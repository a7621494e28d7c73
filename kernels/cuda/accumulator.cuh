#pragma once
// The accumulators that top-k compares and sums, as in kernels/accumulate.hpp. Each number has one
// bit pattern: never -0, one NaN.

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device_work.hpp"
#include "kernels/cuda/small_float.cuh"

namespace sparcl::kernels::cuda {

// Each NaN becomes the quiet NaN.
template <class Accumulator>
__device__ inline Accumulator with_one_nan(Accumulator value) {
  if constexpr (std::is_same_v<Accumulator, float>) {
    if (value != value) return bits_as<float>(std::uint32_t{0x7fc00000});
  } else if constexpr (std::is_same_v<Accumulator, double>) {
    if (value != value) return bits_as<double>(std::uint64_t{0x7ff8000000000000});
  }
  return value;
}

template <class Accumulator>
__device__ inline Accumulator canonical(Accumulator value) {
  if constexpr (std::is_floating_point_v<Accumulator>) {
    if (value == 0) return Accumulator{0};
  }
  return with_one_nan(value);
}

template <TopKType kType>
struct Elements {
  static constexpr bool kIsHalf = kType == TopKType::kFloat16 || kType == TopKType::kBfloat16;
  static constexpr bool kIsByte = kType == TopKType::kFloat8e4m3 || kType == TopKType::kFloat8e5m2;
  static constexpr bool kIsSigned = kType == TopKType::kInt32 || kType == TopKType::kInt64;
  static constexpr bool kIsWord = kType == TopKType::kInt32 || kType == TopKType::kUint32;
  using Accumulator = std::conditional_t<
      kIsHalf || kIsByte || kType == TopKType::kFloat32, float,
      std::conditional_t<kType == TopKType::kFloat64, double,  // integers as unsigned ones, which
                                                               // wrap around
                         std::conditional_t<kIsWord, std::uint32_t, std::uint64_t>>>;
  using Stored = std::conditional_t<kIsHalf, std::uint16_t,
                                    std::conditional_t<kIsByte, std::uint8_t, Accumulator>>;

  __device__ static Accumulator widen(Stored value) {
    if constexpr (kType == TopKType::kBfloat16)
      return Bfloat16::widen(value);
    else if constexpr (kType == TopKType::kFloat16)
      return Float16::widen(value);
    else if constexpr (kType == TopKType::kFloat8e4m3)
      return Float8e4m3::widen(value);
    else if constexpr (kType == TopKType::kFloat8e5m2)
      return Float8e5m2::widen(value);
    else
      return value;
  }
  __device__ static Accumulator load(const void* values, std::uint64_t i) {
    return widen(static_cast<const Stored*>(values)[i]);
  }

  // Rounds once, as NarrowKernel does.
  __device__ static Stored narrow(Accumulator value) {
    if constexpr (kType == TopKType::kBfloat16)
      return static_cast<Stored>(Bfloat16::narrow(value));
    else if constexpr (kType == TopKType::kFloat16)
      return static_cast<Stored>(Float16::narrow(value));
    else if constexpr (kType == TopKType::kFloat8e4m3)
      return static_cast<Stored>(Float8e4m3::narrow(value));
    else if constexpr (kType == TopKType::kFloat8e5m2)
      return static_cast<Stored>(Float8e5m2::narrow(value));
    else
      return with_one_nan(value);
  }

  // As DivideKernel: integers round towards zero.
  __device__ static Accumulator divided(Accumulator value, std::uint32_t divisor) {
    if constexpr (kIsSigned) {
      const auto number = static_cast<std::make_signed_t<Accumulator>>(value);
      return static_cast<Accumulator>(static_cast<std::int64_t>(number) /
                                      static_cast<std::int64_t>(divisor));
    } else {
      return value / static_cast<Accumulator>(divisor);
    }
  }

  __device__ static Accumulator canonical(Accumulator value) { return cuda::canonical(value); }

  __device__ static std::uint64_t key(Accumulator value) {
    if constexpr (std::is_same_v<Accumulator, float>)
      return bits_as<std::uint32_t>(value) & 0x7fffffffU;
    else if constexpr (std::is_same_v<Accumulator, double>)
      return bits_as<std::uint64_t>(value) & 0x7fffffffffffffffU;
    else if constexpr (kIsSigned)
      return (value >> (8 * sizeof(Accumulator) - 1)) != 0
                 ? static_cast<Accumulator>(Accumulator{0} - value)
                 : value;
    else
      return value;
  }

  // acc[i], both before and after a pass has written it to the residual. residual nullptr: there is
  // none.
  __device__ static Accumulator sum(const void* values, const void* residual, std::uint64_t i) {
    const Accumulator value = load(values, i);
    return canonical(
        residual == nullptr
            ? value
            : static_cast<Accumulator>(value + static_cast<const Accumulator*>(residual)[i]));
  }
  __device__ static Accumulator left(const void* values, const void* residual, std::uint64_t i) {
    return residual == nullptr ? canonical(load(values, i))
                               : static_cast<const Accumulator*>(residual)[i];
  }
};

}  // namespace sparcl::kernels::cuda
