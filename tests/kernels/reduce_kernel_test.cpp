#include <bit>
#include <cmath>
#include <limits>

#include "kernels/reduce.hpp"
#include "src/base/float_environment.hpp"
#include "src/base/number.hpp"
#include "tests/kernels/every_body.hpp"

namespace sparcl::kernels {
namespace {

class ReduceKernelsTest : public EveryBody {};

constexpr std::array kTypes{DataType::kInt8,       DataType::kUint8,   DataType::kInt16,
                            DataType::kUint16,     DataType::kInt32,   DataType::kUint32,
                            DataType::kInt64,      DataType::kUint64,  DataType::kFloat16,
                            DataType::kBfloat16,   DataType::kFloat32, DataType::kFloat8e4m3,
                            DataType::kFloat8e5m2, DataType::kFloat64, DataType::kBool};

struct alignas(kAccumulatorAlignment) Lane {
  std::byte bytes[kAccumulatorAlignment];
};

// Accumulators of one array, with room behind them that nobody may touch.
class Accumulators {
 public:
  Accumulators(const ReduceKernels& kernels, const std::byte* values, std::size_t count)
      : count_(count),
        bytes_(count * kernels.accumulator_bytes),
        lanes_(bytes_ / sizeof(Lane) + 2) {
    std::memset(lanes_.data(), 0xa5, lanes_.size() * sizeof(Lane));
    kernels.widen(values, count, data());
  }
  std::byte* data() { return lanes_.data()->bytes; }
  std::vector<std::byte> content() { return {data(), data() + bytes_}; }
  bool is_intact() {
    for (std::size_t i = bytes_; i < lanes_.size() * sizeof(Lane); ++i) {
      if (data()[i] != std::byte{0xa5}) return false;
    }
    return true;
  }
  std::vector<std::byte> narrowed(const ReduceKernels& kernels, std::size_t width) {
    std::vector<std::byte> values(count_ * width + 8, std::byte{0x5a});
    kernels.narrow(data(), count_, values.data());
    EXPECT_EQ(std::count(values.end() - 8, values.end(), std::byte{0x5a}), 8)
        << "written past the end";
    values.resize(count_ * width);
    return values;
  }

