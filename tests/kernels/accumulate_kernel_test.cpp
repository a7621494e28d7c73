#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/accumulate.hpp"
#include "src/base/float_environment.hpp"
#include "tests/kernels/every_body.hpp"

namespace sparcl::kernels {
namespace {

class AccumulateKernelsTest : public EveryBody {};

constexpr std::array kAccumulatedTypes{
    DataType::kInt32,      DataType::kUint32,     DataType::kInt64,   DataType::kUint64,
    DataType::kFloat8e4m3, DataType::kFloat8e5m2, DataType::kFloat16, DataType::kBfloat16,
    DataType::kFloat32,    DataType::kFloat64};
constexpr std::uint32_t kFirst = 300;

struct Taken {
  std::vector<std::uint16_t> positions;
  std::vector<std::byte> accumulators;
  std::vector<std::byte> residual;  // with what lies behind it
  bool operator==(const Taken&) const = default;
};

// residual: empty for a pass without feedback.
Taken take(const KernelSet& set, DataType type, const std::byte* values, std::size_t count,
           std::vector<std::byte> residual, std::size_t skew, std::uint64_t least) {
  const FloatEnvironment ieee;
  const AccumulateKernels& kernels = set.accumulate_of(type);
  const std::size_t width = element_bytes(accumulator_type(type));
  Taken all{std::vector<std::uint16_t>(count + kPositionSlack),
            std::vector<std::byte>(count * width + 8, std::byte{0xa5}), std::move(residual)};
  const std::size_t found =
      all.residual.empty()
          ? kernels.take_large(values, count, kFirst, least, all.positions.data(),
                               all.accumulators.data())
          : kernels.accumulate(values, count, all.residual.data() + skew, kFirst, least,
                               all.positions.data(), all.accumulators.data());
  for (std::size_t i = found * width; i < all.accumulators.size(); ++i)
    EXPECT_EQ(all.accumulators[i], std::byte{0xa5}) << "past the end";
  all.positions.resize(found);
  all.accumulators.resize(found * width);
  return all;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T, class V>
Taken take(const KernelSet& set, DataType type, const std::vector<V>& values,
           const std::vector<T>& residual, std::uint64_t least) {
  return take(set, type, bytes_of(values).data(), values.size(), bytes_of(residual), 0, least);
}

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST_P(AccumulateKernelsTest, AddsTakesAndWritesOnePatternANumber) {
  const float inf = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values{1.0F, -0.0F, inf, -nan, -2.0F, 1e-45F, 0.5F, inf};
  const std::vector<float> residual{0.5F, -0.0F, 1.0F, nan, -1.0F, 1e-45F, -0.5F, -inf};
  const std::vector<std::uint32_t> sums{bits(1.5F),  0, bits(inf), 0x7fc00000,
                                        bits(-3.0F), 2, 0,         0x7fc00000};
  const Taken all = take(body(), DataType::kFloat32, values, residual, 1);
  EXPECT_EQ(all.residual, bytes_of(sums));
  EXPECT_EQ(all.positions, (std::vector<std::uint16_t>{300, 302, 303, 304, 305, 307}));
  EXPECT_EQ(all.accumulators, bytes_of<std::uint32_t>(
                                  {bits(1.5F), bits(inf), 0x7fc00000, bits(-3.0F), 2, 0x7fc00000}));
  EXPECT_EQ(take(body(), DataType::kFloat32, values, residual, bits(3.0F)).positions,
            (std::vector<std::uint16_t>{302, 303, 304, 307}));
  const Taken none = take(body(), DataType::kFloat32, values, residual, ~std::uint64_t{0});
  EXPECT_TRUE(none.positions.empty());
  EXPECT_EQ(none.residual, bytes_of(sums));
}

TEST_P(AccumulateKernelsTest, WithoutFeedbackTakesTheValuesAsAccumulators) {
  const std::vector<std::uint16_t> values{0x3f80, 0x8000, 0xff80, 0xffc1,
                                          0x0001};  // 1, -0, -inf, -NaN, the least bfloat16
  const Taken all = take<float>(body(), DataType::kBfloat16, values, {}, 1);
  EXPECT_EQ(all.positions, (std::vector<std::uint16_t>{300, 302, 303, 304}));
  EXPECT_EQ(all.accumulators,
            bytes_of<std::uint32_t>({bits(1.0F), 0xff800000, 0x7fc00000, 0x00010000}));
  const std::vector<std::uint16_t> halves{0x3c00, 0x8000, 0xfc00, 0xfe01, 0x8001};
  EXPECT_EQ(take<float>(body(), DataType::kFloat16, halves, {}, 1).accumulators,
            bytes_of<std::uint32_t>({bits(1.0F), 0xff800000, 0x7fc00000, bits(-0x1p-24F)}));
}

TEST_P(AccumulateKernelsTest, IntegersWrapAroundAndTheLeastIsTheLargest) {
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min(),
                         kMost = std::numeric_limits<std::int32_t>::max();
  const Taken all = take(body(), DataType::kInt32, std::vector<std::int32_t>{kMost, -5, 3, kLeast},
                         std::vector<std::int32_t>{1, -2, -3, -1}, 7);
  EXPECT_EQ(all.residual, bytes_of<std::int32_t>({kLeast, -7, 0, kMost}));
  EXPECT_EQ(all.positions, (std::vector<std::uint16_t>{300, 301, 303}));
  EXPECT_EQ(take(body(), DataType::kInt32, std::vector<std::int32_t>{kLeast, kMost},
                 std::vector<std::int32_t>{0, 0}, 1U << 31)
                .positions,
            (std::vector<std::uint16_t>{300}));
}

// A least that about a third of the accumulators reach.
std::uint64_t some_least(DataType type, const std::byte* values, std::size_t count,
                         std::mt19937_64& random) {
  const unsigned width = static_cast<unsigned>(8 * element_bytes(accumulator_type(type)));
  if (count == 0 || random() % 8 == 0) return random() >> (64 - width) >> (random() % width) | 1;
  const Taken all = take(reference_kernels(), type, values, count, {}, 0, 1);
  if (all.positions.empty()) return 1;
  std::uint64_t least = 0;
  std::memcpy(&least, all.accumulators.data() + random() % all.positions.size() * width / 8,
              width / 8);
  return numbers_of(type) == Numbers::kFloat ? least << (65 - width) >> (65 - width) | 1
                                             : least | 1;
}

TEST_P(AccumulateKernelsTest, AgreesWithTheReference) {
  std::mt19937_64 random(31);
  for (const DataType type : kAccumulatedTypes) {
    for (std::size_t count : interesting_counts()) {
      const std::size_t skew = random() % 8, width = element_bytes(accumulator_type(type));
      const std::vector<std::byte> values =
          random_bytes(count * element_bytes(type) + skew, random);
      const std::vector<std::byte> residual = random_bytes(count * width + skew + 8, random);
      const std::uint64_t least = some_least(type, values.data() + skew, count, random);
      EXPECT_TRUE(take(body(), type, values.data() + skew, count, residual, skew, least) ==
                  take(reference(), type, values.data() + skew, count, residual, skew, least))
          << info(type).name << " count " << count << " least " << least;
      EXPECT_TRUE(take(body(), type, values.data() + skew, count, {}, 0, least) ==
                  take(reference(), type, values.data() + skew, count, {}, 0, least))
          << info(type).name << " count " << count << " least " << least;
    }
  }
}

// All float16 and bfloat16 that there are: 65,536 elements are the most that a pass takes at once.
TEST_P(AccumulateKernelsTest, EverySmallFloatIsTakenAsTheReferenceTakesIt) {
  std::vector<std::uint16_t> all(65536 - kFirst);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i * 40503);
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    EXPECT_TRUE(take<float>(body(), type, all, {}, 1) == take<float>(reference(), type, all, {}, 1))
        << info(type).name;
  }
}

TEST_P(AccumulateKernelsTest, OtherTypesHaveNone) {
  for (const DataType type :
       {DataType::kInt8, DataType::kUint8, DataType::kInt16, DataType::kUint16, DataType::kBool}) {
    EXPECT_EQ(body().accumulate_of(type).accumulate, nullptr) << info(type).name;
  }
}

SPARCL_FOR_EVERY_BODY(AccumulateKernelsTest);

}  // namespace
}  // namespace sparcl::kernels
