// The kernels of sums over ranks on a GPU, against the host, bit for bit.

#include "kernels/cuda/cuda_sums.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kernels/accumulate.hpp"
#include "kernels/kernel_set.hpp"
#include "src/sparse/parts/rank_tree.hpp"
#include "src/sparse/selection/candidates.hpp"
#include "src/sparse/selection/residual.hpp"
#include "tests/hardware/gpu_arrays.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: what is tested
using kernels::DeviceEntries;

constexpr std::size_t kSummedCount = 100'003;

template <class V, DataType kData>
struct SummedKind {
  using Value = V;
  static constexpr DataType kDataType = kData;
  static constexpr sparse::WireType kWire{kData == DataType::kBfloat16 ? DataType::kFloat32 : kData,
                                          kData};
};

template <class K>
class DeviceSums : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  }
};
using SummedKinds =
    testing::Types<SummedKind<float, DataType::kFloat32>, SummedKind<float, DataType::kBfloat16>,
                   SummedKind<double, DataType::kFloat64>,
                   SummedKind<std::int32_t, DataType::kInt32>,
                   SummedKind<std::int64_t, DataType::kInt64>>;
TYPED_TEST_SUITE(DeviceSums, SummedKinds);

template <class T>
std::vector<T> values_of(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  for (T& value : values)
    value = static_cast<T>((static_cast<double>(random() % 20'001) - 10'000) / 7);
  return values;
}

template <class T>
std::byte* bytes_of(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

template <class K>
std::vector<typename K::Value> seen_by_host(std::vector<typename K::Value> values) {
  const kernels::KernelSet& host = kernels::reference_kernels();
  std::vector<std::byte> sent(values.size() * element_bytes(K::kDataType));
  sparse::round_to_wire(host, K::kWire, bytes_of(values), values.size(), sent.data());
  sparse::widen_from_wire(host, K::kWire, sent.data(), values.size(), bytes_of(values));
  return values;
}

TYPED_TEST(DeviceSums, RoundAndLeaveTheRest) {
  using Value = typename TypeParam::Value;
  std::vector<Value> values = values_of<Value>(kSummedCount, 1),
                     residual = values_of<Value>(3 * kSummedCount, 2);
  std::vector<Value> seen = seen_by_host<TypeParam>(values);
  std::vector<std::uint64_t> indices(kSummedCount), kept;
  for (std::size_t i = 0; i < kSummedCount; ++i) {
    indices[i] = 3 * i + 1;
    if (i % 5 == 2) kept.push_back(indices[i]);
  }
  const DeviceArray<Value> on_device(values), rounded(kSummedCount), rest(residual);
  const DeviceArray<std::uint64_t> where(indices), some(kept),
      count(std::vector<std::uint64_t>{kSummedCount - 7, kept.size()});
  ASSERT_TRUE(
      round_values(on_device.data(), kSummedCount, TypeParam::kDataType, rounded.data(), nullptr)
          .ok());
  EXPECT_TRUE(rounded.read() == seen);
  const DeviceEntries entries{where.data(), on_device.data(), count.data()},
      of_some{some.data(), nullptr, count.data() + 1};
  ASSERT_TRUE(leave_rest(entries, kSummedCount, rounded.data(), &of_some, kept.size(),
                         TypeParam::kWire.accumulator, rest.data(), nullptr)
                  .ok());
  for (std::size_t i = 2; i < kSummedCount - 7; i += 5) residual[indices[i]] = values[i] - seen[i];
  EXPECT_TRUE(rest.read() == residual);
}

TYPED_TEST(DeviceSums, SumRowsInTheRanksTree) {
  using Value = typename TypeParam::Value;
  const DataType type = TypeParam::kWire.accumulator;
  for (const std::uint32_t ranks : {1U, 5U, 8U}) {
    std::vector<Value> rows = values_of<Value>(ranks * kSummedCount, ranks), wanted(kSummedCount);
    std::vector<const std::byte*> by_rank;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      by_rank.push_back(bytes_of(rows) + rank * kSummedCount * sizeof(Value));
    sparse::RankTree(kernels::reference_kernels().reduce_of(type), {kernels::ReduceOp::kSum, false},
                     static_cast<int>(ranks))
        .reduce(by_rank, sizeof(Value), kSummedCount, bytes_of(wanted));
    const DeviceArray<Value> on_device(rows);
    ASSERT_TRUE(sum_rows(on_device.data(), ranks, kSummedCount, type, nullptr).ok());
    EXPECT_TRUE(on_device.read(kSummedCount) == wanted) << ranks << " ranks";
  }
}

TYPED_TEST(DeviceSums, KeepTheLargest) {
  using Value = typename TypeParam::Value;
  std::vector<Value> values = values_of<Value>(kSummedCount, 4);
  std::vector<std::uint64_t> indices(kSummedCount);
  std::vector<std::uint16_t> positions(kSummedCount);
  for (std::size_t i = 0; i < kSummedCount; ++i) indices[i] = 2 * i;
  const std::uint64_t there = kSummedCount - 1000;
  for (const std::uint64_t k :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{5000}, std::uint64_t{kSummedCount}}) {
    sparse::Candidates host(TypeParam::kWire.accumulator);
    host.reserve(there);
    for (std::uint64_t first = 0; first < there; first += 32'768) {
      const std::uint64_t own = std::min<std::uint64_t>(32'768, there - first);
      for (std::uint64_t i = 0; i < own; ++i) positions[i] = static_cast<std::uint16_t>(2 * i);
      std::memcpy(host.tail(), values.data() + first, own * sizeof(Value));
      host.add(2 * first, positions.data(), own);
    }
    (void)host.cut(0, k);
    const DeviceArray<std::uint64_t> where(indices), count(std::vector<std::uint64_t>{there, 77}),
        kept(k + 1);
    const DeviceArray<Value> on_device(values), kept_values(k + 1);
    const DeviceArray<std::byte> workspace(keep_largest_workspace_bytes(kSummedCount, k));
    const Status done =
        keep_largest({where.data(), on_device.data(), count.data()}, kSummedCount, k,
                     {kept.data(), kept_values.data(), count.data() + 1},
                     TypeParam::kWire.accumulator, workspace.data(), workspace.size(), nullptr);
    ASSERT_TRUE(done.ok()) << done.message();
    ASSERT_EQ(count.read()[1], host.size());
    const std::vector<std::uint64_t> wanted(host.indices().begin(), host.indices().end());
    EXPECT_TRUE(kept.read(host.size()) == wanted) << k;
    EXPECT_EQ(std::memcmp(kept_values.read(host.size()).data(), host.accumulators(),
                          host.size() * sizeof(Value)),
              0)
        << k;
  }
}

TYPED_TEST(DeviceSums, LeaveTheMean) {
  using Value = typename TypeParam::Value;
  if (!info(TypeParam::kDataType).is_float) return;
  const kernels::KernelSet& host = kernels::reference_kernels();
  std::vector<Value> sums = values_of<Value>(kSummedCount, 5),
                     residual = values_of<Value>(kSummedCount, 6), means = sums;
  std::vector<std::uint64_t> indices(kSummedCount);
  for (std::size_t i = 0; i < kSummedCount; ++i) indices[i] = i;
  sparse::divide_accumulators(host, TypeParam::kDataType, bytes_of(means), kSummedCount, 3);
  means = seen_by_host<TypeParam>(means);
  const DeviceArray<Value> on_device(sums), rest(residual);
  const DeviceArray<std::uint64_t> where(indices), count(std::vector<std::uint64_t>{kSummedCount});
  const DeviceEntries entries{where.data(), on_device.data(), count.data()};
  ASSERT_TRUE(
      leave_mean(entries, kSummedCount, 3, 1, TypeParam::kDataType, rest.data(), nullptr).ok());
  (void)sparse::leave_means(TypeParam::kWire.accumulator, bytes_of(means), kSummedCount,
                            bytes_of(residual));
  EXPECT_TRUE(rest.read() == residual);
}

TEST(DeviceLists, WhatIsNoListHasNoEntries) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  constexpr std::uint64_t kCapacity = 50'000, kStride = kCapacity + 2, kElements = 1'000'000;
  std::vector<std::uint64_t> words(4 * kStride);
  for (std::uint64_t list = 0; list < 4; ++list) {
    words[list * kStride] = kCapacity - list;
    for (std::uint64_t i = 0; i < kCapacity; ++i) words[list * kStride + 2 + i] = 5 * i + list;
  }
  words[0] = kCapacity + 1;
  words[kStride + 2 + 40'000] = words[kStride + 2 + 39'999];
  words[2 * kStride + 2 + kCapacity - 3] = kElements;
  const DeviceArray<std::uint64_t> on_device(words);
  ASSERT_TRUE(check_lists({on_device.data(), 4, kStride * 8, kCapacity}, kElements, nullptr).ok());
  words[0] = words[kStride] = words[2 * kStride] = 0;
  EXPECT_TRUE(on_device.read() == words);
}

}  // namespace
}  // namespace sparcl::test
