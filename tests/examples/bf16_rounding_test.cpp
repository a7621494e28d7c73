#include "examples/language_model/bf16_rounding.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace training {
namespace {

std::uint16_t rounded(std::uint32_t bits) { return to_bf16(std::bit_cast<float>(bits)).bits; }

TEST(Bf16Rounding, RoundsToNearest) {
  EXPECT_EQ(rounded(0x3F800000), 0x3F80);  // 1
  EXPECT_EQ(rounded(0x3F807FFF), 0x3F80);  // just below half a step
  EXPECT_EQ(rounded(0x3F808001), 0x3F81);  // just above
  EXPECT_EQ(rounded(0xBF808001), 0xBF81);
}

TEST(Bf16Rounding, TiesGoToEven) {
  EXPECT_EQ(rounded(0x3F808000), 0x3F80);
  EXPECT_EQ(rounded(0x3F818000), 0x3F82);
  EXPECT_EQ(rounded(0xBF818000), 0xBF82);
}

TEST(Bf16Rounding, CarriesIntoTheExponentAndToInfinity) {
  EXPECT_EQ(rounded(0x3FFFFFFF), 0x4000);
  EXPECT_EQ(rounded(0x7F7FFFFF), 0x7F80);  // the largest float is nearer to 2^128
  EXPECT_EQ(rounded(0x7F800000), 0x7F80);
  EXPECT_EQ(rounded(0xFF800000), 0xFF80);
}

TEST(Bf16Rounding, KeepsZerosAndSubnormals) {
  EXPECT_EQ(rounded(0x00000000), 0x0000);
  EXPECT_EQ(rounded(0x80000000), 0x8000);
  EXPECT_EQ(rounded(0x00010000), 0x0001);
  EXPECT_EQ(rounded(0x80000001), 0x8000);
}

TEST(Bf16Rounding, NanStaysNan) {
  for (const std::uint32_t bits :
       {0x7F800001U, 0x7FC00000U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU}) {
    EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(bits))))) << std::hex << bits;
    EXPECT_EQ(rounded(bits) >> 15, bits >> 31);
  }
}

TEST(Bf16Rounding, EveryBf16SurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const sparcl::bfloat16 value{static_cast<std::uint16_t>(bits)};
    const float expanded = to_float(value);
    if (std::isnan(expanded)) continue;
    ASSERT_EQ(to_bf16(expanded).bits, bits);
  }
}

}  // namespace
}  // namespace training
