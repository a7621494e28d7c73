// The state hash on a GPU, against the codec's.

#include "kernels/cuda/cuda_hash.hpp"

#include <gtest/gtest.h>

#include <random>

#include "src/codec/update.hpp"
#include "tests/hardware/gpu_arrays.hpp"

namespace sparcl::test {
namespace {

using kernels::DeviceHash;

class DeviceStateHash : public testing::TestWithParam<DataType> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  }
};
INSTANTIATE_TEST_SUITE_P(, DeviceStateHash,
                         testing::Values(DataType::kInt8, DataType::kBfloat16, DataType::kFloat32,
                                         DataType::kFloat64));

// Arrays that share blocks and arrays of many, added up one by one.
TEST_P(DeviceStateHash, IsTheCodecs) {
  const DataType type = GetParam();
  const std::size_t width = element_bytes(type);
  std::mt19937_64 random(1);
  std::vector<std::vector<std::byte>> arrays;
  std::vector<codec::ArraySpec> specs;
  std::vector<const std::byte*> pointers;
  for (const std::size_t count : {5UL, 65'536UL, 1UL, 20'000'003UL, 70'000UL}) {
    std::vector<std::byte>& own = arrays.emplace_back(count * width);
    for (std::byte& byte : own) byte = static_cast<std::byte>(random());
    specs.push_back({type, count});
  }
  for (const std::vector<std::byte>& own : arrays) pointers.push_back(own.data());
  const codec::BlockMap map(specs);
  const DeviceArray<DeviceHash> total(std::vector<DeviceHash>{{7, 9}});
  for (std::uint32_t i = 0; i < arrays.size(); ++i) {
    const DeviceArray<std::byte> array(arrays[i]);
    const codec::BlockMap::Place place = map.place_of(i, 0);
    const Status done =
        kernels::cuda::hash_array(array.data(), specs[i].count, width, {place.block, place.offset},
                                  total.data(), nullptr, nullptr);
    ASSERT_TRUE(done.ok()) << done.message();
    must(cudaDeviceSynchronize());
  }
  const Hash128 wanted = codec::state_hash(map, pointers, {7, 9}, kernels::cpu_kernels());
  EXPECT_EQ(total.read()[0].low, wanted.low);
  EXPECT_EQ(total.read()[0].high, wanted.high);
}

// Arguments are checked before anything is asked of a GPU.
TEST(DeviceStateHashChecks, RefuseWhatCannotBe) {
  EXPECT_EQ(kernels::cuda::hash_array(nullptr, 1, 3, {}, nullptr, nullptr, nullptr).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(kernels::cuda::hash_array(nullptr, 1, 4, {0, 65'536}, nullptr, nullptr, nullptr).code(),
            Code::kInvalidArgument);
  EXPECT_TRUE(kernels::cuda::hash_array(nullptr, 0, 4, {}, nullptr, nullptr, nullptr)
                  .ok());  // of nothing nothing
}

}  // namespace
}  // namespace sparcl::test
