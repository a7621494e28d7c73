#include "src/sparse/selection/selection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "src/base/float_environment.hpp"
#include "src/base/number.hpp"

namespace sparcl::sparse {
namespace {

using kernels::KernelSet;
using Bytes = std::vector<std::byte>;

constexpr DataType kSelectedTypes[] = {
    DataType::kFloat64, DataType::kFloat32, DataType::kFloat16,    DataType::kBfloat16,
    DataType::kInt32,   DataType::kInt64,   DataType::kFloat8e4m3, DataType::kUint32};

std::vector<const KernelSet*> bodies() {
  std::vector<const KernelSet*> sets{&kernels::reference_kernels()};
  for (const KernelSet& set : kernels::all_cpu_kernels()) sets.push_back(&set);
  return sets;
}

// What a call gave, by itself.
struct Outcome {
  std::vector<std::uint64_t> indices;
  Bytes accumulators, residual;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome(DataType type, const Selected& selected, const Bytes& residual) {
  const std::size_t bytes =
      selected.indices.size() * element_bytes(kernels::accumulator_type(type));
  return {{selected.indices.begin(), selected.indices.end()},
          {selected.accumulators, selected.accumulators + bytes},
          residual};
}

std::uint64_t key_of(DataType accumulator, const std::byte* at) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, element_bytes(accumulator));
  const unsigned width = static_cast<unsigned>(8 * element_bytes(accumulator));
  const bool is_negative = (bits >> (width - 1)) != 0;
  if (info(accumulator).is_float) return bits & ~(std::uint64_t{1} << (width - 1));
  if (kernels::numbers_of(accumulator) == kernels::Numbers::kSigned && is_negative)
    return (0 - bits) << (64 - width) >> (64 - width);
  return bits;
}

// By the book: all accumulators, sorted. residual: empty for none.
Outcome expected(DataType type, const Bytes& values, Bytes residual, std::uint64_t count,
                 std::uint64_t k) {
  const FloatEnvironment ieee;
  const DataType accumulator = kernels::accumulator_type(type);
  const std::size_t width = element_bytes(accumulator);
  const bool has_feedback = !residual.empty();
  Bytes acc = residual;
  acc.resize(count * width);
  std::vector<std::uint16_t> positions(1 + kernels::kPositionSlack);
  for (std::uint64_t i = 0; i < count;
       ++i) {  // one by one: the sums themselves are the kernels' tests' matter
    const kernels::AccumulateKernels& reference = kernels::reference_kernels().accumulate_of(type);
    const std::byte* from = values.data() + i * element_bytes(type);
    std::byte taken[8];
    if (has_feedback) {
      reference.accumulate(from, 1, acc.data() + i * width, 0, 1, positions.data(), taken);
    } else if (reference.take_large(from, 1, 0, 1, positions.data(), taken) == 1) {
      std::memcpy(acc.data() + i * width, taken, width);
    }
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> order;  // complement of the key, index
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t key = key_of(accumulator, acc.data() + i * width);
    if (key != 0) order.emplace_back(~key, i);
  }
  std::sort(order.begin(), order.end());
  order.resize(std::min<std::size_t>(order.size(), k));
  Outcome all{{}, {}, has_feedback ? acc : Bytes()};
  for (const auto& entry : order) all.indices.push_back(entry.second);
  std::sort(all.indices.begin(), all.indices.end());
  for (const std::uint64_t i : all.indices) {
    all.accumulators.insert(all.accumulators.end(),
                            acc.begin() + static_cast<std::ptrdiff_t>(i * width),
                            acc.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
  }
  return all;
}

Bytes numbers(DataType type, std::uint64_t count,
              const std::function<double(std::uint64_t)>& value) {
  Bytes bytes(count * element_bytes(type));
  for (std::uint64_t i = 0; i < count; ++i)
    store_number(type, value(i), bytes.data() + i * element_bytes(type));
  return bytes;
}

void expect_exact(DataType type, const Bytes& values, const Bytes& residual, std::uint64_t count,
                  std::uint64_t k, const std::string& what, std::uint64_t hint = 0) {
  const Outcome wanted = expected(type, values, residual, count, k);
  for (const KernelSet* set : bodies()) {
    Selection selection(type, *set);
    Bytes own = residual;
    const Selected selected =
        selection.select(values.data(), own.empty() ? nullptr : own.data(), count, k, hint);
    ASSERT_TRUE(outcome(type, selected, own) == wanted)
        << set->name << ' ' << info(type).name << ' ' << what << " count " << count << " k " << k
        << (residual.empty() ? "" : " with feedback");
  }
}

struct Shape {
  const char* name;
  std::function<double(std::uint64_t, std::mt19937_64&)> value;
};

const Shape kShapes[] = {
    {"normal",
     [](std::uint64_t, std::mt19937_64& random) {
       return std::normal_distribution<double>(0, 100)(random);
     }},
    {"all equal", [](std::uint64_t, std::mt19937_64&) { return 3.0; }},
    {"zeros", [](std::uint64_t i, std::mt19937_64&) { return i % 2 == 0 ? 0.0 : -0.0; }},
    {"few non-zeros", [](std::uint64_t i, std::mt19937_64&) { return i % 97 == 5 ? -7.0 : 0.0; }},
    {"few values",
     [](std::uint64_t, std::mt19937_64& random) { return static_cast<double>(random() % 4); }},
    {"denormals",
     [](std::uint64_t, std::mt19937_64& random) {
       return static_cast<double>(random() % 9) * 0x1p-149;
     }},
    {"specials",
     [](std::uint64_t i, std::mt19937_64& random) {
       constexpr double kInf = std::numeric_limits<double>::infinity();
       const double all[] = {kInf, -kInf, std::nan(""), -0.0, 1e-40, 65504};
       return random() % 50 == 0 ? all[i % 6] : static_cast<double>(i % 5);
     }},
    {"rising", [](std::uint64_t i, std::mt19937_64&) { return static_cast<double>(i); }},
    {"one giant part",
     [](std::uint64_t i, std::mt19937_64& random) {
       return static_cast<double>(random() % 100) * (i < 3000 ? 1 : 1e-3);
     }},
};

TEST(Selection, IsExactForEveryTypeShapeAndBody) {
  std::mt19937_64 random(5);
  for (const DataType type : kSelectedTypes) {
    const DataType accumulator = kernels::accumulator_type(type);
    for (const Shape& shape : kShapes) {
      for (const std::uint64_t count : {0, 1, 2, 1000, 20000}) {
        const auto draw = [&](std::uint64_t i) {
          const double value = shape.value(i, random);
          const bool fits = info(type).is_float ||
                            (std::isfinite(value) && (type != DataType::kUint32 || value >= 0));
          return fits ? value : 7.0;
        };
        const Bytes values = numbers(type, count, draw),
                    residual = numbers(accumulator, count, draw);
        for (const std::uint64_t k :
             {std::uint64_t{0}, std::uint64_t{1}, count / 100, count, ~std::uint64_t{0}}) {
          expect_exact(type, values, {}, count, k, shape.name);
          if (count > 0) expect_exact(type, values, residual, count, k, shape.name);
        }
      }
    }
  }
}

// Larger than what is taken at once many times over, so that candidates are cut while the pass goes
// on, and the guess matters.
TEST(Selection, IsExactWhereCandidatesAreCutOnTheWay) {
  std::mt19937_64 random(6);
  constexpr std::uint64_t kCount = 1 << 20;
  // Keys side by side: what comes after a cut with the next larger key is still taken.
  const Bytes integers = numbers(DataType::kInt32, kCount, [&](std::uint64_t i) {
    return i < kCount / 2 ? 2.0 : 3.0 - 2 * (i % 2);
  });
  expect_exact(DataType::kInt32, integers, {}, kCount, kCount / 3, "twos, then threes and ones");
  for (const Shape& shape : {kShapes[0], kShapes[1], kShapes[4], kShapes[7]}) {
    const auto draw = [&](std::uint64_t i) { return shape.value(i, random); };
    const Bytes values = numbers(DataType::kFloat32, kCount, draw),
                residual = numbers(DataType::kFloat32, kCount, draw);
    for (const std::uint64_t k : {std::uint64_t{5}, kCount / 1000, kCount / 3}) {
      expect_exact(DataType::kFloat32, values, {}, kCount, k, shape.name);
      expect_exact(DataType::kFloat32, values, residual, kCount, k, shape.name);
    }
  }
}

Selected select_once(Selection& selection, const Bytes& values, Bytes& residual, std::uint64_t k,
                     std::uint64_t hint = 0) {
  return selection.select(values.data(), residual.data(), residual.size() / 4, k, hint);
}

TEST(Selection, AHintOfAnyQualityChangesPassesAlone) {
  std::mt19937_64 random(7);
  constexpr std::uint64_t kCount = 300000, kSelected = 3000;
  const Bytes values = numbers(DataType::kFloat32, kCount,
                               [&](std::uint64_t i) { return kShapes[0].value(i, random); });
  const Bytes residual(kCount * 4);
  Selection selection(DataType::kFloat32, kernels::cpu_kernels());
  Bytes own = residual;
  const std::uint64_t least = select_once(selection, values, own, kSelected).least;
  const std::uint64_t far = std::bit_cast<std::uint32_t>(1e30F);
  for (const std::uint64_t hint :
       {std::uint64_t{1}, least / 2, least, least + least / 8, far, ~std::uint64_t{0}}) {
    expect_exact(DataType::kFloat32, values, residual, kCount, kSelected, "hint", hint);
  }
  own = residual;
  EXPECT_EQ(select_once(selection, values, own, kSelected, least).passes, 1);
  own = residual;
  EXPECT_EQ(select_once(selection, values, own, kSelected, far).passes, 2);
}

TEST(Selection, TakesLittleMoreThanItNeedsInOnePass) {
  std::mt19937_64 random(8);
  constexpr std::uint64_t kCount = 4 << 20, kSelected = kCount / 100;
  const Bytes values = numbers(DataType::kFloat32, kCount,
                               [&](std::uint64_t i) { return kShapes[0].value(i, random); });
  Bytes residual(kCount * 4);
  Selection selection(DataType::kFloat32, kernels::cpu_kernels());
  const Selected sampled = select_once(selection, values, residual, kSelected);
  EXPECT_EQ(sampled.passes, 1);
  EXPECT_LT(sampled.taken, kSelected * 3 / 2);
  residual.assign(residual.size(), std::byte{0});
  const Selected hinted = select_once(selection, values, residual, kSelected, sampled.least);
  EXPECT_EQ(hinted.passes, 1);
  EXPECT_LT(hinted.taken, kSelected * 3 / 2);
  EXPECT_EQ(threshold_drift(DataType::kFloat32, sampled.least, hinted.least), 1.0);
}

// Keys up to the largest number that there is: ranges of them end beyond it.
TEST(Selection, IsExactAmongTheLargestUnsignedNumbers) {
  for (const DataType type : {DataType::kUint32, DataType::kUint64}) {
    const std::size_t width = element_bytes(type);
    for (const std::uint64_t k : {1, 2, 5, 30, 40}) {
      Bytes values(41 * width);
      for (std::uint64_t i = 0; i < 41; ++i) {
        const std::uint64_t bits =
            i * 7 % 31 - 15;  // small numbers, and such as lie close to the largest
        std::memcpy(values.data() + i * width, &bits, width);
      }
      ASSERT_NO_FATAL_FAILURE(
          expect_exact(type, values, Bytes(), 41, k, "around zero, modulo the range"));
    }
  }
}

TEST(Selection, PartsHaveTheirOwnLargest) {
  const std::vector<float> values{1, -9, 3, 0, 5, 0, 0, 7, -7, 2};
  const Selection::Part parts[] = {{4, 2}, {0, 3}, {3, 2}, {3, 1}};
  for (const KernelSet* set : bodies()) {
    Selection selection(DataType::kFloat32, *set);
    std::vector<float> residual(values.size(), 1);
    const Selected selected =
        selection.select_parts(reinterpret_cast<const std::byte*>(values.data()), nullptr, parts);
    EXPECT_EQ((std::vector<std::uint64_t>(selected.indices.begin(), selected.indices.end())),
              (std::vector<std::uint64_t>{1, 2, 4, 7}));
    const Selected fed =
        selection.select_parts(reinterpret_cast<const std::byte*>(values.data()),
                               reinterpret_cast<std::byte*>(residual.data()), parts);
    EXPECT_EQ((std::vector<std::uint64_t>(fed.indices.begin(), fed.indices.end())),
              (std::vector<std::uint64_t>{1, 2, 4, 5, 7}));
    EXPECT_EQ(residual, (std::vector<float>{2, -8, 4, 1, 6, 1, 1, 8, -6, 3}));
    EXPECT_EQ(fed.least, std::bit_cast<std::uint32_t>(1.0F));
  }
}

TEST(Selection, DriftIsTheThresholdsRatio) {
  const auto bits = [](float value) { return std::uint64_t{std::bit_cast<std::uint32_t>(value)}; };
  EXPECT_EQ(threshold_drift(DataType::kBfloat16, bits(2.0F), bits(3.0F)), 1.5);
  EXPECT_EQ(threshold_drift(DataType::kFloat64, std::bit_cast<std::uint64_t>(2.0),
                            std::bit_cast<std::uint64_t>(1.0)),
            0.5);
  EXPECT_EQ(threshold_drift(DataType::kInt32, 100, 150), 1.5);
  EXPECT_EQ(threshold_drift(DataType::kFloat32, 0, bits(3.0F)), 0);
}

TEST(Selection, SmallIntegersHaveNone) {
  EXPECT_FALSE(Selection::supports(DataType::kInt8, kernels::cpu_kernels()));
  EXPECT_TRUE(Selection::supports(DataType::kBfloat16, kernels::cpu_kernels()));
}

}  // namespace
}  // namespace sparcl::sparse
