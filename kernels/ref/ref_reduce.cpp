#include "kernels/ref/ref_reduce.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/ref/ref_access.hpp"
#include "kernels/ref/ref_combine.hpp"
#include "src/base/number.hpp"

namespace sparcl::kernels {
namespace {

using ref::combined;
using ref::load;
using ref::store;

template <class T>
struct Native {
  using Accumulator = T;
  static constexpr std::size_t kBytes = sizeof(T);
  static T widen(const std::byte* values, std::size_t i) {
    return static_cast<T>(load<T>(values, i) + T{0});
  }
  static void narrow(T value, std::byte* values, std::size_t i) {
    if constexpr (std::is_floating_point_v<T>)
      value = std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
    store(values, i, value);
  }
};

struct Truth : Native<std::uint8_t> {
  static std::uint8_t widen(const std::byte* values, std::size_t i) {
    return load<std::uint8_t>(values, i) != 0 ? 1 : 0;
  }
};

template <DataType kType>
struct SmallFloat {
  using Accumulator = float;
  static constexpr std::size_t kBytes =
      kType == DataType::kFloat16 || kType == DataType::kBfloat16 ? 2 : 1;
  static float widen(const std::byte* values, std::size_t i) {
    return static_cast<float>(load_number(kType, values + i * kBytes)) + 0.0F;
  }
  static void narrow(float value, std::byte* values, std::size_t i) {
    store_number(kType, value, values + i * kBytes);
  }
};

template <class Format>
void widen(const std::byte* values, std::size_t count, std::byte* accumulators) {
  for (std::size_t i = 0; i < count; ++i) store(accumulators, i, Format::widen(values, i));
}

template <class Format>
void narrow(const std::byte* accumulators, std::size_t count, std::byte* values) {
  for (std::size_t i = 0; i < count; ++i)
    Format::narrow(load<typename Format::Accumulator>(accumulators, i), values, i);
}

template <class T>
void divide(std::byte* accumulators, std::size_t count, std::uint32_t divisor) {
  for (std::size_t i = 0; i < count; ++i) {
    const T value = load<T>(accumulators, i);
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
      store(accumulators, i,
            static_cast<T>(static_cast<std::int64_t>(value) / static_cast<std::int64_t>(divisor)));
    } else if constexpr (std::is_integral_v<T>) {
      store(accumulators, i, static_cast<T>(static_cast<std::uint64_t>(value) / divisor));
    } else {
      store(accumulators, i, value / static_cast<T>(divisor));
    }
  }
}

template <class T, ReduceOp kOp>
void combine(std::byte* into, const std::byte* other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    store(into, i, combined<T, kOp>(load<T>(into, i), load<T>(other, i)));
}

template <class Format>
ReduceKernels kernels_of() {
  using T = typename Format::Accumulator;
  return {sizeof(T),
          widen<Format>,
          narrow<Format>,
          divide<T>,
          {combine<T, ReduceOp::kSum>, combine<T, ReduceOp::kProd>, combine<T, ReduceOp::kMax>,
           combine<T, ReduceOp::kMin>}};
}

ReduceKernels truth_kernels() {
  ReduceKernels kernels = kernels_of<Truth>();
  kernels.combine[static_cast<std::size_t>(ReduceOp::kSum)] = combine<std::uint8_t, ReduceOp::kMax>;
  kernels.combine[static_cast<std::size_t>(ReduceOp::kProd)] =
      combine<std::uint8_t, ReduceOp::kMin>;
  return kernels;
}

}  // namespace

ReduceTable reference_reduces() {
  ReduceTable table{};
  const auto set = [&](DataType type, const ReduceKernels& kernels) {
    table[static_cast<std::size_t>(type)] = kernels;
  };
  set(DataType::kInt8, kernels_of<Native<std::int8_t>>());
  set(DataType::kUint8, kernels_of<Native<std::uint8_t>>());
  set(DataType::kInt16, kernels_of<Native<std::int16_t>>());
  set(DataType::kUint16, kernels_of<Native<std::uint16_t>>());
  set(DataType::kInt32, kernels_of<Native<std::int32_t>>());
  set(DataType::kUint32, kernels_of<Native<std::uint32_t>>());
  set(DataType::kInt64, kernels_of<Native<std::int64_t>>());
  set(DataType::kUint64, kernels_of<Native<std::uint64_t>>());
  set(DataType::kFloat16, kernels_of<SmallFloat<DataType::kFloat16>>());
  set(DataType::kBfloat16, kernels_of<SmallFloat<DataType::kBfloat16>>());
  set(DataType::kFloat8e4m3, kernels_of<SmallFloat<DataType::kFloat8e4m3>>());
  set(DataType::kFloat8e5m2, kernels_of<SmallFloat<DataType::kFloat8e5m2>>());
  set(DataType::kFloat32, kernels_of<Native<float>>());
  set(DataType::kFloat64, kernels_of<Native<double>>());
  set(DataType::kBool, truth_kernels());
  return table;
}

}  // namespace sparcl::kernels
