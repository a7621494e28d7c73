#include "src/sparse/selection/residual.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "src/base/float_environment.hpp"
#include "src/base/number.hpp"
#include "src/sparse/selection/group_rounding.hpp"
#include "src/sparse/selection/scaled_values.hpp"

namespace sparcl::sparse {
namespace {

constexpr std::size_t kResidualChunk = 1024;  // elements: intermediate results stay in the L1 cache

// Rounds or widens in chunks, as the kernels want accumulators aligned.
struct alignas(kernels::kAccumulatorAlignment) Chunk {
  std::byte bytes[kResidualChunk * 8];
};

}  // namespace

WireType wire_type(DataType datatype, Wire wire) {
  const DataType accumulator = kernels::accumulator_type(datatype);
  if (wire == Wire::kSameType || accumulator != DataType::kFloat32) return {accumulator, datatype};
  if (wire == Wire::kBfloat16) return {accumulator, DataType::kBfloat16};
  return {accumulator, accumulator,
          wire == Wire::kScaled8   ? ValueForm::kScaled8
          : wire == Wire::kScaled4 ? ValueForm::kScaled4
                                   : ValueForm::kScaled2};
}

void round_to_wire(const kernels::KernelSet& kernels, const WireType& wire,
                   const std::byte* accumulators, std::size_t count, std::byte* sent) {
  if (wire.form == ValueForm::kScaled8) return round_to_scaled(accumulators, count, sent);
  if (wire.is_scaled()) return round_to_groups(wire.form, accumulators, count, sent);
  const FloatEnvironment ieee;
  const kernels::ReduceKernels& reduce = kernels.reduce_of(wire.sent);
  const std::size_t in = element_bytes(wire.accumulator), out = element_bytes(wire.sent);
  Chunk chunk;
  for (std::size_t i = 0; i < count; i += kResidualChunk) {
    const std::size_t own = std::min(kResidualChunk, count - i);
    std::memcpy(chunk.bytes, accumulators + i * in, own * in);
    reduce.narrow(chunk.bytes, own, sent + i * out);
  }
}

void widen_from_wire(const kernels::KernelSet& kernels, const WireType& wire, const std::byte* sent,
                     std::size_t count, std::byte* accumulators) {
  const FloatEnvironment ieee;
  const kernels::ReduceKernels& reduce = kernels.reduce_of(wire.sent);
  const std::size_t in = element_bytes(wire.sent), out = element_bytes(wire.accumulator);
  Chunk chunk;
  for (std::size_t i = 0; i < count; i += kResidualChunk) {
    const std::size_t own = std::min(kResidualChunk, count - i);
    reduce.widen(sent + i * in, own, chunk.bytes);
    std::memcpy(accumulators + i * out, chunk.bytes, own * out);
  }
}

Rest leave_rest(const kernels::KernelSet& kernels, const WireType& wire, const std::byte* sent,
                std::size_t count, std::byte* acc) {
  if (wire.is_exact()) {
    const Rest rest{0, mass_of(wire.accumulator, acc, count)};
    std::memset(acc, 0, count * element_bytes(wire.accumulator));
    return rest;
  }
  std::vector<float> seen(count);  // accumulators are float32
  widen_from_wire(kernels, wire, sent, count, reinterpret_cast<std::byte*>(seen.data()));
  const FloatEnvironment ieee;
  Rest rest{0, mass_of(wire.accumulator, reinterpret_cast<const std::byte*>(seen.data()), count)};
  for (std::size_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, acc + i * sizeof value, sizeof value);
    value = value == seen[i] || std::isnan(value) ? 0.0F : value - seen[i];
    std::memcpy(acc + i * sizeof value, &value, sizeof value);
    if (!std::isnan(value)) rest.squares += static_cast<double>(value) * static_cast<double>(value);
  }
  return rest;
}

namespace {

template <class T>
double leave_means_of(const std::byte* means, std::size_t count, std::byte* acc) {
  double squares = 0;
  const FloatEnvironment ieee;
  for (std::size_t i = 0; i < count; ++i) {
    T mean, value;
    std::memcpy(&mean, means + i * sizeof(T), sizeof mean);
    std::memcpy(&value, acc + i * sizeof(T), sizeof value);
    const T left = value - mean;
    value = std::isnan(left) || value == mean ? T{0} : left;
    std::memcpy(acc + i * sizeof(T), &value, sizeof value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  return squares;
}

}  // namespace

double leave_means(DataType accumulator, const std::byte* means, std::size_t count,
                   std::byte* acc) {
  return accumulator == DataType::kFloat64 ? leave_means_of<double>(means, count, acc)
                                           : leave_means_of<float>(means, count, acc);
}

void gather_accumulators(const kernels::KernelSet& kernels, DataType datatype,
                         const Support& support, const std::byte* values, const std::byte* residual,
                         std::byte* accumulators) {
  const DataType accumulator = kernels::accumulator_type(datatype);
  if (residual != nullptr) {
    support.gather(residual, element_bytes(accumulator), accumulators);
    return;
  }
  std::vector<std::byte> elements(support.size() * element_bytes(datatype));
  support.gather(values, element_bytes(datatype), elements.data());
  widen_from_wire(kernels, {accumulator, datatype}, elements.data(), support.size(), accumulators);
}

void divide_accumulators(const kernels::KernelSet& kernels, DataType datatype,
                         std::byte* accumulators, std::size_t count, std::uint32_t divisor) {
  const FloatEnvironment ieee;
  const kernels::ReduceKernels& reduce = kernels.reduce_of(datatype);
  const std::size_t width = reduce.accumulator_bytes;
  Chunk chunk;
  for (std::size_t i = 0; i < count; i += kResidualChunk) {
    const std::size_t own = std::min(kResidualChunk, count - i);
    std::memcpy(chunk.bytes, accumulators + i * width, own * width);
    reduce.divide(chunk.bytes, own, divisor);
    std::memcpy(accumulators + i * width, chunk.bytes, own * width);
  }
}

double mass_of(DataType accumulator, const std::byte* accumulators, std::size_t count) {
  const auto add_up =
      [&](const auto& load) {  // side by side, so that additions do not wait for each other
        std::array<double, 8> sums{};
        for (std::size_t i = 0; i < count; ++i) sums[i % sums.size()] += std::abs(load(i));
        return std::accumulate(sums.begin(), sums.end(), 0.0);
      };
  if (accumulator == DataType::kFloat32) {
    return add_up([accumulators](std::size_t i) {
      float value;
      std::memcpy(&value, accumulators + i * sizeof value, sizeof value);
      return static_cast<double>(value);
    });
  }
  return add_up([=](std::size_t i) {
    return load_number(accumulator, accumulators + i * element_bytes(accumulator));
  });
}

}  // namespace sparcl::sparse