 private:
  std::size_t count_, bytes_;
  std::vector<Lane> lanes_;
};

template <class T>
std::vector<T> reduced(const KernelSet& set, DataType type, ReduceOp op, std::vector<T> a,
                       const std::vector<T>& b, std::uint32_t divisor = 1) {
  const FloatEnvironment ieee;
  const ReduceKernels& kernels = set.reduce_of(type);
  Accumulators into(kernels, reinterpret_cast<const std::byte*>(a.data()), a.size());
  Accumulators other(kernels, reinterpret_cast<const std::byte*>(b.data()), b.size());
  kernels.combine[static_cast<std::size_t>(op)](into.data(), other.data(), a.size());
  if (divisor > 1) kernels.divide(into.data(), a.size(), divisor);
  kernels.narrow(into.data(), a.size(), reinterpret_cast<std::byte*>(a.data()));
  return a;
}

template <class T, class U>
std::vector<U> bits_of(const std::vector<T>& values) {
  std::vector<U> bits;
  for (const T value : values) bits.push_back(std::bit_cast<U>(value));
  return bits;
}

TEST_P(ReduceKernelsTest, FloatsHaveOnePatternANumber) {
  const float inf = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a{1.0F, -0.0F, inf, nan, -nan, 1e-40F, -0.0F, 3.0F},
      b{2.0F, -0.0F, -inf, 1.0F, -1.0F, 1e-40F, 0.0F, nan};
  const std::vector<std::uint32_t> sums{0x40400000, 0,
                                        0x7fc00000, 0x7fc00000,
                                        0x7fc00000, std::bit_cast<std::uint32_t>(2 * 1e-40F),
                                        0,          0x7fc00000};
  EXPECT_EQ(
      (bits_of<float, std::uint32_t>(reduced(body(), DataType::kFloat32, ReduceOp::kSum, a, b))),
      sums);
  const std::vector<std::uint32_t> largest{
      0x40000000, 0, 0x7f800000, 0x7fc00000, 0x7fc00000, std::bit_cast<std::uint32_t>(1e-40F), 0,
      0x7fc00000};
  EXPECT_EQ(
      (bits_of<float, std::uint32_t>(reduced(body(), DataType::kFloat32, ReduceOp::kMax, a, b))),
      largest);
}

TEST_P(ReduceKernelsTest, SmallFloatsAreRoundedOnceTiesToEven) {
  using Bits = std::vector<std::uint16_t>;
  // bfloat16 1.0 + 2^-8 is a tie: to 1.0; 1.0078125 + 2^-8: to 1.015625. Too large: infinity. NaN
  // with any payload: the quiet one.
  EXPECT_EQ(reduced(body(), DataType::kBfloat16, ReduceOp::kSum,
                    Bits{0x3f80, 0x3f81, 0x7f7f, 0x7fff, 0x8000},
                    Bits{0x3b80, 0x3b80, 0x7f7f, 0x3f80, 0x8000}),
            (Bits{0x3f80, 0x3f82, 0x7f80, 0x7fc0, 0}));
  // float16 2048 + 1 is a tie, 65504 + 16 the first that is too large, the least denormal twice the
  // next one.
  EXPECT_EQ(reduced(body(), DataType::kFloat16, ReduceOp::kSum,
                    Bits{0x6800, 0x7bff, 0x0001, 0xfe01}, Bits{0x3c00, 0x4c00, 0x0001, 0}),
            (Bits{0x6800, 0x7c00, 0x0002, 0x7e00}));
}

TEST_P(ReduceKernelsTest, IntegersWrapAroundAndMeansGoTowardsZero) {
  using Bytes8 = std::vector<std::int8_t>;
  EXPECT_EQ(
      reduced(body(), DataType::kInt8, ReduceOp::kSum, Bytes8{127, -128, 5}, Bytes8{1, -1, -7}),
      (Bytes8{-128, 127, -2}));
  EXPECT_EQ(reduced(body(), DataType::kInt8, ReduceOp::kProd, Bytes8{100, -128}, Bytes8{100, -128}),
            (Bytes8{16, 0}));
  EXPECT_EQ(reduced(body(), DataType::kInt8, ReduceOp::kSum, Bytes8{-4, 4}, Bytes8{-3, 3}, 2),
            (Bytes8{-3, 3}));
  using Wide = std::vector<std::uint64_t>;
  EXPECT_EQ(
      reduced(body(), DataType::kUint64, ReduceOp::kSum, Wide{~0ULL, ~0ULL - 1}, Wide{1, 0}, 3),
      (Wide{0, (~0ULL - 1) / 3}));
  EXPECT_EQ(reduced(body(), DataType::kInt32, ReduceOp::kMin, std::vector<std::int32_t>{-5, 7},
                    std::vector<std::int32_t>{3, 9}),
            (std::vector<std::int32_t>{-5, 7}));
}

TEST_P(ReduceKernelsTest, TruthsAreOnesAndZeros) {
  using Truths = std::vector<std::uint8_t>;
  const Truths a{0, 0, 1, 2}, b{0, 255, 1, 0};
  EXPECT_EQ(reduced(body(), DataType::kBool, ReduceOp::kSum, a, b), (Truths{0, 1, 1, 1}));
  EXPECT_EQ(reduced(body(), DataType::kBool, ReduceOp::kProd, a, b), (Truths{0, 0, 1, 0}));
}

// Every pattern of 16 bits, as a value and as one of two summands.
TEST_P(ReduceKernelsTest, EverySmallFloatIsReadAndWrittenAsTheReferenceDoes) {
  const FloatEnvironment ieee;
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    const auto* values = reinterpret_cast<const std::byte*>(all.data());
    Accumulators own(body().reduce_of(type), values, all.size());
    Accumulators expected(reference().reduce_of(type), values, all.size());
    const std::vector<std::byte> read = own.content(), wanted = expected.content();
    for (std::size_t i = 0; i < all.size(); ++i) {
      float a, b;
      std::memcpy(&a, read.data() + 4 * i, 4);
      std::memcpy(&b, wanted.data() + 4 * i, 4);
      if (std::isnan(a) && std::isnan(b))
        continue;  // their patterns are made one when they are narrowed
      ASSERT_EQ(std::bit_cast<std::uint32_t>(a), std::bit_cast<std::uint32_t>(b))
          << info(type).name << " " << i;
    }
    EXPECT_EQ(own.narrowed(body().reduce_of(type), 2),
              expected.narrowed(reference().reduce_of(type), 2))
        << info(type).name;
  }
}

// Floats strewn over all patterns, and the neighbours of each float of 8 bits and of each middle
// between two.
TEST_P(ReduceKernelsTest, FloatsAreRoundedAsTheReferenceDoes) {
  const FloatEnvironment ieee;
  std::vector<float> floats;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 4099) {
    floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (std::uint32_t top = 0; top < (1U << 12); ++top) {
    for (std::uint32_t near = 0; near < 3; ++near)
      floats.push_back(std::bit_cast<float>((top << 20) + near - 1));
  }
  std::vector<Lane> accumulators(floats.size() * sizeof(float) / sizeof(Lane) + 1);
  std::memcpy(accumulators.data(), floats.data(), floats.size() * sizeof(float));
  for (const DataType type :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    const std::size_t width = element_bytes(type);
    std::vector<std::byte> own(floats.size() * width), expected(own.size());
    body().reduce_of(type).narrow(accumulators.data()->bytes, floats.size(), own.data());
    reference().reduce_of(type).narrow(accumulators.data()->bytes, floats.size(), expected.data());
    for (std::size_t i = 0; i < floats.size(); ++i) {
      ASSERT_EQ(std::memcmp(own.data() + i * width, expected.data() + i * width, width), 0)
          << info(type).name << " of " << floats[i] << " "
          << std::bit_cast<std::uint32_t>(floats[i]);
    }
  }
}

TEST_P(ReduceKernelsTest, AgreesWithTheReference) {
  const FloatEnvironment ieee;
  std::mt19937_64 random(23);
  for (const DataType type : kTypes) {
    const ReduceKernels &own = body().reduce_of(type), &expected = reference().reduce_of(type);
    const std::size_t width = element_bytes(type);
    ASSERT_EQ(own.accumulator_bytes, expected.accumulator_bytes);
    for (const std::size_t count : interesting_counts()) {
      const std::size_t skew = random() % 8;
      const std::vector<std::byte> a = random_bytes(count * width + skew, random),
                                   b = random_bytes(count * width + skew, random);
      for (std::size_t op = 0; op < kReduceOps; ++op) {
        Accumulators mine(own, a.data() + skew, count), others(own, b.data() + skew, count);
        Accumulators wanted(expected, a.data() + skew, count),
            wanted_others(expected, b.data() + skew, count);
        own.combine[op](mine.data(), others.data(), count);
        expected.combine[op](wanted.data(), wanted_others.data(), count);
        EXPECT_EQ(mine.narrowed(own, width), wanted.narrowed(expected, width))
            << info(type).name << " op " << op << " count " << count;
        own.divide(mine.data(), count, 3);
        expected.divide(wanted.data(), count, 3);
        EXPECT_EQ(mine.narrowed(own, width), wanted.narrowed(expected, width))
            << info(type).name << " op " << op << " / 3";
        EXPECT_TRUE(mine.is_intact() && others.is_intact()) << info(type).name;
      }
    }
  }
}

SPARCL_FOR_EVERY_BODY(ReduceKernelsTest);

}  // namespace
}  // namespace sparcl::kernels
