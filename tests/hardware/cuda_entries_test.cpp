// The kernels on sparse entries on a GPU, against the host, bit for bit.

#include "kernels/cuda/cuda_entries.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/accumulate.hpp"
#include "src/sparse/parts/rank_tree.hpp"
#include "tests/emulated/entry_lists.hpp"
#include "tests/hardware/gpu_arrays.hpp"

namespace sparcl::test {
namespace {

using namespace entries;        // NOLINT: what is merged
using namespace kernels::cuda;  // NOLINT: what is tested
using kernels::DeviceEntries;

template <class V>
struct OnDevice {
  explicit OnDevice(std::size_t room) : indices(room), values(room), count(1) {}
  explicit OnDevice(const List<V>& list)
      : indices(list.indices), values(list.values), count(std::vector{list.count}) {}
  DeviceEntries device() const { return {indices.data(), values.data(), count.data()}; }
  std::uint64_t capacity() const { return indices.size(); }
  List<V> read() const {
    List<V> list;
    list.count = count.read()[0];
    list.indices = indices.read(list.count);
    list.values = values.read(list.count);
    return list;
  }
  DeviceArray<std::uint64_t> indices;
  DeviceArray<V> values;
  DeviceArray<std::uint64_t> count;
};

template <class K>
class DeviceMerge : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  }
};
using MergeKinds =
    testing::Types<Kind<float, DataType::kFloat32>, Kind<double, DataType::kFloat64>,
                   Kind<std::uint32_t, DataType::kUint32>, Kind<std::uint64_t, DataType::kUint64>>;
TYPED_TEST_SUITE(DeviceMerge, MergeKinds);

template <class K>
void check(const List<typename K::V>& a, const List<typename K::V>& b) {
  SCOPED_TRACE(testing::Message() << a.count << " and " << b.count << " entries");
  const OnDevice<typename K::V> of_a(a), of_b(b), out(a.count + b.count);
  const DeviceArray<std::byte> workspace(merge_workspace_bytes(of_a.capacity(), of_b.capacity()));
  const Status done =
      merge_entries(of_a.device(), of_a.capacity(), of_b.device(), of_b.capacity(), out.device(),
                    K::kDataType, workspace.data(), workspace.size(), nullptr);
  ASSERT_TRUE(done.ok()) << done.message();
  expect_same(out.read(), merged_by_host<K>(a, b));
}

