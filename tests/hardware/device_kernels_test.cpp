// The kernels on a GPU, against the reference on the host, bit for bit.

#include "kernels/cuda/device_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <random>

#include "src/sparse/mask/mask.hpp"
#include "src/sparse/selection/selection.hpp"
#include "tests/hardware/gpu_arrays.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: what is tested

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  }
};

template <class Word>
class DeviceDiff : public OnGpu {};
using Words = testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(DeviceDiff, Words);

// Diff, and what it has found applied to the base: with the reference's hashes.
template <class Word>
void check_diff(std::size_t count, unsigned permille, std::size_t offset) {
  SCOPED_TRACE(testing::Message() << count << " elements, " << permille
                                  << " of 1,000 changed, offset " << offset);
  std::mt19937_64 random(count + permille);
  std::vector<Word> base(count + offset), target;
  for (Word& element : base) element = static_cast<Word>(random());
  target = base;
  std::vector<std::uint64_t> wanted;
  for (std::size_t i = offset; i < base.size(); ++i) {
    if (random() % 1000 >= permille) continue;
    target[i] ^= static_cast<Word>(Word{1} << (random() % (8 * sizeof(Word))));
    wanted.push_back(i - offset);
  }
  const DeviceArray<Word> old_array(base), new_array(target);
  const DeviceArray<std::uint16_t> positions(wanted.size());
  const DeviceArray<Word> old_values(wanted.size()), new_values(wanted.size());
  const DeviceArray<std::uint64_t> starts(block_count(count) + 1), refused(1);
  const DeviceArray<std::byte> workspace(diff_workspace_bytes(count));
  const DeviceChanges changes{positions.data(), old_values.data(), new_values.data(),
                              starts.data()};
  const Status found =
      diff(old_array.data() + offset, new_array.data() + offset, count, sizeof(Word), changes,
           wanted.size(), {workspace.data(), workspace.size()}, nullptr);
  ASSERT_TRUE(found.ok()) << found.message();
  const std::vector<std::uint64_t> first = starts.read();
  ASSERT_EQ(first.back(), wanted.size());
  const std::vector<std::uint16_t> at = positions.read();
  for (std::size_t block = 0; block + 1 < first.size(); ++block) {
    for (std::uint64_t i = first[block]; i < first[block + 1]; ++i)
      ASSERT_EQ(block * kBlockElements + at[i], wanted[i]) << i;
  }

  const DeviceArray<DeviceChangeHashes> hashes(block_count(count));
  const Status applied = kernels::cuda::apply(changes, old_array.data() + offset, count,
                                              sizeof(Word), hashes.data(), refused.data(), nullptr);
  ASSERT_TRUE(applied.ok()) << applied.message();
  EXPECT_EQ(refused.read()[0], 0U);
  EXPECT_TRUE(old_array.read() == target);
  const kernels::ElementKernels& reference =
      kernels::reference_kernels().elements[std::countr_zero(sizeof(Word))];
  const std::vector<Word> before = old_values.read(), after = new_values.read();
  const std::vector<DeviceChangeHashes> sums = hashes.read();
  for (std::size_t block = 0; block + 1 < first.size(); ++block) {
    const kernels::ChangeHashes expected =
        reference.hash_changes(at.data() + first[block], first[block + 1] - first[block],
                               reinterpret_cast<const std::byte*>(before.data() + first[block]),
                               reinterpret_cast<const std::byte*>(after.data() + first[block]));
    ASSERT_EQ(sums[block].old_low, expected.old_values.low) << block;
    ASSERT_EQ(sums[block].old_high, expected.old_values.high) << block;
    ASSERT_EQ(sums[block].new_low, expected.new_values.low) << block;
    ASSERT_EQ(sums[block].new_high, expected.new_values.high) << block;
  }

  // Now the old values are another array's: nothing is written.
  if (wanted.empty()) return;
  ASSERT_TRUE(kernels::cuda::apply(changes, old_array.data() + offset, count, sizeof(Word), nullptr,
                                   refused.data(), nullptr)
                  .ok());
  EXPECT_EQ(refused.read()[0], wanted.size());
  EXPECT_TRUE(old_array.read() == target);
}

