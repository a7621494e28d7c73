// What a GPU finds to have changed is what the host finds: of arrays of any types and sizes, in
// sections of any size.

#include "src/device/device_change_finder.hpp"

#include <deque>
#include <optional>

#include "src/api/device_kernel_choice.hpp"
#include "src/codec/changed_state.hpp"
#include "src/gpu/device_stream.hpp"
#include "tests/codec/codec_support.hpp"
#include "tests/fakes/nccl/gpu_ranks.hpp"

namespace sparcl::test {
namespace {

using device::DeviceChangeFinder;
using device::FinderLimits;

const std::vector<codec::ArraySpec> kArrays{
    {DataType::kBfloat16, 70'001},  {DataType::kBfloat16, 128},   {DataType::kBfloat16, 0},
    {DataType::kBfloat16, 200'000}, {DataType::kFloat32, 3'000},  {DataType::kFloat32, 90'000},
    {DataType::kInt64, 1},          {DataType::kFloat8e4m3, 999}, {DataType::kFloat8e4m3, 64'537},
    {DataType::kUint8, 65'536}};

// A state there, and who looks for changes in it.
class Found : public NcclRanks {
 protected:
  void open(const codec::State& state, const FinderLimits& limits) {
    map_.emplace(state.specs);
    arrays_.clear();
    std::vector<const std::byte*> pointers;
    for (const auto& bytes : state.arrays) {
      arrays_.emplace_back(bytes);
      pointers.push_back(bytes.empty() ? nullptr : arrays_.back().get());
    }
    auto made = DeviceChangeFinder::create(**api::device_kernels(), *map_, {pointers, {}},
                                           *gpu::context_of(arrays_.front().get()), limits);
    ASSERT_TRUE(made.ok()) << made.status().message();
    finder_ = std::move(*made);
  }
  void write(const codec::State& state) const {
    for (std::size_t i = 0; i < arrays_.size(); ++i) arrays_[i].write(state.arrays[i]);
  }
  // The base with what was found over it.
  std::vector<codec::Array> with(std::shared_ptr<const codec::ChangeLog> log,
                                 codec::State base) const {
    const std::vector<std::byte*> held = base.write();
    const codec::ChangedState changed(*map_, held, {std::move(log)}, kernels::cpu_kernels());
    std::vector<codec::Array> all;
    for (std::uint32_t i = 0; i < base.arrays.size(); ++i) {
      all.emplace_back(base.arrays[i].size());
      if (base.specs[i].count > 0) changed.read(i, 0, base.specs[i].count, all.back().data());
    }
    return all;
  }

  std::optional<codec::BlockMap> map_;
  std::deque<OnDevice<std::byte>> arrays_;
  std::unique_ptr<DeviceChangeFinder> finder_;
};

TEST_F(Found, IsAllThatDiffers) {
  for (const FinderLimits& limits : {FinderLimits{}, {1, 1}, {3, 100'000}}) {
    codec::State held = codec::random_state(kArrays, 80);
    open(held, limits);
    EXPECT_EQ(*finder_->find({}), nullptr) << "nothing has been kept";
    finder_->keep({}, {});
    std::uint64_t seed = 80;
    for (const double density : {0.0, 0.001, 0.05, 0.1}) {
      const codec::State target = codec::changed_state(held, density, codec::Change::kUlp, ++seed);
      write(target);
      const auto found = finder_->find({});
      ASSERT_TRUE(found.ok()) << found.status().message();
      ASSERT_NE(*found, nullptr);
      EXPECT_TRUE(with(*found, held) == target.arrays) << density;
      if (density == 0.05) {
        EXPECT_EQ(*finder_->find({}), nullptr)
            << "what was found has become no version: nobody knows what the copy is";
      }
      finder_->keep({}, {});
      held = target;
    }
    write(codec::changed_state(held, 0.3, codec::Change::kUlp, ++seed));
    EXPECT_EQ(*finder_->find({}), nullptr) << "that much is read";
  }
}

// Blocks whose changes find no room with those before come with the next section.
TEST_F(Found, IsAllThatDiffersWhereSectionsHaveNoRoom) {
  const std::vector<codec::ArraySpec> specs{
      {DataType::kBfloat16, 2'000'000}, {DataType::kUint8, 300'000}, {DataType::kUint8, 7}};
  for (const FinderLimits& limits : {FinderLimits{8, 1}, {30, 70'000}, {64, 1}}) {
    codec::State held = codec::random_state(specs, 81);
    open(held, limits);
    finder_->keep({}, {});
    for (int round = 0; round < 2; ++round) {
      codec::State target = held;
      for (std::size_t i = 100'000; i < 200'000; ++i) target.arrays[0][2 * i] ^= std::byte{1};
      for (std::size_t i = 1'500'000; i < 1'600'000; ++i)
        target.arrays[0][2 * i + 1] ^= std::byte{0x80};
      for (std::size_t i = 1'000; i < 80'000; ++i) target.arrays[1][i] ^= std::byte{7};
      target.arrays[2][6] ^= std::byte{7};
      write(target);
      const auto found = finder_->find({});
      ASSERT_TRUE(found.ok() && *found != nullptr);
      EXPECT_EQ((*found)->changes(), 279'001U);
      EXPECT_TRUE(with(*found, held) == target.arrays);
      finder_->keep({}, {});
      held = target;
    }
  }
}

// What is not looked at is not found, also in blocks that it shares, and is what it was when it is
// looked at again.
TEST_F(Found, IsNothingOfArraysThatAreNotLookedAt) {
  const codec::State held = codec::random_state(kArrays, 82),
                     target = codec::changed_state(held, 0.05, codec::Change::kUlp, 83);
  const codec::ChangedHint nothing;
  for (const bool starts_with_hints : {false, true}) {
    open(held, {});
    codec::State sent = held;
    std::vector<const codec::ChangedHint*> hints(kArrays.size(), nullptr);
    for (const std::size_t i : {1U, 3U, 8U}) hints[i] = &nothing;
    if (starts_with_hints) write(target);  // of which nothing was sent
    finder_->keep(
        starts_with_hints ? codec::ChangeFinder::Hints(hints) : codec::ChangeFinder::Hints(),
        sent.write());
    codec::State expected = starts_with_hints ? target : held;
    for (const std::size_t i : {1U, 3U, 8U}) expected.arrays[i] = held.arrays[i];
    if (!starts_with_hints) {
      write(target);
      const auto some = finder_->find(hints);
      ASSERT_TRUE(some.ok() && *some != nullptr);
      codec::State looked_at = target;
      for (const std::size_t i : {1U, 3U, 8U}) looked_at.arrays[i] = held.arrays[i];
      EXPECT_TRUE(with(*some, held) == looked_at.arrays);
      finder_->keep(hints, sent.write());
      expected = looked_at;
    }
    const auto rest = finder_->find({});
    ASSERT_TRUE(rest.ok() && *rest != nullptr);
    EXPECT_TRUE(with(*rest, expected) == target.arrays);
  }
}

}  // namespace
}  // namespace sparcl::test
