#include "src/base/number.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace sparcl {
namespace {

constexpr DataType kSmallFloats[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3,
                                     DataType::kFloat8e5m2};

std::uint32_t bits_of(DataType type, double value) {
  std::uint16_t bits = 0;
  store_number(type, value, reinterpret_cast<std::byte*>(&bits));
  return bits;
}

double value_of(DataType type, std::uint32_t bits) {
  const auto both = static_cast<std::uint16_t>(bits);
  return load_number(type, reinterpret_cast<const std::byte*>(&both));
}

TEST(Number, EverySmallFloatComesBack) {
  for (const DataType type : kSmallFloats) {
    for (std::uint32_t bits = 0; bits < 1u << (8 * element_bytes(type)); ++bits) {
      const double value = value_of(type, bits);
      if (std::isnan(value)) continue;
      ASSERT_EQ(bits_of(type, value), bits) << info(type).name;
    }
  }
}

TEST(Number, ReadsTheFormatsAsTheyAreDefined) {
  EXPECT_EQ(value_of(DataType::kBfloat16, 0x3f80), 1.0);
  EXPECT_EQ(value_of(DataType::kBfloat16, 0x0001), std::ldexp(1.0, -133));
  EXPECT_EQ(value_of(DataType::kFloat16, 0x7bff), 65504.0);
  EXPECT_EQ(value_of(DataType::kFloat16, 0x8001), -std::ldexp(1.0, -24));
  EXPECT_EQ(value_of(DataType::kFloat8e4m3, 0x7e), 448.0);
  EXPECT_EQ(value_of(DataType::kFloat8e5m2, 0x7b), 57344.0);
  EXPECT_TRUE(std::isnan(value_of(DataType::kFloat8e4m3, 0xff)));
  EXPECT_TRUE(std::isnan(value_of(DataType::kBfloat16, 0x7f81)));
  EXPECT_EQ(value_of(DataType::kFloat8e5m2, 0xfc), -std::numeric_limits<double>::infinity());
}

// Between each two neighbours: below the middle down, above it up, on it to the even one.
TEST(Number, RoundsToTheNearestAndTiesToEven) {
  for (const DataType type : kSmallFloats) {
    const std::uint32_t sign = 1u << (8 * element_bytes(type) - 1);
    for (std::uint32_t bits = 0; bits + 1 < sign; ++bits) {
      const double low = value_of(type, bits);
      const double high = value_of(type, bits + 1);
      if (!std::isfinite(high)) break;
      const double middle = (low + high) / 2;
      ASSERT_EQ(bits_of(type, middle), bits % 2 == 0 ? bits : bits + 1) << info(type).name;
      ASSERT_EQ(bits_of(type, -std::nextafter(middle, low)), bits | sign) << info(type).name;
      ASSERT_EQ(bits_of(type, std::nextafter(middle, high)), bits + 1) << info(type).name;
    }
  }
}

TEST(Number, WhatIsTooLargeBecomesInfinityWhereThereIsOne) {
  EXPECT_EQ(bits_of(DataType::kFloat16, 65519.0), 0x7bffu);
  EXPECT_EQ(bits_of(DataType::kFloat16, 65520.0), 0x7c00u);
  EXPECT_EQ(bits_of(DataType::kBfloat16, -1e300), 0xff80u);
  EXPECT_EQ(bits_of(DataType::kFloat8e4m3, 1e9), 0x7eu);
  EXPECT_EQ(bits_of(DataType::kFloat8e4m3, -std::numeric_limits<double>::infinity()), 0xfeu);
  EXPECT_EQ(bits_of(DataType::kFloat8e4m3, std::nan("")), 0x7fu);
  EXPECT_EQ(bits_of(DataType::kBfloat16, std::nan("")), 0x7fc0u);
}

TEST(Number, IntegersAreRoundedAndHeldInRange) {
  std::int8_t small = 0;
  store_number(DataType::kInt8, 2.5, reinterpret_cast<std::byte*>(&small));
  EXPECT_EQ(small, 2);
  store_number(DataType::kInt8, -1000, reinterpret_cast<std::byte*>(&small));
  EXPECT_EQ(small, -128);
  std::int64_t large = 0;
  store_number(DataType::kInt64, 1e30, reinterpret_cast<std::byte*>(&large));
  EXPECT_EQ(large, std::numeric_limits<std::int64_t>::max());
  std::uint64_t positive = 1;
  store_number(DataType::kUint64, -5, reinterpret_cast<std::byte*>(&positive));
  EXPECT_EQ(positive, 0u);
  EXPECT_EQ(load_number(DataType::kInt64, reinterpret_cast<const std::byte*>(&large)),
            std::ldexp(1.0, 63));
}

}  // namespace
}  // namespace sparcl