TYPED_TEST(DeviceDiff, IsWhatALoopFinds) {
  for (const std::size_t count :
       {1UL, 31UL, 16'383UL, 16'384UL, 16'385UL, 1'000'003UL, 20'000'000UL}) {
    for (const unsigned permille : {0U, 10U, 1000U}) check_diff<TypeParam>(count, permille, 0);
  }
  check_diff<TypeParam>(1'000'003, 30, 1);
}

TYPED_TEST(DeviceDiff, OfNothingIsNothing) {
  const DeviceArray<std::uint64_t> starts(1);
  const DeviceArray<std::byte> workspace(diff_workspace_bytes(0));
  ASSERT_TRUE(diff(nullptr, nullptr, 0, sizeof(TypeParam),
                   {nullptr, nullptr, nullptr, starts.data()}, 0,
                   {workspace.data(), workspace.size()}, nullptr)
                  .ok());
  EXPECT_EQ(starts.read()[0], 0U);
}

template <DataType kType, class StoredType, class AccumulatorType>
struct SelectedKind {
  static constexpr DataType kDataType = kType;
  using Stored = StoredType;
  using Accumulator = AccumulatorType;
};
template <class K>
class DeviceTopK : public OnGpu {};
using Kinds = testing::Types<SelectedKind<DataType::kFloat32, float, float>,
                             SelectedKind<DataType::kBfloat16, std::uint16_t, float>,
                             SelectedKind<DataType::kFloat16, std::uint16_t, float>,
                             SelectedKind<DataType::kFloat8e4m3, std::uint8_t, float>,
                             SelectedKind<DataType::kFloat8e5m2, std::uint8_t, float>,
                             SelectedKind<DataType::kFloat64, double, double>,
                             SelectedKind<DataType::kInt32, std::int32_t, std::int32_t>,
                             SelectedKind<DataType::kUint32, std::uint32_t, std::uint32_t>,
                             SelectedKind<DataType::kInt64, std::int64_t, std::int64_t>,
                             SelectedKind<DataType::kUint64, std::uint64_t, std::uint64_t>>;
TYPED_TEST_SUITE(DeviceTopK, Kinds);

template <class T>
std::vector<T> random_numbers(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& value : values) {
    const std::uint64_t kind = random() % 64;
    if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(static_cast<double>(random() % 200'001) / 7 - 14'000);
      if (kind == 0) value = -T{0};
      if (kind == 1) value = std::numeric_limits<T>::infinity();
      if (kind == 2) value = std::numeric_limits<T>::quiet_NaN();
      if (kind == 3) value = static_cast<T>(1e-40);
    } else {
      value = static_cast<T>(random());
    }
    if (kind >= 50) value = T{};
  }
  return values;
}

TYPED_TEST(DeviceTopK, IsTheSelectionOfTheCollectives) {
  using Accumulator = typename TypeParam::Accumulator;
  for (const std::size_t count : {1UL, 100UL, 16'384UL, 40'001UL, 5'000'000UL}) {
    for (const std::uint64_t k :
         {std::uint64_t{1}, std::uint64_t{count / 1000 + 1}, std::uint64_t{count / 100 + 1},
          std::uint64_t{count / 2 + 1}, std::uint64_t{count}}) {
      for (const bool has_feedback : {true, false}) {
        SCOPED_TRACE(testing::Message()
                     << count << " elements, k " << k << ", feedback " << has_feedback);
        const auto values = random_numbers<typename TypeParam::Stored>(count, count + k);
        std::vector<Accumulator> expected = random_numbers<Accumulator>(count, count + k + 1);
        const DeviceArray<typename TypeParam::Stored> device_values(values);
        const DeviceArray<Accumulator> residual(expected), taken(k);
        const DeviceArray<std::uint64_t> indices(k), found(1);
        const DeviceArray<std::byte> workspace(
            top_k_workspace_bytes(count, k, TypeParam::kDataType));
        sparse::Selection selection(TypeParam::kDataType, kernels::cpu_kernels());
        const sparse::Selected selected = selection.select(
            reinterpret_cast<const std::byte*>(values.data()),
            has_feedback ? reinterpret_cast<std::byte*>(expected.data()) : nullptr, count, k);
        TopK call{};
        call.values = device_values.data();
        call.residual = has_feedback ? residual.data() : nullptr;
        call.count = count;
        call.k = k;
        call.indices = indices.data();
        call.taken = taken.data();
        call.found = found.data();
        const Status done =
            top_k(call, TypeParam::kDataType, {workspace.data(), workspace.size()}, nullptr);
        ASSERT_TRUE(done.ok()) << done.message();
        ASSERT_EQ(found.read()[0], selected.indices.size());
        ASSERT_TRUE(std::ranges::equal(indices.read(selected.indices.size()), selected.indices));
        const std::vector<Accumulator> accumulators = taken.read(selected.indices.size());
        EXPECT_EQ(std::memcmp(accumulators.data(), selected.accumulators,
                              accumulators.size() * sizeof(Accumulator)),
                  0);
        const std::vector<Accumulator> left = residual.read();
        EXPECT_EQ(std::memcmp(left.data(), expected.data(), count * sizeof(Accumulator)), 0);
      }
    }
  }
}

