#pragma once
// The element types that have accumulators, as routines and as the host know them, and values of
// them. After the emulation.

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/accumulator.cuh"
#include "src/base/data_type.hpp"

namespace sparcl::test {

// A type of such words.
template <class Word>
DataType type_of() {
  return sizeof(Word) == 1   ? DataType::kUint8
         : sizeof(Word) == 2 ? DataType::kBfloat16
         : sizeof(Word) == 4 ? DataType::kFloat32
                             : DataType::kFloat64;
}

template <kernels::cuda::TopKType kType, DataType kData>
struct Pair {
  static constexpr kernels::cuda::TopKType kTopK = kType;
  static constexpr DataType kDataType = kData;
  using E = kernels::cuda::Elements<kType>;
  using Accumulator = typename E::Accumulator;
  using Stored = typename E::Stored;
};
using AllTypes = testing::Types<Pair<kernels::cuda::TopKType::kFloat32, DataType::kFloat32>,
                                Pair<kernels::cuda::TopKType::kFloat16, DataType::kFloat16>,
                                Pair<kernels::cuda::TopKType::kBfloat16, DataType::kBfloat16>,
                                Pair<kernels::cuda::TopKType::kFloat8e4m3, DataType::kFloat8e4m3>,
                                Pair<kernels::cuda::TopKType::kFloat8e5m2, DataType::kFloat8e5m2>,
                                Pair<kernels::cuda::TopKType::kFloat64, DataType::kFloat64>,
                                Pair<kernels::cuda::TopKType::kInt32, DataType::kInt32>,
                                Pair<kernels::cuda::TopKType::kUint32, DataType::kUint32>,
                                Pair<kernels::cuda::TopKType::kInt64, DataType::kInt64>,
                                Pair<kernels::cuda::TopKType::kUint64, DataType::kUint64>>;

// Values with ties, zeros and what is special; heavy: the sample sees none of the large ones.
template <class Stored>
std::vector<Stored> random_values(std::size_t count, std::uint64_t seed, unsigned kinds) {
  std::mt19937_64 random(seed);
  std::vector<Stored> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t kind = random() % 64;
    if constexpr (std::is_floating_point_v<Stored>) {
      values[i] = static_cast<Stored>(static_cast<double>(random() % 2001) / 7 - 143);
      if (kinds > 0 && kind == 0) values[i] = -Stored{0};
      if (kinds > 0 && kind == 1) values[i] = std::numeric_limits<Stored>::infinity();
      if (kinds > 1 && kind == 2) values[i] = -std::numeric_limits<Stored>::quiet_NaN();
      if (kinds > 0 && kind == 3) values[i] = static_cast<Stored>(1e-40);
    } else {
      values[i] = static_cast<Stored>(random());
      if (sizeof(Stored) > 2)
        values[i] = static_cast<Stored>(static_cast<std::int64_t>(random() % 2001) - 1000);
    }
    if (kinds > 0 && kind >= 40) values[i] = Stored{};
  }
  return values;
}

}  // namespace sparcl::test
