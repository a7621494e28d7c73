#include "kernels/ref/ref_accumulate.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/ref/ref_access.hpp"
#include "src/base/number.hpp"

namespace sparcl::kernels {
namespace {

using ref::load;
using ref::store;

// Integers as unsigned ones, which wrap around.
template <class T>
using Accumulator = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                                std::type_identity<T>>::type;

template <class T>
Accumulator<T> canonical(Accumulator<T> value) {
  if constexpr (std::is_integral_v<T>) return value;
  if (std::isnan(value)) return std::numeric_limits<T>::quiet_NaN();
  return value + T{0};
}

template <class T>
std::uint64_t key_of(Accumulator<T> value) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<std::uint32_t>(std::fabs(value));
  if constexpr (std::is_same_v<T, double>) return std::bit_cast<std::uint64_t>(std::fabs(value));
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    if (static_cast<T>(value) < 0) value = Accumulator<T>{0} - value;
  }
  return static_cast<std::uint64_t>(value);
}

// T: the accumulator.
template <DataType kType, class T>
Accumulator<T> load_as(const std::byte* values, std::size_t i) {
  if constexpr (kType == DataType::kFloat16 || kType == DataType::kBfloat16) {
    return static_cast<float>(load_number(kType, values + 2 * i));
  } else if constexpr (kType == DataType::kFloat8e4m3 || kType == DataType::kFloat8e5m2) {
    return static_cast<float>(load_number(kType, values + i));
  } else {
    return load<Accumulator<T>>(values, i);
  }
}

template <DataType kType, class T>
std::size_t pass(const std::byte* values, std::size_t count, std::byte* residual,
                 std::uint32_t first, std::uint64_t least, std::uint16_t* positions,
                 std::byte* taken) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    auto acc = load_as<kType, T>(values, i);
    if (residual != nullptr)
      acc = static_cast<Accumulator<T>>(acc + load<Accumulator<T>>(residual, i));
    acc = canonical<T>(acc);
    if (residual != nullptr) store(residual, i, acc);
    if (key_of<T>(acc) < least) continue;
    store(taken, found, acc);
    positions[found++] = static_cast<std::uint16_t>(first + i);
  }
  return found;
}

template <DataType kType, class T>
std::size_t take_large(const std::byte* values, std::size_t count, std::uint32_t first,
                       std::uint64_t least, std::uint16_t* positions, std::byte* taken) {
  return pass<kType, T>(values, count, nullptr, first, least, positions, taken);
}

template <DataType kType, class T>
void add(AccumulateTable& table) {
  table[static_cast<std::size_t>(kType)] = {pass<kType, T>, take_large<kType, T>};
}

}  // namespace

AccumulateTable reference_accumulates() {
  AccumulateTable table{};
  add<DataType::kInt32, std::int32_t>(table);
  add<DataType::kUint32, std::uint32_t>(table);
  add<DataType::kInt64, std::int64_t>(table);
  add<DataType::kUint64, std::uint64_t>(table);
  add<DataType::kFloat8e4m3, float>(table);
  add<DataType::kFloat8e5m2, float>(table);
  add<DataType::kFloat16, float>(table);
  add<DataType::kBfloat16, float>(table);
  add<DataType::kFloat32, float>(table);
  add<DataType::kFloat64, double>(table);
  return table;
}

}  // namespace sparcl::kernels