TYPED_TEST(DeviceMerge, IsTheHostsSum) {
  using V = typename TypeParam::V;
  for (const std::size_t count : {0UL, 1UL, 2303UL, 2304UL, 2305UL, 100'003UL, 3'000'000UL}) {
    for (const std::size_t other : {0UL, 1UL, 50'000UL, 2'000'000UL}) {
      const std::uint64_t most = std::max<std::uint64_t>(2, 3 * std::max(count, other));
      check<TypeParam>(random_list<V>(count, most, count + 1),
                       random_list<V>(other, most, other + 2));
    }
  }
  const List<V> same = random_list<V>(500'000, 2'000'000, 3);
  check<TypeParam>(same, same);
}

// What a graph holds takes the counts of its launch.
TYPED_TEST(DeviceMerge, GoesOnInAGraphWithOtherCounts) {
  using V = typename TypeParam::V;
  const List<V> a = random_list<V>(70'000, 200'000, 1), b = random_list<V>(50'000, 200'000, 2);
  const OnDevice<V> of_a(a), of_b(b), out(120'000);
  const DeviceArray<std::byte> workspace(merge_workspace_bytes(70'000, 50'000));
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launchable = nullptr;
  must(cudaStreamCreate(&stream));
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  const Status done =
      merge_entries(of_a.device(), 70'000, of_b.device(), 50'000, out.device(),
                    TypeParam::kDataType, workspace.data(), workspace.size(), stream);
  must(cudaStreamEndCapture(stream, &graph));
  ASSERT_TRUE(done.ok()) << done.message();
  must(cudaGraphInstantiate(&launchable, graph, 0));
  for (const std::uint64_t count : {0UL, 1UL, 2304UL, 50'000UL}) {
    List<V> fewer = a;
    fewer.count = count;
    must(cudaMemcpy(of_a.count.data(), &count, sizeof count, cudaMemcpyHostToDevice));
    must(cudaGraphLaunch(launchable, stream));
    must(cudaStreamSynchronize(stream));
    expect_same(out.read(), merged_by_host<TypeParam>(fewer, b));
  }
  must(cudaGraphExecDestroy(launchable));
  must(cudaGraphDestroy(graph));
  must(cudaStreamDestroy(stream));
}

class DeviceEntriesOf : public testing::TestWithParam<DataType> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  }
};
INSTANTIATE_TEST_SUITE_P(, DeviceEntriesOf,
                         testing::Values(DataType::kFloat32, DataType::kFloat16,
                                         DataType::kBfloat16, DataType::kFloat8e4m3,
                                         DataType::kFloat8e5m2, DataType::kFloat64,
                                         DataType::kInt32, DataType::kUint32, DataType::kInt64,
                                         DataType::kUint64));

// All elements of two ranks, gathered, merged and scattered as a mean: the bits of the dense one.
TEST_P(DeviceEntriesOf, SumUpToTheDenseMean) {
  constexpr std::size_t kCount = 100'000;
  const DataType type = GetParam();
  const std::size_t width = element_bytes(type),
                    accumulator = element_bytes(kernels::accumulator_type(type));
  std::mt19937_64 random(7);
  std::vector<std::byte> ranks[2], wanted(kCount * width);
  std::vector<std::uint64_t> indices(kCount);
  for (std::size_t i = 0; i < kCount; ++i) indices[i] = i;
  std::vector<std::unique_ptr<DeviceArray<std::byte>>> arrays, values;
  const DeviceArray<std::uint64_t> all(indices), sums_at(2 * kCount),
      count(std::vector<std::uint64_t>{kCount}), sums_count(1);
  std::vector<DeviceEntries> lists;
  for (std::vector<std::byte>& own : ranks) {
    own.resize(kCount * width);
    for (std::byte& byte : own) byte = static_cast<std::byte>(random());
    arrays.push_back(std::make_unique<DeviceArray<std::byte>>(own));
    values.push_back(std::make_unique<DeviceArray<std::byte>>(kCount * accumulator));
    lists.push_back({all.data(), values.back()->data(), count.data()});
    ASSERT_TRUE(
        gather_entries(arrays.back()->data(), false, type, lists.back(), kCount, nullptr).ok());
  }
  const DeviceArray<std::byte> sums(2 * kCount * accumulator),
      workspace(merge_workspace_bytes(kCount, kCount));
  const DeviceEntries sum{sums_at.data(), sums.data(), sums_count.data()};
  ASSERT_TRUE(merge_entries(lists[0], kCount, lists[1], kCount, sum, type, workspace.data(),
                            workspace.size(), nullptr)
                  .ok());
  ASSERT_TRUE(scatter_entries(sum, 2 * kCount, 2, arrays[0]->data(), type, nullptr).ok());
  EXPECT_EQ(sums_count.read()[0], kCount);
  sparse::RankTree reference(kernels::reference_kernels().reduce_of(type),
                             {kernels::ReduceOp::kSum, true}, 2);
  const std::vector<const std::byte*> by_rank{ranks[0].data(), ranks[1].data()};
  reference.reduce(by_rank, width, kCount, wanted.data());
  EXPECT_TRUE(arrays[0]->read() == wanted);
}

// Arguments are checked before anything is asked of a GPU.
TEST(DeviceEntriesChecks, RefuseWhatCannotBe) {
  std::byte space[1024];
  std::uint64_t number = 0;
  const DeviceEntries with_values{&number, &number, &number}, without{&number, nullptr, &number};
  const auto merge = [&](const DeviceEntries& a, std::uint64_t capacity, DataType type,
                         std::size_t bytes) {
    return merge_entries(a, capacity, with_values, 1, with_values, type, space, bytes, nullptr);
  };
  const Status small = merge(with_values, 1, DataType::kFloat32, 16);
  EXPECT_EQ(small.code(), Code::kInvalidArgument);
  EXPECT_NE(small.message().find("workspace"), std::string::npos) << small.message();
  EXPECT_EQ(merge(with_values, std::uint64_t{1} << 60, DataType::kFloat32, sizeof space).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(merge(without, 1, DataType::kFloat32, sizeof space).code(), Code::kInvalidArgument);
  EXPECT_EQ(merge(with_values, 1, DataType::kInt8, sizeof space).code(), Code::kUnsupported);
  EXPECT_EQ(scatter_entries(with_values, 1, 0, space, DataType::kFloat32, nullptr).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(scatter_entries(with_values, 1, 1, space, DataType::kBool, nullptr).code(),
            Code::kUnsupported);
  EXPECT_EQ(gather_entries(space, false, DataType::kInt16, with_values, 1, nullptr).code(),
            Code::kUnsupported);
  EXPECT_TRUE(gather_entries(space, true, DataType::kFloat16, with_values, 0, nullptr)
                  .ok());  // of nothing nothing
}

}  // namespace
}  // namespace sparcl::test
