// Values of 4 and 2 bits: rounding, and the coding of what it gives.
#include "src/sparse/selection/group_rounding.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/sparse/parts/scaled_groups.hpp"
#include "tests/emulated/float_groups.hpp"
#include "tests/support/few_bits_reference.hpp"

namespace sparcl::sparse {
namespace {

constexpr ValueForm kForms[] = {ValueForm::kScaled4, ValueForm::kScaled2};
constexpr float kLargest = std::numeric_limits<float>::max();

using Floats = std::vector<float>;

const std::byte* bytes_at(const Floats& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

Floats rounded(ValueForm form, const Floats& values) {
  Floats to(values.size());
  round_to_groups(form, bytes_at(values), values.size(), reinterpret_cast<std::byte*>(to.data()));
  return to;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Sizes are those of selected values: none is near 0.
Floats selected(std::size_t count, float size, std::mt19937_64& random) {
  std::exponential_distribution<float> excess(1);
  Floats values(count);
  for (float& value : values)
    value = std::copysign(size * (2.4F + 0.35F * excess(random)), random() % 2 == 0 ? 1.F : -1.F);
  return values;
}

// The message of the values; empty if they are not shorter.
std::vector<std::byte> coded(ValueForm form, const Floats& values, std::size_t first) {
  std::vector<std::byte> out;
  (void)append_groups(form, bytes_at(values), values.size(), first, out);
  return out;
}

void expect_coded(ValueForm form, const Floats& values, std::size_t first, double max_bits) {
  const std::vector<std::byte> message = coded(form, values, first);
  ASSERT_FALSE(message.empty());
  EXPECT_LE(8 * static_cast<double>(message.size()),
            max_bits * static_cast<double>(values.size()) + 48);
  Floats again(values.size());
  ASSERT_TRUE(
      read_groups(form, message, values.size(), reinterpret_cast<std::byte*>(again.data())));
  EXPECT_TRUE(same_bits(again, values));
}

TEST(GroupRounding, RoundingTwiceIsRoundingOnceAndTheCodingIsLossless) {
  std::mt19937_64 random(5);
  for (const ValueForm form : kForms) {
    const double max_bits = form == ValueForm::kScaled4 ? 4.125 : 2.125;
    for (const std::size_t count : {2U, 127U, 128U, 129U, 1000U}) {
      for (const float size : {1e-44F, 1e-40F, 1e-38F, 1e-3F, 1.0F, 5e37F}) {
        const Floats values = selected(count, size, random);
        const Floats once = rounded(form, values);
        EXPECT_TRUE(same_bits(rounded(form, once), once)) << count << " of " << size;
        expect_coded(form, once, 0, max_bits);
        // A part begins in the middle of a group.
        const std::size_t cut = count / 3;
        expect_coded(form, Floats(once.begin() + static_cast<std::ptrdiff_t>(cut), once.end()),
                     kScaledGroup - cut % kScaledGroup, max_bits);
      }
    }
  }
}

Floats by_reference(ValueForm form, const Floats& values) {
  Floats all;
  for (std::size_t at = 0; at < values.size(); at += kScaledGroup) {
    const std::size_t end = std::min(values.size(), at + kScaledGroup);
    Floats group(values.begin() + static_cast<std::ptrdiff_t>(at),
                 values.begin() + static_cast<std::ptrdiff_t>(end));
    test::round_few_bits(form == ValueForm::kScaled4 ? 4 : 2, group);
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

TEST(GroupRounding, IsTheReferences) {
  std::mt19937_64 random(12);
  for (const ValueForm form : kForms) {
    for (const std::size_t count : {1U, 127U, 128U, 129U, 20'000U}) {
      const Floats mixed = test::float_groups(count, random(), 5);
      EXPECT_TRUE(same_bits(rounded(form, mixed), by_reference(form, mixed)));
      for (const float size : {1e-44F, 1e-38F, 1.0F, 5e37F}) {
        const Floats tail = selected(count, size, random);
        EXPECT_TRUE(same_bits(rounded(form, tail), by_reference(form, tail))) << size;
        const Floats again = rounded(form, tail);
        EXPECT_TRUE(same_bits(again, by_reference(form, again)));
      }
    }
  }
}

TEST(GroupRounding, FourBitsAreWithinHalfAStep) {
  std::mt19937_64 random(6);
  std::normal_distribution<float> normal;
  Floats values(5 * kScaledGroup + 9);
  for (float& value : values) value = normal(random);
  const Floats got = rounded(ValueForm::kScaled4, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t begin = i / kScaledGroup * kScaledGroup,
                      end = std::min(values.size(), begin + kScaledGroup);
    float largest = 0;
    for (std::size_t j = begin; j < end; ++j) largest = std::max(largest, std::abs(values[j]));
    EXPECT_LE(std::abs(got[i] - values[i]), largest / 14 * 1.03F);
  }
}

double relative_error(ValueForm form, const Floats& values) {
  const Floats got = rounded(form, values);
  double error = 0, squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += std::pow(double{got[i]} - double{values[i]}, 2);
    squares += std::pow(double{values[i]}, 2);
  }
  return error / squares;
}

// Decision 0035 has the figures.
TEST(GroupRounding, SelectedValuesLoseAHundredthOfTheirSquares) {
  std::mt19937_64 random(7);
  const Floats values = selected(64 * kScaledGroup, 1, random);
  EXPECT_LT(relative_error(ValueForm::kScaled2, values), 0.012);
  EXPECT_LT(relative_error(ValueForm::kScaled4, values), 0.006);
}

TEST(GroupRounding, AnOutlierDoesNotRaiseTheOtherValues) {
  Floats values(kScaledGroup, 0.5F);
  values[77] = -1000;
  const Floats got = rounded(ValueForm::kScaled2, values);
  EXPECT_EQ(got[77], -1000);
  EXPECT_EQ(std::count(got.begin(), got.end(), 0.0F), 127);
}

TEST(GroupRounding, ZerosStayZero) {
  std::mt19937_64 random(8);
  for (const ValueForm form : kForms) {
    Floats values = selected(kScaledGroup, 1, random);
    values[0] = 0;
    values[5] = -0.0F;
    const Floats got = rounded(form, values);
    for (const std::size_t i : {0U, 5U}) EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), 0U);
    EXPECT_NE(got[1], 0);
    const Floats zeros(130, -0.0F);
    EXPECT_TRUE(same_bits(rounded(form, zeros), Floats(130, 0.0F)));
    expect_coded(form, rounded(form, zeros), 0, 4.125);
    EXPECT_TRUE(rounded(form, {}).empty());
  }
}

TEST(GroupRounding, OneValueIsNearlyExact) {
  for (const ValueForm form : kForms) {
    for (const float value : {1.0F, -3.7F, 1e-30F, 2e38F})
      EXPECT_NEAR(rounded(form, {value})[0] / value, 1, 1.0 / 256);
  }
}

TEST(GroupRounding, TheLargestNumberStaysFinite) {
  for (const ValueForm form : kForms) {
    for (const Floats& values :
         {Floats{kLargest, -kLargest, 1e38F}, Floats(kScaledGroup, kLargest), Floats{kLargest}}) {
      const Floats got = rounded(form, values);
      for (const float value : got) EXPECT_TRUE(std::isfinite(value));
      EXPECT_GT(got[0], 3.3e38F);
      EXPECT_TRUE(same_bits(rounded(form, got), got));
    }
  }
}

TEST(GroupRounding, GroupsWithoutANumberStayUnchanged) {
  for (const ValueForm form : kForms) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      Floats values(12 * kScaledGroup, 0.1F);
      for (std::size_t i = 0; i < values.size(); i += 3) values[i] = -0.1234567F;
      values[3] = bad;
      values[4] = -0.0F;
      const Floats got = rounded(form, values);
      EXPECT_EQ(std::memcmp(got.data(), values.data(), kScaledGroup * sizeof(float)), 0);
      EXPECT_NE(got[kScaledGroup + 1], 0.1F);
      expect_coded(form, got, 0, 8);
    }
  }
}

TEST(GroupRounding, BitsAreTheSameEverywhere) {
  std::uint64_t state = 1;
  Floats values(40 * kScaledGroup + 3);
  for (float& value : values) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const auto size = static_cast<float>(1000 + (state >> 40) % 5000);
    value = (state >> 33) % 2 == 0 ? size : -size;
  }
  const auto checksum = [&values](ValueForm form) {
    const Floats got = rounded(form, values);
    return crc32c({bytes_at(got), got.size() * sizeof(float)});
  };
  EXPECT_EQ(checksum(ValueForm::kScaled4), 722370790U);
  EXPECT_EQ(checksum(ValueForm::kScaled2), 3863130786U);
}

std::string hex_of(ValueForm form, const Floats& values) {
  std::string hex;
  for (const std::byte byte : coded(form, values, 0))
    hex += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return hex;
}

// The section "Coded parts of sparse collectives" of the wire format.
TEST(ScaledGroups, BytesOfAMessage) {
  const Floats four{7, -6, 0.5F, 1, -1, 0, 3, -7, 2};
  EXPECT_EQ(hex_of(ValueForm::kScaled4, rounded(ValueForm::kScaled4, four)), "08803fa7100f9302");
  const Floats tail{3, -2, 2, -3, 3, -3, 2.1F, -1.9F, 2};
  EXPECT_EQ(hex_of(ValueForm::kScaled2, rounded(ValueForm::kScaled2, tail)), "08803fc98d00");
  const Floats outlier{0.1F, 8, -0.1F, -8, 0, 8, 8, 8};
  EXPECT_EQ(hex_of(ValueForm::kScaled2, rounded(ValueForm::kScaled2, outlier)), "0700c1c454");
  Floats exact(20, 2);
  exact[1] = std::numeric_limits<float>::infinity();
  exact.resize(kScaledGroup, 1);
  exact.resize(kScaledGroup + 4, 5);
  const std::string hex = hex_of(ValueForm::kScaled2, exact);
  EXPECT_EQ(hex.size(), 2 * (1 + 2 + 4 * kScaledGroup + 3));
  EXPECT_EQ(hex.substr(0, 22), "7fffff000000400000807f");
  EXPECT_EQ(hex.substr(hex.size() - 6), "204000");
}

TEST(ScaledGroups, InvalidBytesAreRefused) {
  std::mt19937_64 random(9);
  for (const ValueForm form : kForms) {
    Floats values = selected(3 * kScaledGroup + 5, 1, random);
    values[130] = 0;
    Floats once = rounded(form, values);
    once.erase(once.begin(), once.begin() + 28);
    const std::vector<std::byte> message = coded(form, once, 100);
    Floats out(once.size());
    const auto reads = [&](const std::vector<std::byte>& bytes) {
      return read_groups(form, bytes, out.size(), reinterpret_cast<std::byte*>(out.data()));
    };
    ASSERT_TRUE(reads(message));
    for (std::size_t bytes = 0; bytes < message.size(); ++bytes)
      EXPECT_FALSE(reads({message.begin(), message.begin() + static_cast<std::ptrdiff_t>(bytes)}));
    std::vector<std::byte> wrong = message;
    wrong.push_back({});
    EXPECT_FALSE(reads(wrong)) << "a byte too many";
    wrong = message;
    wrong[0] = std::byte{128};
    EXPECT_FALSE(reads(wrong)) << "a first group of 129";
    wrong = message;
    wrong[2] = std::byte{0x7f};
    wrong[1] = std::byte{0x80};
    EXPECT_FALSE(reads(wrong)) << "an infinite scale";
    wrong = message;
    wrong.back() |= std::byte{0xf0};
    EXPECT_FALSE(reads(wrong)) << "codes behind the last";
    std::size_t refused = 0;
    for (int turn = 0; turn < 2000; ++turn) {
      wrong = message;
      wrong[random() % wrong.size()] ^= static_cast<std::byte>(1U << random() % 8);
      refused += reads(wrong) ? 0 : 1;
    }
    EXPECT_GT(refused, 0U);
  }
  Floats one(1);
  const std::byte invalid4[] = {std::byte{0}, std::byte{0x80}, std::byte{0x3f}, std::byte{8}};
  const std::byte invalid2[] = {std::byte{0}, std::byte{0x80}, std::byte{0xbf}, std::byte{2}};
  const std::byte sign4[] = {std::byte{0}, std::byte{0x80}, std::byte{0xbf}, std::byte{1}};
  auto* const to = reinterpret_cast<std::byte*>(one.data());
  EXPECT_FALSE(read_groups(ValueForm::kScaled4, invalid4, 1, to)) << "-8";
  EXPECT_FALSE(read_groups(ValueForm::kScaled2, invalid2, 1, to)) << "-0";
  EXPECT_FALSE(read_groups(ValueForm::kScaled4, sign4, 1, to)) << "a negative scale";
}

}  // namespace
}  // namespace sparcl::sparse
