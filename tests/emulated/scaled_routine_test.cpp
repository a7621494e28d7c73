// The block routines for values of 8 bits with scales, run on the host against what the collectives
// round to.

#include <gtest/gtest.h>

#include "tests/emulated/emulated_cuda.hpp"
#include "tests/emulated/float_groups.hpp"
// After the emulation.
#include "kernels/cuda/scaled_group.cuh"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines under test
using kernels::DeviceScaledValues;
using kernels::kDeviceScaledGroup;
using kernels::scaled_groups;

static_assert(kDeviceScaledGroup == sparse::kScaledGroup);

struct alignas(16) Aligned {
  float x[4];
};

// Values at an offset from an aligned address.
struct FloatArray {
  FloatArray(std::size_t count, std::size_t offset)
      : memory((count + offset) / 4 + 1), data(memory.front().x + offset) {}
  std::vector<Aligned> memory;
  float* data;
};

struct Scaled {
  Scaled(std::uint64_t capacity, std::uint64_t exact_groups)
      : codes(scaled_groups(capacity) * kDeviceScaledGroup / 4),
        exponents(scaled_groups(capacity), 77),
        exact(exact_groups * kDeviceScaledGroup / 4 + 1) {}
  DeviceScaledValues device() {
    return {reinterpret_cast<std::int8_t*>(codes.data()), exponents.data(), exact.front().x,
            (exact.size() - 1) / (kDeviceScaledGroup / 4), &exact_count};
  }
  std::vector<std::uint32_t> codes;
  std::vector<std::uint16_t> exponents;
  std::vector<Aligned> exact;
  std::uint64_t exact_count = 0;
};

void encode(const ScaledWork& work, std::uint64_t seed) {
  *work.scaled.exact_count = 0;
  emulated::launch<emulated::NoShared>(static_cast<unsigned>(scaled_blocks(work.capacity)),
                                       kThreads, seed,
                                       [&](emulated::NoShared&) { encode_scaled_group(work); });
}
void decode(const ScaledWork& work, std::uint64_t seed) {
  emulated::launch<emulated::NoShared>(static_cast<unsigned>(scaled_blocks(work.capacity)),
                                       kThreads, seed,
                                       [&](emulated::NoShared&) { decode_scaled_group(work); });
}

void expect_bits(const float* seen, const std::vector<float>& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_EQ(emulated::bits_of(seen[i]), emulated::bits_of(wanted[i])) << i;
}

void check(std::size_t count, std::size_t offset, unsigned special, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << count << " values, offset " << offset << ", special "
                                  << special);
  const std::vector<float> values = float_groups(count, seed, special),
                           wanted = rounded_by_host(values);
  const std::uint64_t capacity = count + 1000;  // fewer are there
  FloatArray given(capacity, offset), rounded(capacity, offset), decoded(capacity, offset);
  std::copy(values.begin(), values.end(), given.data);
  rounded.data[count] = decoded.data[count] = 77;
  Scaled scaled(capacity, scaled_groups(count));
  std::uint64_t own_count = count;
  encode({scaled.device(), &own_count, capacity, given.data, rounded.data}, seed);
  decode({scaled.device(), &own_count, capacity, nullptr, decoded.data}, seed + 1);
  expect_bits(rounded.data, wanted);
  expect_bits(decoded.data, wanted);
  EXPECT_EQ(rounded.data[count], 77);
  EXPECT_EQ(decoded.data[count], 77);
  encode({scaled.device(), &own_count, capacity, given.data, given.data}, seed);  // in place
  expect_bits(given.data, wanted);
}

TEST(ScaledRoutine, IsWhatTheCollectivesRoundTo) {
  std::uint64_t seed = 1;
  for (const std::size_t count : {1UL, 3UL, 4UL, 127UL, 128UL, 129UL, 1023UL, 1025UL, 50'000UL}) {
    check(count, 0, 4, ++seed);
    check(count, 1, 0, ++seed);
  }
}

// Exponents at both ends, and largest values that round up to a code too many.
TEST(ScaledRoutine, TakesTheLeastAndTheLargest) {
  for (const float largest : {1e-45F, 1.78e-43F, 1.79e-43F, 3.4028235e38F, 3.3895314e38F, 127.4F,
                              127.5F, 127.6F, 255.0F, 0.0F}) {
    std::vector<float> values{largest, -largest, largest / 3, -0.0F};
    const std::vector<float> wanted = rounded_by_host(values);
    Scaled scaled(4, 0);
    std::uint64_t count = 4;
    std::vector<float> decoded(4);
    encode({scaled.device(), &count, 4, values.data(), nullptr}, 1);
    decode({scaled.device(), &count, 4, nullptr, decoded.data()}, 1);
    expect_bits(decoded.data(), wanted);
  }
}

TEST(ScaledRoutine, GroupsWithoutRoomBecomeNan) {
  std::vector<float> values(1000, 1.0F), rounded(1000), decoded(1000);
  for (std::size_t i = 5; i < 1000; i += 256) values[i] = std::numeric_limits<float>::infinity();
  const std::vector<float> wanted = rounded_by_host(values);
  Scaled scaled(1000, 2);
  std::uint64_t count = 1000;
  encode({scaled.device(), &count, 1000, values.data(), rounded.data()}, 1);
  decode({scaled.device(), &count, 1000, nullptr, decoded.data()}, 1);
  expect_bits(decoded.data(), rounded);
  EXPECT_EQ(scaled.exact_count, 4U);
  std::size_t lost = 0;
  for (std::size_t group = 0; group < 8; ++group) {
    if (std::isnan(decoded[group * 128]) && ++lost > 0) continue;
    EXPECT_EQ(std::memcmp(&decoded[group * 128], &wanted[group * 128],
                          4 * std::min<std::size_t>(128, 1000 - group * 128)),
              0);
  }
  EXPECT_EQ(lost, 2U);
}

// What comes from elsewhere may say anything.
TEST(ScaledRoutine, ReadsNothingOutsideOfItsArrays) {
  Scaled scaled(256, 1);
  std::uint64_t count = 256;
  std::vector<float> decoded(256);
  scaled.exponents = {0, 60'000};
  scaled.codes[0] = 0x7fffffff;
  decode({scaled.device(), &count, 256, nullptr, decoded.data()}, 1);
  for (const float value : decoded) ASSERT_TRUE(std::isnan(value));
  count = UINT64_MAX;
  scaled.exponents = {150, 150};
  decode({scaled.device(), &count, 256, nullptr, decoded.data()}, 1);
  EXPECT_EQ(decoded[0], -1);  // of 0xff
  EXPECT_EQ(decoded[3], 0x7f);
}

}  // namespace
}  // namespace sparcl::test
