// What a GPU finds to have changed is what the host finds: of arrays of any types and sizes, in sections of any size.

#include "collectives/device/device_change_finder.hpp"

#include <deque>
#include <optional>

#include "src/api/device_kernel_choice.hpp"
#include "src/base/device_stream.hpp"
#include "src/codec/changed_state.hpp"
#include "tests/codec/codec_support.hpp"
#include "tests/nccl/gpu_ranks.hpp"

namespace sparcl::test {
namespace {

using collectives::DeviceChangeFinder;
using collectives::FinderLimits;

const std::vector<codec::ArraySpec> kArrays{
    {DataType::kBfloat16, 70'001},   {DataType::kBfloat16, 128},   {DataType::kBfloat16, 0}, {DataType::kBfloat16, 200'000},
    {DataType::kFloat32, 3'000},     {DataType::kFloat32, 90'000}, {DataType::kInt64, 1},    {DataType::kFloat8e4m3, 999},
    {DataType::kFloat8e4m3, 64'537}, {DataType::kUint8, 65'536}};

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
    auto made =
        DeviceChangeFinder::create(**api::device_kernels(), *map_, {pointers, {}}, *context_of(arrays_.front().get()), limits);
    ASSERT_TRUE(made.ok()) << made.status().message();
    finder_ = std::move(*made);
  }
  void write(const codec::State& state) const {
    for (std::size_t i = 0; i < arrays_.size(); ++i) arrays_[i].write(state.arrays[i]);
  }
  // The base with what was found over it.
  std::vector<codec::Array> with(std::shared_ptr<const codec::ChangeLog> log, codec::State base) const {
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
    EXPECT_EQ(*finder_->find(), nullptr) << "nothing has been kept";
    finder_->keep({});
    std::uint64_t seed = 80;
    for (const double density : {0.0, 0.001, 0.05, 0.1}) {
      const codec::State target = codec::changed_state(held, density, codec::Change::kUlp, ++seed);
      write(target);
      const auto found = finder_->find();
      ASSERT_TRUE(found.ok()) << found.status().message();
      ASSERT_NE(*found, nullptr);
      EXPECT_TRUE(with(*found, held) == target.arrays) << density;
      const auto again = finder_->find();
      ASSERT_TRUE(again.ok() && *again != nullptr) << "what is not kept is found again";
      EXPECT_EQ((*again)->changes(), (*found)->changes());
      finder_->keep({});
      held = target;
    }
    write(codec::changed_state(held, 0.3, codec::Change::kUlp, ++seed));
    EXPECT_EQ(*finder_->find(), nullptr) << "that much is read";
  }
}

}  // namespace
}  // namespace sparcl::test
