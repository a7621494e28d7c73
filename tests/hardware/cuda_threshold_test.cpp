// What is large enough, on a GPU, against the host's passes and rules, bit for bit.

#include "kernels/cuda/cuda_threshold.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/accumulate.hpp"
#include "kernels/kernel_set.hpp"
#include "src/codec/change_rule.hpp"
#include "tests/hardware/gpu_arrays.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: what is tested
using Bytes = std::vector<std::byte>;

class DeviceThreshold : public testing::TestWithParam<DataType> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  }
};

constexpr DataType kAll[] = {DataType::kFloat32, DataType::kFloat16,    DataType::kBfloat16,
                             DataType::kFloat64, DataType::kFloat8e4m3, DataType::kFloat8e5m2,
                             DataType::kInt32,   DataType::kUint32,     DataType::kInt64,
                             DataType::kUint64,  DataType::kInt8,       DataType::kUint8,
                             DataType::kInt16,   DataType::kUint16,     DataType::kBool};
INSTANTIATE_TEST_SUITE_P(, DeviceThreshold, testing::ValuesIn(kAll));

Bytes random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST_P(DeviceThreshold, TakesWhatTheHostsPassTakes) {
  const DataType type = GetParam();
  const kernels::AccumulateKernels& host = kernels::cpu_kernels().accumulate_of(type);
  if (host.accumulate == nullptr) GTEST_SKIP() << "skipped: no accumulators";
  const std::size_t width = element_bytes(type),
                    wide = element_bytes(kernels::accumulator_type(type));
  for (const std::size_t count : {1UL, 16'384UL, 16'385UL, 3'000'001UL}) {
    for (const double threshold : {0.0, 2.0, 1e9}) {
      SCOPED_TRACE(testing::Message() << count << " elements, threshold " << threshold);
      const Bytes values = random_bytes(count * width, count);
      Bytes residual = random_bytes(count * wide, count + 1), taken(count * wide);
      const std::uint64_t least = min_key(type, threshold);
      const DeviceArray<std::byte> device_values(values), device_residual(residual),
          device_taken(count * wide), workspace(take_large_workspace_bytes(count));
      const DeviceArray<std::uint64_t> indices(count), found(1);
      std::vector<std::uint64_t> wanted;
      std::vector<std::uint16_t> positions(kBlockElements + kernels::kPositionSlack);
      for (std::size_t at = 0; at < count; at += kBlockElements) {
        const std::size_t size = host.accumulate(
            values.data() + at * width, std::min<std::size_t>(kBlockElements, count - at),
            residual.data() + at * wide, 0, least, positions.data(),
            taken.data() + wanted.size() * wide);
        for (std::size_t i = 0; i < size; ++i) wanted.push_back(at + positions[i]);
      }
      TakeLarge call{};
      call.values = device_values.data();
      call.residual = device_residual.data();
      call.count = call.capacity = count;
      call.least = least;
      call.indices = indices.data();
      call.taken = device_taken.data();
      call.found = found.data();
      const Status done = take_large(call, type, {workspace.data(), workspace.size()}, nullptr);
      ASSERT_TRUE(done.ok()) << done.message();
      ASSERT_EQ(found.read()[0], wanted.size());
      EXPECT_TRUE(indices.read(wanted.size()) == wanted);
      taken.resize(wanted.size() * wide);
      EXPECT_TRUE(device_taken.read(taken.size()) == taken);
      EXPECT_TRUE(device_residual.read() == residual);
    }
  }
}

TEST_P(DeviceThreshold, KeepsTheChangesThatTheHostsRuleKeeps) {
  constexpr std::size_t kCount = kBlockElements;
  const DataType type = GetParam();
  const std::size_t width = element_bytes(type);
  const Bytes base = random_bytes(kCount * width, 1);
  Bytes target = base;
  std::mt19937_64 random(2);
  for (std::byte& byte : target)
    byte = random() % (4 * width) == 0 ? static_cast<std::byte>(random()) : byte;
  const DeviceArray<std::byte> from(base), to(target), workspace(diff_workspace_bytes(kCount)),
      device_old(kCount * width), device_new(kCount * width);
  const DeviceArray<std::uint16_t> device_positions(kCount);
  const DeviceArray<std::uint64_t> starts(2);
  for (const double threshold : {0.0, 0.5, 1e9}) {
    std::vector<std::uint16_t> positions(kCount + kernels::kPositionSlack);
    Bytes old_values((kCount + 64) * width), new_values(old_values.size());
    const std::size_t found = kernels::cpu_kernels().of(type).diff_values(
        base.data(), target.data(), kCount, 0, positions.data(), old_values.data(),
        new_values.data());
    const codec::Piece piece{0, 0, kCount, 0};
    const std::size_t kept = codec::ThresholdRule(threshold).keep(
        {0, type, {&piece, 1}, positions.data(), old_values.data(), new_values.data(), found});
    const DeviceChanges changes{device_positions.data(), device_old.data(), device_new.data(),
                                starts.data()};
    const Status done = diff_large(from.data(), to.data(), kCount, type, threshold, changes, kCount,
                                   {workspace.data(), workspace.size()}, nullptr);
    ASSERT_TRUE(done.ok()) << done.message();
    ASSERT_EQ(starts.read()[1], kept);
    positions.resize(kept);
    new_values.resize(kept * width);
    EXPECT_TRUE(device_positions.read(kept) == positions);
    EXPECT_TRUE(device_new.read(new_values.size()) == new_values);
  }
}

TEST(LeastKey, IsOfTheLeastNumberThatIsNoLess) {
  for (const double threshold : {1.0, 0.1, 3.4e38, 1e-45, 1e300}) {
    const auto least =
        std::bit_cast<float>(static_cast<std::uint32_t>(min_key(DataType::kBfloat16, threshold)));
    EXPECT_GE(static_cast<double>(least), threshold);
    EXPECT_LT(static_cast<double>(std::nextafter(least, 0.0F)), threshold);
    EXPECT_EQ(std::bit_cast<double>(min_key(DataType::kFloat64, threshold)), threshold);
  }
  EXPECT_EQ(min_key(DataType::kFloat32, 0), 1U);  // zeros are never taken
  EXPECT_EQ(min_key(DataType::kInt32, 0), 1U);
  EXPECT_EQ(min_key(DataType::kInt32, 6.5), 7U);
  EXPECT_EQ(min_key(DataType::kUint64, 1e30), UINT64_MAX);
  EXPECT_EQ(min_key(DataType::kFloat32, NAN), 0x7f800001U);
}

TEST(DeviceThresholdChecks, RefuseWhatCannotBe) {
  std::byte space[64];
  TakeLarge call{};
  call.count = 100;
  EXPECT_EQ(take_large(call, DataType::kFloat32, {space, 8}, nullptr).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(take_large(call, DataType::kBool, {space, 64}, nullptr).code(), Code::kUnsupported);
  EXPECT_EQ(diff_large(space, space, 8, DataType::kInt8, -1, {}, 0, {space, 64}, nullptr).code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace sparcl::test
