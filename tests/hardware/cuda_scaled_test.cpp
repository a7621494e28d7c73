// Values of 8 bits with scales on a GPU, against what the collectives round to, bit for bit.

#include "kernels/cuda/cuda_scaled.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/emulated/float_groups.hpp"
#include "tests/hardware/gpu_arrays.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: what is tested
using kernels::DeviceScaledValues;
using kernels::kDeviceScaledGroup;
using kernels::scaled_groups;

class DeviceScaled : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  }
};

TEST_F(DeviceScaled, IsWhatTheCollectivesRoundTo) {
  for (const std::size_t count : {1UL, 127UL, 129UL, 50'001UL, 5'000'000UL}) {
    for (const unsigned special : {0U, 100U}) {
      SCOPED_TRACE(testing::Message() << count << " values, special " << special);
      const std::vector<float> values = float_groups(count, count, special),
                               wanted = rounded_by_host(values);
      const std::uint64_t groups = scaled_groups(count);
      const DeviceArray<float> given(values), rounded(count), decoded(count),
          exact(groups * kDeviceScaledGroup);
      const DeviceArray<std::int8_t> codes(groups * kDeviceScaledGroup);
      const DeviceArray<std::uint16_t> exponents(groups);
      const DeviceArray<std::uint64_t> exact_count(1),
          device_count(std::vector<std::uint64_t>{count});
      const DeviceScaledValues scaled{codes.data(), exponents.data(), exact.data(), groups,
                                      exact_count.data()};
      const Status encoded =
          encode_scaled(given.data(), device_count.data(), count, scaled, rounded.data(), nullptr);
      ASSERT_TRUE(encoded.ok()) << encoded.message();
      ASSERT_TRUE(decode_scaled(scaled, device_count.data(), count, decoded.data(), nullptr).ok());
      EXPECT_EQ(std::memcmp(rounded.read().data(), wanted.data(), count * sizeof(float)), 0);
      EXPECT_EQ(std::memcmp(decoded.read().data(), wanted.data(), count * sizeof(float)), 0);
      std::uint64_t exact_groups = 0;
      for (std::size_t at = 0; at < count; at += kDeviceScaledGroup) {
        const auto* const first = values.data() + at;
        const bool is_exact = !std::all_of(first, first + std::min(count - at, kDeviceScaledGroup),
                                           [](float x) { return std::isfinite(x); });
        exact_groups += is_exact ? 1 : 0;
      }
      EXPECT_EQ(exact_count.read()[0], exact_groups);
    }
  }
}

// Arguments are checked before anything is asked of a GPU.
TEST(DeviceScaledChecks, RefuseWhatCannotBe) {
  DeviceScaledValues scaled{};
  EXPECT_EQ(decode_scaled(scaled, nullptr, std::uint64_t{1} << 60, nullptr, nullptr).code(),
            Code::kInvalidArgument);
  scaled.exact_capacity = std::uint64_t{1} << 32;
  EXPECT_EQ(decode_scaled(scaled, nullptr, 1, nullptr, nullptr).code(), Code::kInvalidArgument);
  scaled.exact_capacity = 0;
  EXPECT_TRUE(decode_scaled(scaled, nullptr, 0, nullptr, nullptr).ok());  // of nothing nothing
}

TEST_F(DeviceScaled, RoundsToFourAndTwoBitsAsTheCollectives) {
  for (const sparse::ValueForm form : {sparse::ValueForm::kScaled4, sparse::ValueForm::kScaled2}) {
    for (const std::size_t count : {1UL, 127UL, 129UL, 50'001UL, 5'000'000UL}) {
      const std::vector<float> values = float_groups(count, count + 1, 100),
                               wanted = rounded_to(form, values);
      const DeviceArray<float> given(values), rounded(count);
      const DeviceArray<std::uint64_t> device_count(std::vector<std::uint64_t>{count});
      const unsigned bits = form == sparse::ValueForm::kScaled4 ? 4 : 2;
      const Status made =
          round_groups(given.data(), device_count.data(), count, bits, rounded.data(), nullptr);
      ASSERT_TRUE(made.ok()) << made.message();
      EXPECT_EQ(std::memcmp(rounded.read().data(), wanted.data(), count * sizeof(float)), 0)
          << count << " values of " << bits << " bits";
    }
  }
}

}  // namespace
}  // namespace sparcl::test
