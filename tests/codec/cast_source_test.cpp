// Masters are read as each element rounded by itself, wherever they lie and whatever part is asked
// for.

#include "src/codec/cast_source.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "src/base/number.hpp"
#include "tests/codec/codec_support.hpp"

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kCount = 5000;

// Any pattern of bits, and what is special.
std::vector<float> masters() {
  std::mt19937 random(1);
  std::vector<float> values(kCount);
  for (float& value : values) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  const std::vector<float> special{
      0.0F,    -0.0F,  1e-40F, -1e-40F,
      448.0F,  1e30F,  -1e30F, std::numeric_limits<float>::infinity(),
      -448.0F, 240.5F, 1.0F,   -std::numeric_limits<float>::quiet_NaN()};
  std::copy(special.begin(), special.end(), values.begin() + 2000);
  return values;
}

TEST(CastSource, RoundsEachElementToTheTypeThatTravels) {
  const std::vector<float> values = masters();
  for (const DataType type :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    ASSERT_TRUE(can_be_cast_to(type));
    const std::size_t width = element_bytes(type);
    std::vector<std::byte> wanted(kCount * width);
    for (std::size_t i = 0; i < kCount; ++i)
      store_number(type, values[i], wanted.data() + i * width);
    for (const std::size_t skew : {0, 1, 2, 4}) {
      std::vector<std::byte> memory(kCount * sizeof(float) + skew);
      std::memcpy(memory.data() + skew, values.data(), kCount * sizeof(float));
      const BlockMap map(std::vector<ArraySpec>{{DataType::kUint8, 3}, {type, kCount}});
      const CastSource source(map, {nullptr, reinterpret_cast<const float*>(memory.data() + skew)},
                              kernels::cpu_kernels());
      for (const auto& [first, count] : {std::pair<std::uint64_t, std::uint64_t>{0, kCount},
                                         {0, 0},
                                         {1, 1023},
                                         {1999, 1025},
                                         {kCount - 1, 1}}) {
        std::vector<std::byte> got(count * width + 1, std::byte{0x5a});
        source.read(1, first, count, got.data());
        EXPECT_EQ(got.back(), std::byte{0x5a});
        EXPECT_EQ(std::memcmp(got.data(), wanted.data() + first * width, count * width), 0)
            << first << " " << count << " " << skew;
      }
    }
  }
  EXPECT_FALSE(can_be_cast_to(DataType::kFloat32));
  EXPECT_FALSE(can_be_cast_to(DataType::kInt8));
}

}  // namespace
}  // namespace sparcl::codec
