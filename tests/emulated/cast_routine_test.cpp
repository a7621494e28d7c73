// The block routine of the cast, run on the host against each element rounded by itself.

#include <gtest/gtest.h>

#include <cstring>

#include "src/base/number.hpp"
#include "tests/emulated/emulated_cuda.hpp"
// After the emulation.
#include "kernels/cuda/cast_tile.cuh"
#include "tests/emulated/float_patterns.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routine under test

template <class Small, class Word>
void check_cast(DataType type, std::size_t count, std::size_t offset) {
  const std::vector<float> values = float_patterns(count, count);
  std::vector<Floats4> in((count + offset) / 4 + 1), out((count + offset + 1) / 4 + 1);
  float* const from = in.front().x + offset;
  Word* const to = reinterpret_cast<Word*>(out.front().x) + offset;
  std::memcpy(from, values.data(), count * sizeof(float));
  std::memset(out.data(), 0x5a, out.size() * sizeof(Floats4));
  emulated::launch<emulated::NoShared>(static_cast<unsigned>(cast_tiles(count)), kThreads, count,
                                       [&](emulated::NoShared&) {
                                         cast_tile<Small, Word>({from, count, to});
                                       });
  for (std::size_t i = 0; i < count; ++i) {
    Word wanted;
    store_number(type, values[i], reinterpret_cast<std::byte*>(&wanted));
    ASSERT_EQ(to[i], wanted) << i << ", offset " << offset;
  }
  EXPECT_EQ(to[count], static_cast<Word>(0x5a5a));
}

TEST(CastRoutine, RoundsEachElement) {
  for (const std::size_t count : {1UL, 7UL, 8UL, 8191UL, 8192UL, 8193UL, 30'000UL}) {
    for (const std::size_t offset : {0UL, 1UL, 4UL}) {
      check_cast<Float16, std::uint16_t>(DataType::kFloat16, count, offset);
      check_cast<Bfloat16, std::uint16_t>(DataType::kBfloat16, count, offset);
      check_cast<Float8e4m3, std::uint8_t>(DataType::kFloat8e4m3, count, offset);
      check_cast<Float8e5m2, std::uint8_t>(DataType::kFloat8e5m2, count, offset);
    }
  }
}

}  // namespace
}  // namespace sparcl::test
