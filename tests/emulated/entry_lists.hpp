#pragma once
// Lists of entries for tests of their merge, and what the host makes of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/kernel_set.hpp"

namespace sparcl::test::entries {

template <class Value, DataType kData>
struct Kind {
  using V = Value;
  static constexpr DataType kDataType = kData;
};

template <class V>
struct List {
  std::vector<std::uint64_t> indices;
  std::vector<V> values;
  std::uint64_t count = 0;
};

// An accumulator; -0 and NaNs of other bits are among them.
template <class V>
V random_value(std::mt19937_64& random) {
  if constexpr (std::is_integral_v<V>) {
    return static_cast<V>(random());
  } else {
    const std::uint64_t kind = random() % 16;
    if (kind == 0) return std::numeric_limits<V>::infinity();
    if (kind == 1) return -std::numeric_limits<V>::infinity();
    if (kind == 2) return -std::numeric_limits<V>::quiet_NaN();
    if (kind == 3) return -V{0};
    if (kind == 4) return std::numeric_limits<V>::denorm_min();
    return static_cast<V>(static_cast<double>(random() % 2'000'001) / 7 - 140'000);
  }
}

// `count` indices below `most`, each with the same chance.
template <class V>
List<V> random_list(std::size_t count, std::uint64_t most, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  List<V> list;
  for (std::uint64_t left = count, at = 0; left > 0; ++at) {
    if (random() % (most - at) >= left) continue;
    list.indices.push_back(at);
    list.values.push_back(random_value<V>(random));
    --left;
  }
  list.count = count;
  return list;
}

// As the host sums them, block by block; sums of a NaN are the type's.
template <class K>
List<typename K::V> merged_by_host(const List<typename K::V>& a, const List<typename K::V>& b) {
  using V = typename K::V;
  const kernels::KernelSet& host = kernels::reference_kernels();
  List<V> out;
  std::size_t i = 0, j = 0;
  const auto positions_from = [](const List<V>& list, std::size_t& at, std::uint64_t base) {
    std::vector<std::uint16_t> positions;
    for (; at < list.count && list.indices[at] < base + 65'536; ++at)
      positions.push_back(static_cast<std::uint16_t>(list.indices[at]));
    return positions;
  };
  while (i < a.count || j < b.count) {
    const std::uint64_t next_a = i < a.count ? a.indices[i] : UINT64_MAX,
                        next_b = j < b.count ? b.indices[j] : UINT64_MAX;
    const std::uint64_t base = std::min(next_a, next_b) / 65'536 * 65'536;
    const std::size_t first_a = i, first_b = j;
    const std::vector<std::uint16_t> of_a = positions_from(a, i, base),
                                     of_b = positions_from(b, j, base);
    std::vector<std::uint16_t> positions(of_a.size() + of_b.size() + kernels::kEntrySlack);
    std::vector<V> sums(positions.size()), numbers(positions.size());
    const std::size_t size =
        host.sparse_sum_of(K::kDataType, kernels::ReduceOp::kSum)
            .merge({of_a.data(), reinterpret_cast<const std::byte*>(a.values.data() + first_a),
                    of_a.size(), nullptr},
                   {of_b.data(), reinterpret_cast<const std::byte*>(b.values.data() + first_b),
                    of_b.size(), nullptr},
                   positions.data(), reinterpret_cast<std::byte*>(sums.data()));
    const kernels::ReduceKernels& reduce = host.reduce_of(K::kDataType);
    reduce.widen(reinterpret_cast<const std::byte*>(sums.data()), size,
                 reinterpret_cast<std::byte*>(numbers.data()));
    reduce.narrow(reinterpret_cast<const std::byte*>(numbers.data()), size,
                  reinterpret_cast<std::byte*>(sums.data()));
    for (std::size_t n = 0; n < size; ++n) {
      out.indices.push_back(base + positions[n]);
      out.values.push_back(sums[n]);
    }
  }
  out.count = out.indices.size();
  return out;
}

template <class V>
auto bits_of(V value) {
  return std::bit_cast<std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>>(value);
}

template <class V>
void expect_same(const List<V>& seen, const List<V>& wanted) {
  ASSERT_EQ(seen.count, wanted.count);
  for (std::size_t i = 0; i < wanted.count; ++i) {
    ASSERT_EQ(seen.indices[i], wanted.indices[i]) << i;
    ASSERT_EQ(bits_of(seen.values[i]), bits_of(wanted.values[i])) << i;
  }
}

}  // namespace sparcl::test::entries
