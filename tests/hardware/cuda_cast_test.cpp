// The cast on a GPU, against each element rounded by itself.

#include "kernels/cuda/cuda_cast.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "src/base/number.hpp"
#include "tests/emulated/float_patterns.hpp"
#include "tests/hardware/gpu_arrays.hpp"

namespace sparcl::test {
namespace {

using kernels::cuda::cast_floats;

template <class Word>
void check_cast(DataType type, std::size_t count, std::size_t offset) {
  SCOPED_TRACE(testing::Message() << info(type).name << ", " << count << " elements, offset "
                                  << offset);
  const std::vector<float> values = float_patterns(count + offset, count);
  std::vector<Word> wanted(count);
  for (std::size_t i = 0; i < count; ++i)
    store_number(type, values[i + offset], reinterpret_cast<std::byte*>(wanted.data() + i));
  const DeviceArray<float> given(values);
  const DeviceArray<Word> out(count + offset);
  const Status status =
      cast_floats(given.data() + offset, count, type, out.data() + offset, nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  const std::vector<Word> found = out.read();
  EXPECT_EQ(std::memcmp(found.data() + offset, wanted.data(), count * sizeof(Word)), 0);
}

TEST(DeviceCast, RoundsEachElement) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  for (const std::size_t count : {1UL, 8191UL, 8192UL, 100'003UL, 20'000'000UL}) {
    for (const std::size_t offset : {0UL, 1UL, 4UL}) {
      check_cast<std::uint16_t>(DataType::kFloat16, count, offset);
      check_cast<std::uint16_t>(DataType::kBfloat16, count, offset);
      check_cast<std::uint8_t>(DataType::kFloat8e4m3, count, offset);
      check_cast<std::uint8_t>(DataType::kFloat8e5m2, count, offset);
    }
  }
}

TEST(DeviceCastChecks, RefuseWhatCannotBe) {
  EXPECT_EQ(
      cast_floats(nullptr, std::uint64_t{1} << 62, DataType::kBfloat16, nullptr, nullptr).code(),
      Code::kInvalidArgument);
  EXPECT_TRUE(cast_floats(nullptr, 0, DataType::kBfloat16, nullptr, nullptr).ok());
}

}  // namespace
}  // namespace sparcl::test