template <class Word>
class DeviceMask : public OnGpu {};
TYPED_TEST_SUITE(DeviceMask, Words);

template <class Word>
void check_mask(const sparse::Mask& mask) {
  SCOPED_TRACE(testing::Message() << mask.size() << " of " << mask.count());
  std::mt19937_64 random(mask.size());
  const std::size_t count = mask.count(), size = mask.size();
  const auto filled = [&](std::size_t n) {
    std::vector<Word> made(n);
    for (Word& element : made) element = static_cast<Word>(random());
    return made;
  };
  std::vector<Word> array = filled(count), packed = filled(size);
  const std::vector<Word> new_ones = filled(size);
  const DataType type = sizeof(Word) == 1   ? DataType::kUint8
                        : sizeof(Word) == 2 ? DataType::kBfloat16
                        : sizeof(Word) == 4 ? DataType::kFloat32
                                            : DataType::kFloat64;
  const kernels::KernelSet& reference = kernels::reference_kernels();
  mask.pack(reinterpret_cast<const std::byte*>(array.data()), 0, mask.size(), type, reference,
            reinterpret_cast<std::byte*>(packed.data()));
  const sparse::Mask::Places places = mask.places();
  if (places.is_full) return;  // such masks need no kernel
  std::vector<kernels::MaskPart> with_end(places.parts.begin(), places.parts.end());
  with_end.push_back({0, mask.size()});
  const DeviceArray<kernels::MaskPart> parts(with_end);
  const DeviceArray<std::uint16_t> positions(
      std::vector<std::uint16_t>(places.positions.begin(), places.positions.end()));
  const DeviceArray<std::uint64_t> runs(
      std::vector<std::uint64_t>(places.runs.begin(), places.runs.end()));
  const kernels::MaskPlaces on_device{.count = mask.size(),
                                      .parts = parts.data(),
                                      .part_count = places.parts.size(),
                                      .positions = positions.data(),
                                      .runs = runs.data(),
                                      .run_elements = places.run_elements};
  const DeviceArray<Word> device_array(array), taken(mask.size()), given(new_ones);
  ASSERT_TRUE(
      gather_mask(on_device, device_array.data(), sizeof(Word), taken.data(), nullptr).ok());
  EXPECT_TRUE(taken.read() == packed);
  ASSERT_TRUE(
      scatter_mask(on_device, given.data(), sizeof(Word), device_array.data(), nullptr).ok());
  mask.unpack(reinterpret_cast<const std::byte*>(new_ones.data()), 0, mask.size(), type, reference,
              reinterpret_cast<std::byte*>(array.data()));
  EXPECT_TRUE(device_array.read() == array);
}

TYPED_TEST(DeviceMask, IsWhatTheHostPacks) {
  for (const std::uint64_t count : {2UL, 65'537UL, 20'000'003UL}) {
    for (const double density : {0.0, 0.01, 0.5})
      check_mask<TypeParam>(*sparse::Mask::random(count, density, 1));
    for (const std::uint64_t block : {3UL, 64UL, 50'000UL})
      check_mask<TypeParam>(*sparse::Mask::random_blocks(count, block, 0.5, 2));
  }
}

// Arguments are checked before anything is asked of a GPU.
TEST(DeviceKernels, SmallWorkspacesAndOddSizesAreRefused) {
  std::byte byte{};
  const Status small = diff(nullptr, nullptr, 100, 2, {}, 0, {&byte, 1}, nullptr);
  EXPECT_EQ(small.code(), Code::kInvalidArgument);
  EXPECT_NE(small.message().find("workspace"), std::string::npos) << small.message();
  EXPECT_EQ(diff(nullptr, nullptr, 100, 3, {}, 0, {&byte, 1000}, nullptr).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(top_k({}, DataType::kInt8, {&byte, 1 << 20}, nullptr).code(), Code::kUnsupported);
  EXPECT_FALSE(top_k_supports(DataType::kBool));
  EXPECT_EQ(gather_mask({.count = 1}, nullptr, 3, nullptr, nullptr).code(), Code::kInvalidArgument);
  EXPECT_TRUE(scatter_mask({}, nullptr, 4, nullptr, nullptr).ok());  // of nothing nothing
}

}  // namespace
}  // namespace sparcl::test
