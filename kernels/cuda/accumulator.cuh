#pragma once
// What top-k compares: accumulators, as kernels/accumulate.hpp has them. One pattern of bits a number: never -0, one NaN.

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/device_work.hpp"

namespace sparcl::kernels::cuda {

template <class To, class From>
__device__ inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

__device__ inline float number_of_half(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t rest = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
  if (rest >= 0x0f800000U) return bits_as<float>(sign | rest | 0x7f800000U);            // infinity, NaN
  if (rest >= 0x00800000U) return bits_as<float>(sign | (rest + (112U << 23)));         // normal
  const float magnitude = static_cast<float>(bits & 0x7fffU) * 5.9604644775390625e-8F;  // 2^-24: exact
  return bits_as<float>(bits_as<std::uint32_t>(magnitude) | sign);
}

template <TopKType kType>
struct Elements {
  static constexpr bool kIsSmall = kType == TopKType::kFloat16 || kType == TopKType::kBfloat16;
  using Accumulator =
      std::conditional_t<kIsSmall || kType == TopKType::kFloat32, float,
                         std::conditional_t<kType == TopKType::kFloat64, double,
                                            std::conditional_t<kType == TopKType::kInt32, std::uint32_t, std::uint64_t>>>;
  using Stored = std::conditional_t<kIsSmall, std::uint16_t, Accumulator>;

  __device__ static Accumulator load(const void* values, std::uint64_t i) {
    const Stored value = static_cast<const Stored*>(values)[i];
    if constexpr (kType == TopKType::kBfloat16)
      return bits_as<float>(static_cast<std::uint32_t>(value) << 16);
    else if constexpr (kType == TopKType::kFloat16)
      return number_of_half(value);
    else
      return value;
  }

  __device__ static Accumulator canonical(Accumulator value) {
    if constexpr (std::is_floating_point_v<Accumulator>) {
      if (value != value) {
        if constexpr (sizeof(Accumulator) == 4)
          return bits_as<float>(std::uint32_t{0x7fc00000});
        else
          return bits_as<double>(std::uint64_t{0x7ff8000000000000});
      }
      return value == 0 ? Accumulator{0} : value;
    } else {
      return value;
    }
  }

  __device__ static std::uint64_t key(Accumulator value) {
    if constexpr (sizeof(Accumulator) == 4 && std::is_floating_point_v<Accumulator>)
      return bits_as<std::uint32_t>(value) & 0x7fffffffU;
    else if constexpr (std::is_floating_point_v<Accumulator>)
      return bits_as<std::uint64_t>(value) & 0x7fffffffffffffffU;
    else
      return (value >> (8 * sizeof(Accumulator) - 1)) != 0 ? static_cast<Accumulator>(Accumulator{0} - value) : value;
  }

  // acc[i], before the pass has left it in the residual and after.
  __device__ static Accumulator sum(const TopKWork& work, std::uint64_t i) {
    const Accumulator value = load(work.values, i);
    return canonical(
        work.residual == nullptr ? value : static_cast<Accumulator>(value + static_cast<const Accumulator*>(work.residual)[i]));
  }
  __device__ static Accumulator left(const TopKWork& work, std::uint64_t i) {
    return work.residual == nullptr ? canonical(load(work.values, i)) : static_cast<const Accumulator*>(work.residual)[i];
  }
};

}  // namespace sparcl::kernels::cuda
